"""Waiting for the cluster to agree: channels whose proposals are under way, and declares that wait for the fate of a node."""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker import registry, shutting
from mirrormq.broker.journal import HELD, LOST, UNHEARD, Awaiting, Proposal, Unavailable

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.queue import Queue
    from mirrormq.wire.methods import Method

FATE: Final = 3000          # milliseconds that a declare waits for a silent node


def answer(broker: Broker, channel: Channel, reply: Method | None, before: int, method: Method, *, again: bool = False) -> None:
    """Answer at once if nothing was proposed, else when this node's copy has it; the channel waits so long. With `again`
    the method is run again then, on what has become of the proposal."""
    journal = broker.journal
    if journal.written == before:
        if reply is not None:
            channel.send(reply)
        return
    channel.suspend()
    broker.awaiting.append(Awaiting(before + 1, journal.written, channel, reply, method, again=again))


def await_fate(broker: Broker, channel: Channel, method: Method, queue: Queue) -> bool:
    """A queue whose end is proposed, or one that goes with its node, whose node is silent: whoever wants to declare it waits
    until it is known to be gone or there, but not for long. False when there is nothing to wait for."""
    if not queue.is_going and (queue.keeps_record or not queue.is_away or broker.forwarding.is_linked(queue.home)):
        if not queue.is_away:           # else its home has yet to say whether it is going
            channel.patience = 0
        return False
    return be_patient(broker, channel, method)


def be_patient(broker: Broker, channel: Channel, method: Method) -> bool:
    """Run the method again when something is known that is not known now; False when that has taken too long."""
    if not channel.patience:
        channel.patience = broker.now + FATE
    elif broker.now >= channel.patience:
        channel.patience = 0
        return False
    channel.suspend()
    broker.stranded.append((channel, method))
    return True


def look_after_stranded(broker: Broker) -> None:
    """Something is known now that was not before, or time has passed."""
    stranded = broker.stranded
    if stranded:
        broker.stranded = []
        for channel, method in stranded:
            if not channel.is_closing:
                channel.try_again(method)
    lingering = broker.lingering
    if lingering:
        broker.lingering = []
        for proposal in lingering:
            _end_again(broker, proposal)
        _let_part(broker)
    if broker.shut:
        shutting.look_after(broker)


def settle(broker: Broker, proposals: list[Proposal]) -> None:
    """The store has decided on these, in their order, and this node's copy has what it accepted."""
    journal = broker.journal
    for proposal in proposals:
        journal.settled = max(journal.settled, proposal.number)
        if proposal.state != HELD:
            _failed(broker, proposal)
        if proposal.sequel is not None and proposal.state != UNHEARD:
            journal.propose(proposal.sequel)        # one that was lost may have held before; the sequel knows whether it did
    broker.agreed_events.tell(proposals)
    _let_part(broker)
    broker.go_on()
    broker.host.schedule()


def _let_part(broker: Broker) -> None:
    """Answer whoever waits for nothing any more. The end of a queue whose proposal was lost is still to come."""
    journal = broker.journal
    lingering = [proposal.number for proposal in broker.lingering]
    ready: list[Awaiting] = []
    waits: list[Awaiting] = []
    for waiting in broker.awaiting:
        is_ready = waiting.until <= journal.settled and not any(waiting.first <= number <= waiting.until for number in lingering)
        (ready if is_ready else waits).append(waiting)
    broker.awaiting = waits
    for waiting in ready:
        if not waiting.channel.is_closing:
            _answer_now(broker, waiting)
    if not broker.awaiting:
        journal.failed.clear()
    parting, broker.parting = broker.parting, []
    for each in parting:
        if each.last <= journal.settled and not any(each.first <= number <= each.last for number in lingering):
            each.happen()
        else:
            broker.parting.append(each)


def _failed(broker: Broker, proposal: Proposal) -> None:
    broker.owners.pop(proposal.owned, None)
    if not proposal.is_stubborn:
        broker.journal.failed[proposal.number] = proposal
        if proposal.ending is not None:
            shutting.reopen(proposal.ending)
    elif proposal.state != LOST or proposal.ending is None:
        return
    elif proposal.is_void:
        broker.records.apply(proposal.unchanged[0][0], None, 0)     # a lease took the record, and nobody will restate it
        broker.records.finish()
    elif proposal.world != broker.journal.world:
        _end_again(broker, proposal)
    else:
        broker.lingering.append(proposal)       # the same world would answer the same


def _end_again(broker: Broker, proposal: Proposal) -> None:
    """Propose the end of a queue anew. Whoever waits for the old proposal waits for this one instead."""
    queue = proposal.ending
    assert queue is not None
    queue.is_going = False
    before = broker.journal.written
    registry.delete_queue(broker, queue, is_stubborn=True)
    written = broker.journal.written
    if written > before:
        for each in broker.parting:
            if each.first <= proposal.number <= each.last:
                each.last = written
        for waiting in broker.awaiting:
            if waiting.first <= proposal.number <= waiting.until:
                waiting.until = written


def _answer_now(broker: Broker, waiting: Awaiting) -> None:
    channel = waiting.channel
    failures = broker.journal.failures(waiting.first, waiting.last)
    unheard = [failure for failure in failures if failure.state == UNHEARD]
    if unheard:
        channel.fail(Unavailable(unheard[0].text), waiting.method.id)
    elif failures or waiting.again:
        channel.try_again(waiting.method)
    else:
        if waiting.reply is not None:
            channel.send(waiting.reply)
        channel.resume()
