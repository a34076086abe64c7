"""tx.select, tx.commit, tx.rollback: publishes and acknowledgements gathered, then applied together."""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.exchange import Exchange
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.message import Message
from mirrormq.broker.overflow import append_much
from mirrormq.broker.stability import Barrier
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.methods import TxCommitOk

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel, Delivery
    from mirrormq.broker.queue import Queue

COMMIT: Final = 90 << 16 | 20


class Pending:
    """One gathered publish, and the names of the queues that it is for: which of them exist is seen at the commit."""

    def __init__(self, message: Message, exchange: Exchange, names: list[str], *, mandatory: bool) -> None:
        self.message: Message = message
        self.exchange: Exchange = exchange
        self.names: list[str] = names
        self.mandatory: bool = mandatory


class CommitBarrier(Barrier):
    """commit-ok leaves when everything that the transaction did is stable."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel: Channel = channel
        self.outstanding = 1            # until the commit itself has been applied

    def refuse(self, mark: i64) -> None:
        self.is_lost = True

    def passed(self) -> None:
        channel = self.channel
        if self.is_lost:
            channel.fail(PreconditionFailed("partial tx completion"), COMMIT)
        elif not channel.is_closing:
            channel.send(TxCommitOk())
            channel.resume()


class Transaction:
    def __init__(self, channel: Channel) -> None:
        self.channel: Channel = channel
        self.publishes: list[Pending] = []
        self.acks: list[Delivery] = []
        self.rejects: list[Delivery] = []
        self.requeues: list[Delivery] = []

    def add_publish(self, message: Message, exchange: Exchange, keys: list[str], queues: list[Queue], *,
                    mandatory: bool) -> None:
        names = [queue.name for queue in queues]
        if exchange.name == "":
            names = list(dict.fromkeys(keys + names))       # a queue of this name may still be declared
        self.publishes.append(Pending(message, exchange, names, mandatory=mandatory))

    def add_acks(self, deliveries: list[Delivery]) -> None:
        self._count(deliveries, 1)
        self.acks.extend(deliveries)

    def add_rejects(self, deliveries: list[Delivery], *, requeue: bool) -> None:
        self._count(deliveries, 1)
        (self.requeues if requeue else self.rejects).extend(deliveries)

    def _count(self, deliveries: list[Delivery], step: i64) -> None:
        """What a client has settled still counts against its prefetch until the commit."""
        for delivery in deliveries:
            if delivery.consumer is not None:
                self.channel.held += step
                delivery.consumer.unacked += step

    def commit(self) -> None:
        """Apply everything; the channel waits until it is stable."""
        channel = self.channel
        barrier = CommitBarrier(channel)
        refused = self._publish_all(barrier)
        self._settle_all(barrier)
        if refused:
            raise PreconditionFailed("partial tx completion")
        channel.suspend()
        barrier.outstanding -= 1
        if barrier.outstanding == 0:
            barrier.passed()

    def _publish_all(self, barrier: Barrier) -> bool:
        publishes = self.publishes
        self.publishes = []
        refused = False
        connection = self.channel.connection
        vhost = connection.vhost
        assert vhost is not None
        for pending in publishes:
            if pending.exchange.is_delayed and connection.broker.delays.hold(vhost, pending.exchange, pending.message, barrier):
                continue
            found = [vhost.queues.get(name) for name in pending.names]
            queues = [queue for queue in found if queue is not None and not queue.is_deleted]
            if not queues and pending.mandatory:
                connection.broker.return_message(self.channel, pending.message, 312, "NO_ROUTE")
            connection.broker.letters_wait = len(queues) > 1
            for queue in queues:
                if not queue.publish(pending.message.copy(), barrier):
                    refused = True
                append_much(queue)
            connection.broker.letters_wait = False
        return refused

    def _settle_all(self, barrier: Barrier) -> None:
        acks, rejects, requeues = self.acks, self.rejects, self.requeues
        self.acks, self.rejects, self.requeues = [], [], []
        self._count(acks + rejects + requeues, -1)
        for delivery in acks + rejects:
            if _is_lost(delivery):
                barrier.is_lost = True
            elif (delivery.message.logged or delivery.queue.is_away) and not delivery.queue.is_deleted:
                delivery.queue.wait_for_chunk(barrier)
        self.channel.acknowledge(acks)
        self.channel.turn_away(rejects, requeue=False)
        self.channel.turn_away(requeues, requeue=True)

    def settled(self) -> list[Delivery]:
        """What is held again if the transaction is rolled back."""
        return self.acks + self.rejects + self.requeues

    def rollback(self) -> None:
        """Forget the publishes; what was settled is held again."""
        back = self.settled()
        self.publishes, self.acks, self.rejects, self.requeues = [], [], [], []
        self.channel.hold_again(back)


def _is_lost(delivery: Delivery) -> bool:
    """The queue has the message back in its place, and takes no word about this delivery any more: the link to its home broke, or
    another node leads it now. A queue that is deleted has nothing to lose."""
    queue = delivery.queue
    if isinstance(queue, AwayQueue):
        return not queue.is_deleted and queue.is_stale(delivery.message)
    return queue.is_deleted and queue.log_id in queue.broker.forwarding.mirrored
