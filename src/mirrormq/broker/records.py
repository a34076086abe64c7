"""The broker's copy of what the store holds: every record that the store accepted is applied here, on every node, in its order.

Rules
 1. Only this module makes and removes virtual hosts, users, exchanges, queues, bindings and policies.
 2. Ids tell things from others that had the same name: a binding whose ends have other ids is a leftover and binds nothing.
 3. What follows from many records at once (policies, unused exchanges, routes) is done at the end of a batch.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mirrormq.broker import agreement, registry
from mirrormq.broker import exchange as exchanges
from mirrormq.broker.arguments import QueueArguments, effective_settings
from mirrormq.broker.auth import Permission, TopicPermission, User
from mirrormq.broker.bindings import Destination
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.expiry import send_all_postponed
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.moving import follow_view, put_before
from mirrormq.broker.journal import Proposal
from mirrormq.broker.metadata import Record, parts, unpack
from mirrormq.broker.policy import Policy, merge
from mirrormq.broker.queue import Queue
from mirrormq.broker.ruling import apply_policies, name_policies, policies_for
from mirrormq.broker.vhost import VirtualHost

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

ORDER: Final = ("vhost", "user", "permission", "topic_permission", "policy", "operator_policy", "parameter", "global_parameter",
                "exchange", "guard", "queue", "binding")
CLUSTER_NAME: Final = "cluster_name"


class Records:
    """Applies records to a broker. `finish` ends a batch."""

    def __init__(self, broker: Broker) -> None:
        self.broker: Broker = broker
        self.is_loading: bool = False
        self.ruled: dict[str, None] = {}            # virtual hosts whose policies are to be looked at again
        self.bereft: dict[Exchange, None] = {}      # auto-delete exchanges that lost a binding
        self.leftovers: list[tuple[str, int]] = []  # bindings whose ends are gone, found while loading

    def load(self, items: list[tuple[str, str, int]]) -> None:
        """Everything that the store holds when the node starts."""
        self.is_loading = True
        by_kind: dict[str, list[tuple[str, str, int]]] = {kind: [] for kind in ORDER}
        for item in items:
            by_kind.setdefault(parts(item[0])[0], []).append(item)
        for kind in ORDER:
            for name, text, revision in by_kind[kind]:
                self.apply(name, text, revision)
        self.is_loading = False
        self.bereft.clear()
        self.finish()

    def apply(self, name: str, text: str | None, revision: int) -> None:
        """One record as it is now; None if it is gone."""
        names = parts(name)
        kind = names.pop(0)
        record: Record | None = None if text is None else json.loads(text)
        if kind in ("exchange", "guard", "queue", "binding"):
            vhost = self.broker.vhosts.get(names[0])
            if vhost is not None:
                self._topology(vhost, kind, name, names, record, revision)
        elif kind == "vhost":
            self._vhost(names[0], record)
        elif kind in ("policy", "operator_policy"):
            self._policy(names[0], names[1], record, operator=kind == "operator_policy")
        else:
            self._rule(kind, names, record)

    def finish(self) -> None:
        broker = self.broker
        broker.journal.world += 1
        ruled = list(self.ruled)
        self.ruled.clear()
        for name in ruled:
            apply_policies(broker, name)
        if ruled:
            broker.host.policies_changed()
        bereft = list(self.bereft)
        self.bereft.clear()
        for exchange in bereft:
            vhost = broker.vhosts.get(exchange.vhost)
            if vhost is not None and vhost.exchanges.get(exchange.name) is exchange and not exchange.is_bound():
                registry.delete_exchange(broker, vhost, exchange, is_stubborn=True)
        broker.forget_routes()
        agreement.look_after_stranded(broker)
        broker.host.schedule()

    # --- rules --------------------------------------------------------------------------------------------------------

    def _vhost(self, name: str, record: Record | None) -> None:
        broker = self.broker
        vhost = broker.vhosts.get(name)
        if record is None:
            if vhost is not None:
                self._drop_vhost(vhost)
            return
        if vhost is None:
            vhost = broker.vhosts[name] = VirtualHost(name)
            self.ruled[name] = None                 # the configuration may have a policy for it
        vhost.description = record["description"]
        vhost.tags = record["tags"]
        vhost.tracing = record["tracing"]
        broker.mind_tracing()
        vhost.limits = record["limits"]

    def _drop_vhost(self, vhost: VirtualHost) -> None:
        broker = self.broker
        for connection in [other for other in broker.connections if other.vhost is vhost]:
            connection.close_with(320, f"CONNECTION_FORCED - vhost '{vhost.name}' is deleted", 0, 0)
        for queue in list(vhost.queues.values()):
            remove_queue(broker, vhost, queue)
        for exchange in list(vhost.exchanges.values()):
            self._remove_exchange(vhost, exchange)
        broker.authority.delete_vhost(vhost.name)
        for store in (broker.policies, broker.operator_policies):
            for place in [place for place in store if place[0] == vhost.name]:
                del store[place]
        for parameter in [parameter for parameter in broker.parameters if parameter[1] == vhost.name]:
            del broker.parameters[parameter]
            broker.host.parameter_changed(*parameter)
        del broker.vhosts[vhost.name]
        broker.mind_tracing()

    def _policy(self, vhost: str, name: str, record: Record | None, *, operator: bool) -> None:
        store = self.broker.operator_policies if operator else self.broker.policies
        if record is None:
            store.pop((vhost, name), None)
        else:
            store[vhost, name] = Policy(vhost, name, record["pattern"], record["apply_to"], record["definition"],
                                        record["priority"])
        self.ruled[vhost] = None

    def _rule(self, kind: str, names: list[str], record: Record | None) -> None:
        broker = self.broker
        authority = broker.authority
        if kind == "user":
            self._user(names[0], record)
        elif kind == "permission":
            if record is None:
                authority.clear_permission(names[0], names[1])
            else:
                authority.set_permission(names[0], names[1],
                                         Permission(record["configure"], record["write"], record["read"]))
        elif kind == "topic_permission":
            if record is None:
                authority.clear_topic_permissions(names[0], names[1], names[2])
            else:
                authority.set_topic_permission(names[0], names[1], names[2], TopicPermission(record["write"], record["read"]))
        elif kind == "parameter":
            parameter = (names[1], names[0], names[2])
            if record is None:
                broker.parameters.pop(parameter, None)
            else:
                broker.parameters[parameter] = record["value"]
            broker.host.parameter_changed(*parameter)
        elif kind == "global_parameter":
            self._global_parameter(names[0], record)

    def _user(self, name: str, record: Record | None) -> None:
        broker = self.broker
        if record is None:
            broker.authority.delete_user(name)
            for connection in [other for other in broker.connections if other.user is not None and other.user.name == name]:
                connection.close_with(320, f"CONNECTION_FORCED - user '{name}' is deleted", 0, 0)
            return
        user = User(name, record["hash"], record["algorithm"], tuple(record["tags"]), record["limits"])
        broker.authority.put_user(user)
        for connection in broker.connections:
            if connection.user is not None and connection.user.name == name:
                connection.user = user

    def _global_parameter(self, name: str, record: Record | None) -> None:
        broker = self.broker
        if record is None:
            broker.global_parameters.pop(name, None)
        else:
            broker.global_parameters[name] = record["value"]
            if name == CLUSTER_NAME and isinstance(record["value"], str):
                broker.cluster_name = record["value"]

    # --- exchanges, queues and bindings -------------------------------------------------------------------------------

    def _topology(self, vhost: VirtualHost, kind: str, name: str, names: list[str], record: Record | None,
                  revision: int) -> None:
        if kind == "queue":
            self._queue(vhost, names[1], record, revision)
        elif kind == "exchange":
            self._exchange(vhost, names[1], record, revision)
        elif kind == "guard":
            exchange = vhost.exchanges.get(names[1])
            if exchange is not None:
                exchange.guard = 0 if record is None else revision
        else:
            self._binding(vhost, name, names, record, revision)

    def _exchange(self, vhost: VirtualHost, name: str, record: Record | None, revision: int) -> None:
        broker = self.broker
        found = vhost.exchanges.get(name)
        if found is not None:
            if record is not None and found.id == record["id"]:
                found.revision = revision
                return
            self._remove_exchange(vhost, found)
        if record is None:
            return
        exchange = exchanges.create_exchange(vhost.name, name, record["type"], durable=record["durable"],
                                             auto_delete=record["auto_delete"], internal=record["internal"],
                                             arguments=unpack(record["arguments"]))
        exchange.id = record["id"]
        exchange.revision = revision
        policy, operator = policies_for(broker, vhost.name, name, "exchange")
        exchange.apply_policy(policy, operator)
        vhost.exchanges[name] = exchange
        if exchange.is_delayed:
            broker.delays.open(vhost, exchange)
        if exchange.effective_policy:
            self.ruled[vhost.name] = None           # it may want shards

    def _remove_exchange(self, vhost: VirtualHost, exchange: Exchange) -> None:
        for source in vhost.forget_exchange(exchange):
            self._lost_binding(source)
        self.broker.delays.forget(vhost, exchange)

    def _lost_binding(self, source: Exchange) -> None:
        """Whoever proposed this has proposed the end of an unused exchange too, unless it was a lease that ran out."""
        if source.auto_delete and not source.is_bound():
            self.bereft[source] = None

    def _queue(self, vhost: VirtualHost, name: str, record: Record | None, revision: int) -> None:
        broker = self.broker
        found = vhost.queues.get(name)
        if found is not None:
            if record is not None and found.log_id == record["id"]:
                found.revision = revision
                if "view" in record:
                    self._view(vhost, found, record["view"], revision)
                return
            for source in remove_queue(broker, vhost, found):
                self._lost_binding(source)
        if record is not None:
            queue = self._make_queue(vhost, name, record)
            queue.revision = revision
            if "view" in record:
                self._view(vhost, queue, record["view"], revision)
            elif "ha-mode" in queue.effective_policy and not queue.is_away and not queue.exclusive:
                self.ruled[vhost.name] = None       # whoever declared it did not know of the policy yet
            if queue.exclusive and not queue.is_away and queue.owner is None:
                registry.delete_queue(broker, queue, is_stubborn=True)      # its owner has left before it was there

    def _make_queue(self, vhost: VirtualHost, name: str, record: Record) -> Queue:
        broker = self.broker
        arguments = QueueArguments(unpack(record["arguments"]))
        policy, operator = policies_for(broker, vhost.name, name, "queue")
        settings = effective_settings(arguments, merge(policy, operator))
        view = record.get("view")
        home: str = record["node"] if view is None else view["ring"][0]
        if home == broker.node_name and view is None:
            owner = broker.owners.pop(record["id"], None)
            if owner is not None and (owner.is_over or owner.is_released):
                owner = None
            queue: Queue = Queue(broker, vhost.name, name, record["id"], durable=record["durable"],
                                 auto_delete=record["auto_delete"], owner=owner, arguments=arguments, settings=settings)
            broker.queues_by_log[queue.log_id] = queue
            broker.count("queue_created", 1)
            broker.count("queue_declared", 1)
            if owner is not None:
                owner.exclusive_queues.append(queue)
        else:
            queue = AwayQueue(broker, vhost.name, name, record["id"], home=home, durable=record["durable"],
                              auto_delete=record["auto_delete"], owner=None, arguments=arguments, settings=settings)
        queue.exclusive = record["exclusive"]
        queue.keeps_record = (record["durable"] or view is not None) and not record["exclusive"]
        name_policies(queue, policy, operator)
        vhost.put_queue(queue)
        queue.touch()
        if not queue.is_away:
            broker.forwarding.queue_here(queue)
        return queue

    def _view(self, vhost: VirtualHost, found: Queue, view: Record, revision: int) -> None:
        front = found if isinstance(found, AwayQueue) else put_before(self.broker, vhost, found)
        if not front.is_mirrored:
            front.is_mirrored = True
            self.broker.forwarding.mirrored[front.log_id] = front
        ring = tuple(view["ring"])
        if ring[0] != self.broker.node_name:
            self.broker.forwarding.drop_parked(front.log_id)
        follow_view(front, ring, tuple(view["learners"]))
        self.broker.host.view_seen(front, view, revision)

    def _binding(self, vhost: VirtualHost, name: str, names: list[str], record: Record | None, revision: int) -> None:
        _, kind, where, source_name, routing_key, digest = names
        source = vhost.exchanges.get(source_name)
        found: Destination | None = vhost.queues.get(where) if kind == "queue" else vhost.exchanges.get(where)
        if source is None or found is None:
            if record is not None and self.is_loading:
                self.leftovers.append((name, revision))
            return
        if record is None:
            for binding in source.bindings_to(found):
                if binding.routing_key == routing_key and (binding.properties_key if binding.arguments else "") == digest:
                    vhost.unbind(source, found, routing_key, binding.arguments)
                    self._lost_binding(source)
        elif record["ids"] == [source.id, registry.id_of(found)]:
            vhost.bind(source, found, routing_key, unpack(record["arguments"]))
        elif self.is_loading:
            self.leftovers.append((name, revision))

    def end_transient(self, revision: int) -> None:
        """Propose the end of what does not outlive the last node: what is not durable, and what binds nothing.
        Only of what was there at this revision, and as it was: another node may be as young as this one."""
        for name, written in self.leftovers:
            if written <= revision:
                proposal = Proposal()
                proposal.unchanged.append((name, written))
                proposal.delete(name)
                self.broker.journal.propose(proposal)
        for vhost in self.broker.vhosts.values():
            for exchange in vhost.exchanges.values():
                if exchange.id and not exchange.durable and exchange.revision <= revision:
                    registry.delete_exchange(self.broker, vhost, exchange)
            for queue in vhost.queues.values():
                if queue.is_away and not queue.durable and queue.keeps_record and queue.revision <= revision:
                    registry.delete_queue(self.broker, queue)

    def is_leased_here(self, name: str) -> bool:
        """Whether this is the record of a queue that lives on this node as long as the node does, or of a binding to it."""
        names = parts(name)
        vhost = self.broker.vhosts.get(names[1]) if len(names) > 2 else None
        if vhost is None or names[0] not in ("queue", "binding"):
            return False
        queue = vhost.queues.get(names[2] if names[0] == "queue" else names[3])
        return queue is not None and not queue.is_away and not queue.keeps_record and not queue.is_going

    def restate(self) -> None:
        """The node's lease ran out although it lives: propose anew what hung on it. Queues that were to go have gone with it."""
        broker = self.broker
        for queue in list(broker.queues_by_log.values()):
            vhost = broker.vhosts.get(queue.vhost)
            if queue.keeps_record or vhost is None or vhost.queues.get(queue.name) is not queue:
                continue
            if queue.is_going:
                self._queue(vhost, queue.name, None, 0)
            else:
                registry.restate_queue(broker, vhost, queue)
        self.finish()


def remove_queue(broker: Broker, vhost: VirtualHost, queue: Queue) -> list[Exchange]:
    """A queue is gone: its bindings and messages go, its consumers are told. Returns the exchanges that led to it."""
    served = broker.serving(queue)
    if served is not None:
        send_all_postponed(served)
    broker.host.queue_ends(queue, vhost.bindings_to(queue))
    queue.is_deleted = True
    vhost.forget_queue(queue)
    if not queue.is_away:
        broker.queues_by_log.pop(queue.log_id, None)
    sources = vhost.unbind_everywhere(queue)
    if queue.owner is not None and queue in queue.owner.exclusive_queues:
        queue.owner.exclusive_queues.remove(queue)
    for consumer in list(queue.turns.everyone):
        consumer.channel.cancel_consumer(consumer)
    queue.abandon()
    broker.forget_timer(queue)
    if broker.forwarding.mirrored.pop(queue.log_id, None) is not None:
        broker.host.queue_gone(queue.log_id)
    elif not queue.is_away:
        broker.count_queue(queue)
        broker.log.drop(queue.log_id)
    return sources
