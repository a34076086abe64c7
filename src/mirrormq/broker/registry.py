"""Making and removing what exists: virtual hosts, exchanges, queues, bindings, users and policies, each noted in the journal."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import exchange as exchanges
from mirrormq.broker.arguments import QueueArguments, effective_settings
from mirrormq.broker.auth import Permission, TopicPermission, User
from mirrormq.broker.bindings import Binding, Destination
from mirrormq.broker.connection import Connection
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.limits import check_queue_count
from mirrormq.broker.metadata import Record, key, pack
from mirrormq.broker.policy import Policy, match, merge
from mirrormq.broker.queue import Queue
from mirrormq.broker.sharding import ensure_shards
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.methods import BasicCancel
from mirrormq.wire.table import Table

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


# --- queues -------------------------------------------------------------------------------------------------------

def create_queue(broker: Broker, vhost: VirtualHost, name: str, arguments: QueueArguments, *, durable: bool,
                 auto_delete: bool, owner: Connection | None, log_id: int = 0) -> Queue:
    if not log_id:
        check_queue_count(vhost.limits, vhost.name, name, len(vhost.queues))
        log_id = broker.next_log_id
    broker.next_log_id = max(broker.next_log_id, log_id + 1)
    policy, operator = policies_for(broker, vhost.name, name, "queue")
    settings = effective_settings(arguments, merge(policy, operator))
    queue = Queue(broker, vhost.name, name, log_id, durable=durable, auto_delete=auto_delete,
                  owner=owner, arguments=arguments, settings=settings)
    _name_policies(queue, policy, operator)
    vhost.queues[name] = queue
    broker.queues_by_log[log_id] = queue
    if owner is not None:
        owner.exclusive_queues.append(queue)
    elif durable:
        broker.journal.put(key("queue", vhost.name, name), queue_record(queue))
    queue.touch()
    broker.count("queue_created", 1)
    broker.count("queue_declared", 1)
    broker.forget_routes()
    return queue


def queue_record(queue: Queue) -> Record:
    return {"log": queue.log_id, "auto_delete": queue.auto_delete, "arguments": pack(queue.arguments.table)}


def delete_queue(broker: Broker, queue: Queue) -> int:
    """Remove a queue with its bindings and messages; its consumers are told. Returns how many messages were ready."""
    if queue.is_deleted:
        return 0
    queue.is_deleted = True
    vhost = broker.vhosts[queue.vhost]
    count = queue.backlog.count
    vhost.queues.pop(queue.name, None)
    broker.queues_by_log.pop(queue.log_id, None)
    _drop_binding_records(broker, vhost, queue)
    for source in vhost.unbind_everywhere(queue):
        delete_if_unused(broker, vhost, source)
    if queue.owner is not None and queue in queue.owner.exclusive_queues:
        queue.owner.exclusive_queues.remove(queue)
    elif queue.keeps:
        broker.journal.delete(key("queue", vhost.name, queue.name))
    for consumer in list(queue.turns.everyone):
        _cancel(consumer.channel.connection, consumer.channel.number, consumer.tag)
        consumer.channel.consumers.pop(consumer.tag, None)
    queue.abandon()
    broker.forget_timer(queue)
    broker.count_queue(queue)
    broker.log.drop(queue.log_id)
    broker.forget_routes()
    return count


def _cancel(connection: Connection, number: int, tag: str) -> None:
    """Tell a consumer that its queue is gone, if its client can be told."""
    channel = connection.channels.get(number)
    if channel is not None and not channel.is_closing and connection.capabilities.get("consumer_cancel_notify") is True:
        channel.send(BasicCancel(tag, no_wait=True))


# --- exchanges and bindings -----------------------------------------------------------------------------------------

def create_exchange(broker: Broker, vhost: VirtualHost, name: str, type: str, *, durable: bool, auto_delete: bool,
                    internal: bool, arguments: Table) -> Exchange:
    exchange = exchanges.create_exchange(vhost.name, name, type, durable=durable, auto_delete=auto_delete,
                                         internal=internal, arguments=arguments)
    policy, operator = policies_for(broker, vhost.name, name, "exchange")
    exchange.apply_policy(policy, operator)
    vhost.exchanges[name] = exchange
    if durable:
        record: Record = {"type": type, "auto_delete": auto_delete, "internal": internal, "arguments": pack(arguments)}
        broker.journal.put(key("exchange", vhost.name, name), record)
    ensure_shards(broker, vhost, exchange)
    broker.forget_routes()
    return exchange


def delete_exchange(broker: Broker, vhost: VirtualHost, exchange: Exchange) -> None:
    """With it go auto-delete exchanges that were bound to nothing else, however long their chain is."""
    going = [exchange]
    while going:
        gone = going.pop()
        for binding in gone.bindings():
            _drop_record(broker, vhost, binding)
        _drop_binding_records(broker, vhost, gone)
        going += [source for source in vhost.forget_exchange(gone) if _is_unused(vhost, source)]
        if gone.durable:
            broker.journal.delete(key("exchange", vhost.name, gone.name))
        broker.delays.forget(vhost, gone)
    broker.forget_routes()


def _is_unused(vhost: VirtualHost, exchange: Exchange) -> bool:
    return exchange.auto_delete and not exchange.is_bound() and vhost.exchanges.get(exchange.name) is exchange


def delete_if_unused(broker: Broker, vhost: VirtualHost, exchange: Exchange) -> None:
    """An auto-delete exchange goes with its last binding."""
    if _is_unused(vhost, exchange):
        delete_exchange(broker, vhost, exchange)


def bind(broker: Broker, vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str,
         arguments: Table) -> None:
    if vhost.bind(source, destination, routing_key, arguments):
        if source.durable and is_durable(destination):
            broker.journal.put(_binding_key(vhost, source, destination, routing_key, arguments), {"arguments": pack(arguments)})
        broker.forget_routes()


def unbind(broker: Broker, vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str,
           arguments: Table) -> None:
    if vhost.unbind(source, destination, routing_key, arguments):
        if source.durable and is_durable(destination):
            broker.journal.delete(_binding_key(vhost, source, destination, routing_key, arguments))
        delete_if_unused(broker, vhost, source)
        broker.forget_routes()


def is_durable(destination: Destination) -> bool:
    if isinstance(destination, Queue):
        return destination.keeps
    return isinstance(destination, Exchange) and destination.durable


def _binding_key(vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str, arguments: Table) -> str:
    digest = Binding(source, destination, routing_key, arguments).properties_key if arguments else ""
    return key("binding", vhost.name, source.name, destination.kind, destination.name, routing_key, digest)


def _drop_record(broker: Broker, vhost: VirtualHost, binding: Binding) -> None:
    if binding.source.durable and is_durable(binding.destination):
        broker.journal.delete(
            _binding_key(vhost, binding.source, binding.destination, binding.routing_key, binding.arguments))


def _drop_binding_records(broker: Broker, vhost: VirtualHost, destination: Destination) -> None:
    for source in vhost.sources.get(destination, {}):
        for binding in source.bindings_to(destination):
            _drop_record(broker, vhost, binding)


# --- policies -------------------------------------------------------------------------------------------------------

def policies_for(broker: Broker, vhost: str, name: str, kind: str) -> tuple[Policy | None, Policy | None]:
    return (match(broker.policies.values(), vhost, name, kind), match(broker.operator_policies.values(), vhost, name, kind))


def _name_policies(queue: Queue, policy: Policy | None, operator: Policy | None) -> None:
    queue.policy = "" if policy is None else policy.name
    queue.operator_policy = "" if operator is None else operator.name
    queue.effective_policy = merge(policy, operator)


def put_policy(broker: Broker, policy: Policy, *, operator: bool) -> None:
    store = broker.operator_policies if operator else broker.policies
    store[policy.vhost, policy.name] = policy
    record: Record = {"pattern": policy.pattern, "apply_to": policy.apply_to, "definition": policy.definition,
                      "priority": policy.priority}
    broker.journal.put(key("operator_policy" if operator else "policy", policy.vhost, policy.name), record)
    apply_policies(broker, policy.vhost)


def delete_policy(broker: Broker, vhost: str, name: str, *, operator: bool) -> bool:
    store = broker.operator_policies if operator else broker.policies
    if store.pop((vhost, name), None) is None:
        return False
    broker.journal.delete(key("operator_policy" if operator else "policy", vhost, name))
    apply_policies(broker, vhost)
    return True


def apply_policies(broker: Broker, vhost_name: str) -> None:
    """Bring every queue and exchange of a virtual host to the policies as they are now."""
    vhost = broker.vhosts.get(vhost_name)
    if vhost is None:
        return
    for queue in vhost.queues.values():
        policy, operator = policies_for(broker, vhost_name, queue.name, "queue")
        _name_policies(queue, policy, operator)
        queue.apply_settings(effective_settings(queue.arguments, queue.effective_policy))
    for exchange in list(vhost.exchanges.values()):
        policy, operator = policies_for(broker, vhost_name, exchange.name, "exchange")
        exchange.apply_policy(policy, operator)
        ensure_shards(broker, vhost, exchange)
    broker.forget_routes()
    broker.host.schedule()


# --- virtual hosts and users ------------------------------------------------------------------------------------------

def put_vhost(broker: Broker, name: str, *, description: str = "", tags: list[str] | None = None,
              tracing: bool = False) -> VirtualHost:
    vhost = broker.vhosts.get(name)
    if vhost is None:
        vhost = broker.vhosts[name] = VirtualHost(name)
    vhost.description = description
    vhost.tags = tags or []
    vhost.tracing = tracing
    note_vhost(broker, vhost)
    return vhost


def note_vhost(broker: Broker, vhost: VirtualHost) -> None:
    record: Record = {"description": vhost.description, "tags": vhost.tags, "tracing": vhost.tracing, "limits": vhost.limits}
    broker.journal.put(key("vhost", vhost.name), record)


def delete_vhost(broker: Broker, name: str) -> None:
    vhost = broker.vhosts[name]
    for connection in [other for other in broker.connections if other.vhost is vhost]:
        connection.close_with(320, f"CONNECTION_FORCED - vhost '{name}' is deleted", 0, 0)
    for queue in list(vhost.queues.values()):
        delete_queue(broker, queue)
    for exchange in list(vhost.exchanges.values()):
        if exchange.name in vhost.exchanges:
            delete_exchange(broker, vhost, exchange)
    _forget_rules(broker, name)
    broker.authority.delete_vhost(name)
    del broker.vhosts[name]
    broker.journal.delete(key("vhost", name))
    broker.host.schedule()


def _forget_rules(broker: Broker, vhost: str) -> None:
    """Policies, parameters and permissions of a virtual host that goes."""
    for where, policy in list(broker.policies):
        if where == vhost:
            delete_policy(broker, vhost, policy, operator=False)
    for where, policy in list(broker.operator_policies):
        if where == vhost:
            delete_policy(broker, vhost, policy, operator=True)
    for component, where, parameter in list(broker.parameters):
        if where == vhost:
            del broker.parameters[component, where, parameter]
            broker.journal.delete(key("parameter", component, where, parameter))
    for user, where in list(broker.authority.permissions):
        if where == vhost:
            broker.journal.delete(key("permission", user, vhost))
    for user, where, exchange in list(broker.authority.topic_permissions):
        if where == vhost:
            broker.journal.delete(key("topic_permission", user, vhost, exchange))


def put_user(broker: Broker, user: User) -> None:
    broker.authority.put_user(user)
    for connection in broker.connections:
        if connection.user is not None and connection.user.name == user.name:
            connection.user = user
    record: Record = {"hash": user.password_hash, "algorithm": user.hashing_algorithm, "tags": list(user.tags),
                      "limits": user.limits}
    broker.journal.put(key("user", user.name), record)


def delete_user(broker: Broker, name: str) -> bool:
    authority = broker.authority
    for user, vhost in list(authority.permissions):
        if user == name:
            broker.journal.delete(key("permission", name, vhost))
    for user, vhost, exchange in list(authority.topic_permissions):
        if user == name:
            broker.journal.delete(key("topic_permission", name, vhost, exchange))
    if not authority.delete_user(name):
        return False
    broker.journal.delete(key("user", name))
    for connection in [other for other in broker.connections if other.user is not None and other.user.name == name]:
        connection.close_with(320, f"CONNECTION_FORCED - user '{name}' is deleted", 0, 0)
    broker.forget_routes()
    broker.host.schedule()
    return True


def set_permission(broker: Broker, user: str, vhost: str, permission: Permission) -> None:
    broker.authority.set_permission(user, vhost, permission)
    record: Record = {"configure": permission.configure, "write": permission.write, "read": permission.read}
    broker.journal.put(key("permission", user, vhost), record)
    broker.forget_routes()


def clear_permission(broker: Broker, user: str, vhost: str) -> bool:
    found = broker.authority.clear_permission(user, vhost)
    if found:
        broker.journal.delete(key("permission", user, vhost))
        broker.forget_routes()
    return found


def set_topic_permission(broker: Broker, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
    broker.authority.set_topic_permission(user, vhost, exchange, permission)
    record: Record = {"write": permission.write, "read": permission.read}
    broker.journal.put(key("topic_permission", user, vhost, exchange), record)
    broker.forget_routes()


def clear_topic_permissions(broker: Broker, user: str, vhost: str, exchange: str | None = None) -> None:
    for who, where, name in list(broker.authority.topic_permissions):
        if who == user and where == vhost and exchange in (None, name):
            broker.journal.delete(key("topic_permission", user, vhost, name))
    broker.authority.clear_topic_permissions(user, vhost, exchange)
    broker.forget_routes()
