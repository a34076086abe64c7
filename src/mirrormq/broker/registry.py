"""Proposals to make and remove what clients declare: queues, exchanges and bindings. What becomes of them is in `records`."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import exchange as exchanges
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.bindings import Binding, Destination
from mirrormq.broker.connection import Connection
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.journal import Proposal
from mirrormq.broker.limits import check_all_queues, check_queue_count
from mirrormq.broker.metadata import Record, below, key, pack
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.table import Table

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


# --- queues -------------------------------------------------------------------------------------------------------

def create_queue(broker: Broker, vhost: VirtualHost, name: str, arguments: QueueArguments, *, durable: bool,
                 auto_delete: bool, owner: Connection | None, home: str = "") -> int:
    """Propose a queue; returns the id that it will have. An owner gets it for itself, on its own node."""
    check_queue_count(vhost.limits, vhost.name, name, len(vhost.queues))
    if broker.limits.queues >= 0:
        check_all_queues(broker.limits.queues, name, sum(len(other.queues) for other in broker.vhosts.values()))
    id = broker.host.fresh_id()
    exclusive = owner is not None
    record: Record = {"id": id, "node": home or broker.node_name, "durable": durable, "auto_delete": auto_delete,
                      "exclusive": exclusive, "arguments": pack(arguments.table)}
    if owner is not None:
        broker.owners[id] = owner
    ring = [] if exclusive else broker.host.ring_for(vhost.name, name, home or broker.node_name)
    if ring:
        record["view"] = first_view(ring)
    proposal = Proposal()
    proposal.absent.append(key("queue", vhost.name, name))
    proposal.present.append(key("vhost", vhost.name))
    proposal.put(key("queue", vhost.name, name), record, leased=exclusive or not (durable or ring), home=home)
    broker.journal.propose(proposal)
    return id


def first_view(ring: list[str]) -> Record:
    """A queue that is empty is in sync wherever it is."""
    return {"epoch": 1, "ring": ring, "learners": [], "reason": "", "stopped": False, "forced": False, "wish": 0}


def record_of(queue: Queue, view: Record) -> Record:
    """A mirrored queue's record with this view."""
    return {"id": queue.log_id, "node": queue.home, "durable": queue.durable, "auto_delete": queue.auto_delete,
            "exclusive": queue.exclusive, "arguments": pack(queue.arguments.table), "view": view}


def restate_queue(broker: Broker, vhost: VirtualHost, queue: Queue) -> None:
    """A queue of this node whose record went with the node's lease, with its bindings."""
    record: Record = {"id": queue.log_id, "node": broker.node_name, "durable": queue.durable, "auto_delete": queue.auto_delete,
                      "exclusive": queue.exclusive, "arguments": pack(queue.arguments.table)}
    place = key("queue", vhost.name, queue.name)
    proposal = Proposal(is_stubborn=True)
    proposal.absent.append(place)
    proposal.put(place, record, leased=True)
    for source in vhost.sources.get(queue, {}):
        for binding in source.bindings_to(queue):
            put_binding(proposal, vhost, source, queue, binding.routing_key, binding.arguments)
    broker.journal.propose(proposal)


def delete_queue(broker: Broker, queue: Queue, *, is_stubborn: bool = False) -> int:
    """Propose that a queue goes, with its bindings and the auto-delete exchanges that lead to it alone. Returns how many
    messages are ready now."""
    if queue.is_deleted or (queue.is_going and is_stubborn):
        return queue.backlog.count
    vhost = broker.vhosts.get(queue.vhost)
    known = None if vhost is None else vhost.queues.get(queue.name)
    if vhost is None or known is None or known.log_id != queue.log_id:
        return 0
    queue.is_going = queue.is_going or is_stubborn
    proposal = Proposal(is_stubborn=is_stubborn)
    proposal.ending = queue
    place = key("queue", vhost.name, queue.name)
    proposal.unchanged.append((place, known.revision))
    proposal.delete(place)
    proposal.prefixes.append(below("binding", vhost.name, "queue", queue.name))
    gone: dict[Destination, None] = {known: None}
    _with_unused(proposal, vhost, gone)
    broker.journal.propose(proposal)
    return queue.backlog.count


# --- exchanges and bindings -----------------------------------------------------------------------------------------

def create_exchange(broker: Broker, vhost: VirtualHost, name: str, type: str, *, durable: bool, auto_delete: bool,
                    internal: bool, arguments: Table) -> None:
    exchanges.create_exchange(vhost.name, name, type, durable=durable, auto_delete=auto_delete, internal=internal,
                              arguments=arguments)
    record: Record = {"id": broker.host.fresh_id(), "type": type, "durable": durable, "auto_delete": auto_delete,
                      "internal": internal, "arguments": pack(arguments)}
    proposal = Proposal()
    proposal.absent.append(key("exchange", vhost.name, name))
    proposal.present.append(key("vhost", vhost.name))
    proposal.put(key("exchange", vhost.name, name), record)
    broker.journal.propose(proposal)


def delete_exchange(broker: Broker, vhost: VirtualHost, exchange: Exchange, *, is_stubborn: bool = False) -> None:
    """With it go auto-delete exchanges that lead to nothing else, however long their chain is."""
    proposal = Proposal(is_stubborn=is_stubborn)
    _drop_exchange(proposal, vhost, exchange)
    gone: dict[Destination, None] = {exchange: None}
    _with_unused(proposal, vhost, gone)
    broker.journal.propose(proposal)


def _with_unused(proposal: Proposal, vhost: VirtualHost, gone: dict[Destination, None]) -> None:
    """Auto-delete exchanges whose last binding goes with what goes."""
    going = list(gone)
    while going:
        for source in vhost.sources.get(going.pop(), {}):
            if source.auto_delete and source not in gone:
                if all(destination in gone for destination in source.destinations()):
                    _drop_exchange(proposal, vhost, source)
                    gone[source] = None
                    going.append(source)
                else:
                    _touch_guard(proposal, vhost, source)


def _drop_exchange(proposal: Proposal, vhost: VirtualHost, exchange: Exchange) -> None:
    place = key("exchange", vhost.name, exchange.name)
    proposal.unchanged.append((place, exchange.revision))
    proposal.delete(place)
    proposal.prefixes.append(below("binding", vhost.name, "exchange", exchange.name))
    if exchange.auto_delete:
        _check_guard(proposal, vhost, exchange)
        proposal.delete(_guard_key(vhost, exchange))


def _guard_key(vhost: VirtualHost, exchange: Exchange) -> str:
    return key("guard", vhost.name, exchange.name)


def _check_guard(proposal: Proposal, vhost: VirtualHost, exchange: Exchange) -> None:
    """Two nodes that change the bindings of an auto-delete exchange at once would each miss that theirs was the last."""
    place = _guard_key(vhost, exchange)
    if exchange.guard:
        proposal.unchanged.append((place, exchange.guard))
    else:
        proposal.absent.append(place)


def _touch_guard(proposal: Proposal, vhost: VirtualHost, exchange: Exchange) -> None:
    _check_guard(proposal, vhost, exchange)
    proposal.put(_guard_key(vhost, exchange), {"id": exchange.id})


def bind(broker: Broker, vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str,
         arguments: Table) -> None:
    source.check_binding(routing_key, arguments)
    if source.has_binding(destination, routing_key, arguments):
        return
    proposal = Proposal()
    _needs(proposal, vhost, source)
    _needs(proposal, vhost, destination)
    put_binding(proposal, vhost, source, destination, routing_key, arguments)
    if source.auto_delete:
        _touch_guard(proposal, vhost, source)
    broker.journal.propose(proposal)


def put_binding(proposal: Proposal, vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str,
                arguments: Table) -> None:
    record: Record = {"ids": [source.id, id_of(destination)], "arguments": pack(arguments)}
    name = binding_key(vhost.name, source, destination, routing_key, arguments)
    if isinstance(destination, Queue) and not destination.keeps_record:
        proposal.put(name, record, leased=True, home=destination.home)      # it goes with its queue, whoever binds it
    else:
        proposal.put(name, record)


def _needs(proposal: Proposal, vhost: VirtualHost, end: Destination) -> None:
    if isinstance(end, Queue) or id_of(end):
        proposal.unchanged.append((key(end.kind, vhost.name, end.name), end.revision))
    else:
        proposal.present.append(key("vhost", vhost.name))       # exchanges that every virtual host has are in no record


def unbind(broker: Broker, vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str,
           arguments: Table) -> None:
    if not source.has_binding(destination, routing_key, arguments):
        return
    proposal = Proposal()
    proposal.delete(binding_key(vhost.name, source, destination, routing_key, arguments))
    if source.auto_delete:
        if len(source.bindings()) == 1:
            _drop_exchange(proposal, vhost, source)
            _with_unused(proposal, vhost, {source: None})
        else:
            _touch_guard(proposal, vhost, source)
    broker.journal.propose(proposal)


def id_of(destination: Destination) -> int:
    if isinstance(destination, Queue):
        return destination.log_id
    assert isinstance(destination, Exchange)
    return destination.id


def binding_key(vhost: str, source: Exchange, destination: Destination, routing_key: str, arguments: Table) -> str:
    digest = Binding(source, destination, routing_key, arguments).properties_key if arguments else ""
    return key("binding", vhost, destination.kind, destination.name, source.name, routing_key, digest)
