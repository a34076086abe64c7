"""Proposals to make and remove what clients declare: queues, exchanges and bindings. What becomes of them is in `records`."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import exchange as exchanges
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.bindings import Binding, Destination
from mirrormq.broker.connection import Connection
from mirrormq.broker.copies import GROUP, copy_name, is_copy_for
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.journal import Proposal, Slices
from mirrormq.broker.limits import check_all_queues, check_queue_count
from mirrormq.broker.metadata import Record, below, key, pack
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.errors import PreconditionFailed
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
    proposal.owned = id if exclusive else 0
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


def bindings_of(queue: Queue) -> list[tuple[str, Record]]:
    """The records of everything that is bound to it."""
    vhost = queue.broker.vhosts[queue.vhost]
    found = [(source, binding) for source in vhost.sources.get(queue, {}) for binding in source.bindings_to(queue)]
    return [(binding_key(queue.vhost, source, queue, binding.routing_key, binding.arguments),
             {"ids": [source.id, queue.log_id], "arguments": pack(binding.arguments)}) for source, binding in found]


def restate_queue(broker: Broker, vhost: VirtualHost, queue: Queue) -> None:
    """A queue of this node whose record went with the node's lease, with its bindings: as many as there is room for, then the
    others, as long as the record is the one that was restated."""
    record: Record = {"id": queue.log_id, "node": broker.node_name, "durable": queue.durable, "auto_delete": queue.auto_delete,
                      "exclusive": queue.exclusive, "arguments": pack(queue.arguments.table)}
    place = key("queue", vhost.name, queue.name)
    first = last = Proposal(is_stubborn=True)
    first.restating = queue
    first.absent.append(place)
    first.put(place, record, leased=True)
    for source in vhost.sources.get(queue, {}):
        for binding in source.bindings_to(queue):
            if not last.has_room(0, 1):
                last.sequel = Proposal(is_stubborn=True)
                last = last.sequel
                last.restating = queue
                last.same.append((place, first.writes[0].text or ""))
            put_binding(last, vhost, source, queue, binding.routing_key, binding.arguments)
    broker.journal.propose(first)


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
    slices = Slices(is_stubborn=is_stubborn)
    proposal = slices.proposals[0]
    proposal.ending = queue
    place = key("queue", vhost.name, queue.name)
    proposal.unchanged.append((place, known.revision))
    proposal.delete(place)
    proposal.prefixes.append(below("binding", vhost.name, "queue", queue.name))
    for group in _groups_at(vhost, known):
        _drop_copy(slices, vhost, known, group)
    gone: dict[Destination, None] = {known: None}
    _with_unused(slices, vhost, gone)
    broker.journal.propose_all(slices)
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
    """With it go its bindings both ways, and auto-delete exchanges that lead to nothing else, however long their chain is."""
    slices = Slices(is_stubborn=is_stubborn)
    _drop_bindings(slices, vhost, exchange)
    for end in exchange.destinations():
        if isinstance(end, Queue):
            _drop_unwanted_copies(slices, vhost, exchange, end)
    _drop_exchange(slices, vhost, exchange)
    gone: dict[Destination, None] = {exchange: None}
    _with_unused(slices, vhost, gone)
    broker.journal.propose_all(slices)


def _drop_bindings(slices: Slices, vhost: VirtualHost, exchange: Exchange) -> None:
    """Those from the exchange, each part of them only while the exchange is there: a later one of its name may have the same."""
    for binding in exchange.bindings():
        proposal = slices.room(4, 4)            # what else the last part may have to take
        if not proposal.writes:
            proposal.unchanged.append((key("exchange", vhost.name, exchange.name), exchange.revision))
        proposal.delete(binding_key(vhost.name, exchange, binding.destination, binding.routing_key, binding.arguments))


def _with_unused(slices: Slices, vhost: VirtualHost, gone: dict[Destination, None]) -> None:
    """Auto-delete exchanges whose last binding goes with what goes. If two nodes each take one of the last two bindings, the
    exchange is found without any when both have been applied (`Records.finish`)."""
    going = list(gone)
    while going:
        for source in vhost.sources.get(going.pop(), {}):
            if source.auto_delete and source not in gone and all(_is_going(end, gone) for end in source.destinations()):
                _drop_exchange(slices, vhost, source)
                gone[source] = None
                going.append(source)


def _is_going(end: Destination, gone: dict[Destination, None]) -> bool:
    return end in gone or (isinstance(end, Queue) and end.is_going)


def _drop_exchange(slices: Slices, vhost: VirtualHost, exchange: Exchange) -> None:
    proposal = slices.room(2, 3)
    place = key("exchange", vhost.name, exchange.name)
    if (place, exchange.revision) not in proposal.unchanged:
        proposal.unchanged.append((place, exchange.revision))
    proposal.delete(place)
    proposal.prefixes.append(below("binding", vhost.name, "exchange", exchange.name))
    if exchange.auto_delete:
        guard = _guard_key(vhost, exchange)
        if exchange.guard:
            proposal.unchanged.append((guard, exchange.guard))
        else:
            proposal.absent.append(guard)
        proposal.delete(guard)


def _guard_key(vhost: VirtualHost, exchange: Exchange) -> str:
    """Every binding of an auto-delete exchange writes this record, and its end needs it unchanged: who unbinds the last binding
    on one node must not take away what is being bound on another. Bindings do not hinder each other."""
    return key("guard", vhost.name, exchange.name)


def bind(broker: Broker, vhost: VirtualHost, source: Exchange, destination: Destination, routing_key: str,
         arguments: Table) -> None:
    source.check_binding(routing_key, arguments)
    proposal = Proposal()
    if source.groups and isinstance(destination, Queue) and not destination.exclusive:
        _put_copies(broker, proposal, vhost, source, destination)
    if source.has_binding(destination, routing_key, arguments):
        if proposal.writes:
            broker.journal.propose(proposal)
        return
    _needs(proposal, vhost, source)
    _needs(proposal, vhost, destination)
    put_binding(proposal, vhost, source, destination, routing_key, arguments)
    if source.auto_delete:
        proposal.put(_guard_key(vhost, source), {"id": source.id})
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
    slices = Slices()
    slices.proposals[0].delete(binding_key(vhost.name, source, destination, routing_key, arguments))
    if isinstance(destination, Queue) and len(source.bindings_to(destination)) == 1:
        _drop_unwanted_copies(slices, vhost, source, destination)
    if source.auto_delete and len(source.bindings()) == 1:
        _drop_exchange(slices, vhost, source)
        _with_unused(slices, vhost, {source: None})
    broker.journal.propose_all(slices)


def id_of(destination: Destination) -> int:
    if isinstance(destination, Queue):
        return destination.log_id
    assert isinstance(destination, Exchange)
    return destination.id


def binding_key(vhost: str, source: Exchange, destination: Destination, routing_key: str, arguments: Table) -> str:
    digest = Binding(source, destination, routing_key, arguments).properties_key if arguments else ""
    return key("binding", vhost, destination.kind, destination.name, source.name, routing_key, digest)


# --- mirrored exchanges ---------------------------------------------------------------------------------------------

def _put_copies(broker: Broker, proposal: Proposal, vhost: VirtualHost, source: Exchange, queue: Queue) -> None:
    """The queues that groups of the exchange have behind this one: where it is, and as durable."""
    for group in source.groups:
        name = copy_name(queue.name, group)
        place = key("queue", vhost.name, name)
        found = vhost.queues.get(name)
        if found is None:
            check_queue_count(vhost.limits, vhost.name, name, len(vhost.queues))
            _put_copy(broker, proposal, vhost, queue, group)
        elif is_copy_for(found, queue.name, group):
            proposal.unchanged.append((place, found.revision))
        else:
            raise PreconditionFailed(f"queue '{queue.name}' in vhost '{vhost.name}' cannot be bound to the mirrored exchange "
                                     f"'{source.name}': queue '{name}' is there, and is not its copy")


def _put_copy(broker: Broker, proposal: Proposal, vhost: VirtualHost, queue: Queue, group: str) -> None:
    name = copy_name(queue.name, group)
    if len(name.encode("utf-8", "surrogateescape")) > 255:
        raise PreconditionFailed(f"the copy of queue '{queue.name}' for group '{group}' would have a name of more than 255 bytes")
    home = queue.home or broker.node_name
    arguments: Table = {"x-copy-from": queue.name, GROUP: group}
    record: Record = {"id": broker.host.fresh_id(), "node": home, "durable": queue.durable, "auto_delete": False,
                      "exclusive": False, "arguments": pack(arguments)}
    ring = broker.host.ring_for(vhost.name, name, home)
    if ring:
        record["view"] = first_view(ring)
    place = key("queue", vhost.name, name)
    proposal.absent.append(place)
    proposal.put(place, record, leased=not (queue.durable or ring), home=home)


def _groups_at(vhost: VirtualHost, queue: Queue, without: Exchange | None = None) -> dict[str, None]:
    """The groups of the mirrored exchanges that lead to a queue."""
    return {group: None for source in vhost.sources.get(queue, {}) if source is not without for group in source.groups}


def _drop_unwanted_copies(slices: Slices, vhost: VirtualHost, source: Exchange, queue: Queue) -> None:
    """The exchange leads to the queue no more; another may."""
    if source.groups:
        wanted = _groups_at(vhost, queue, without=source)
        for group in source.groups:
            if group not in wanted:
                _drop_copy(slices, vhost, queue, group)


def _drop_copy(slices: Slices, vhost: VirtualHost, queue: Queue, group: str) -> None:
    found = vhost.queues.get(copy_name(queue.name, group))
    if found is not None and is_copy_for(found, queue.name, group):
        proposal = slices.room(1, 2)
        place = key("queue", vhost.name, found.name)
        proposal.unchanged.append((place, found.revision))
        proposal.delete(place)
        proposal.prefixes.append(below("binding", vhost.name, "queue", found.name))
