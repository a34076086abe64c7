"""A channel: publishing, delivering and settling, and the modes (confirm, transaction) it may be in.

Rules
 1. Publishes wait for one barrier a turn; confirms leave through `_confirm` alone, in order, as one `multiple` ack a turn.
 2. A delivery is known by its tag until it is acknowledged, rejected or requeued; `lowest` bounds the search of a multiple ack.
 3. Room under the prefetch of the whole channel goes to its consumers in turn, whichever queue was acknowledged: when it comes
    free the channel is eased, and nobody takes of it before `share_room` has asked everyone, beginning behind who had it last.
    What is left then is for whoever comes.
 4. A channel that waits for the outside (a declare that must be stable) is suspended: its frames wait in `inbox`.
"""
from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from mypy_extensions import i64, mypyc_attr

from mirrormq.broker.confirms import ConfirmBarrier
from mirrormq.broker.consumer import Consumer
from mirrormq.broker.message import ContentInfo, Message, retarget
from mirrormq.broker.outlet import LARGE
from mirrormq.broker.queue import Queue
from mirrormq.wire.errors import AMQPError, ChannelError, HardError, PreconditionFailed
from mirrormq.wire.methods import BasicCancel, BasicNack, Method

if TYPE_CHECKING:
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.route import Route
    from mirrormq.broker.transaction import Transaction

PLAIN: Final = 0
CONFIRM: Final = 1
TRANSACTION: Final = 2
FULL: Final = 256 << 10         # output gathered beyond this waits for the socket
FULL_OF_LARGE: Final = 4 << 20  # and this of large messages, or a publisher of such would outrun its consumer
TAG_AND_FLAG: Final = Struct(">QB")
ACK: Final = Struct(">BHIHHQBB")
T = TypeVar("T")


def rotated(things: list[T], by: int) -> list[T]:
    """The same, with another one first."""
    first = by % len(things) if things else 0
    return things[first:] + things[:first]


class Delivery:
    """A message that a client holds."""

    def __init__(self, tag: i64, message: Message, queue: Queue, consumer: Consumer | None, at: i64) -> None:
        self.tag: i64 = tag
        self.at: i64 = at
        self.message: Message = message
        self.queue: Queue = queue
        self.consumer: Consumer | None = consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Channel:
    def __init__(self, connection: Connection, number: int) -> None:
        self.connection: Connection = connection
        self.number: int = number
        self.number_bytes: bytes = number.to_bytes(2, "big")
        self.high: i64 = number >> 8
        self.low: i64 = number & 255
        self.mode: i64 = PLAIN
        self.flowing: bool = True
        self.is_closing: bool = False
        self.is_suspended: bool = False
        self.is_released: bool = False
        self.inbox: list[bytes] = []
        self.inbox_size: i64 = 0
        # publishing
        self.sequence: i64 = 0
        self.confirmed: i64 = 0
        self.barrier: ConfirmBarrier | None = None
        self.barriers: deque[ConfirmBarrier] = deque()
        self.publish_key: bytes = b""
        self.expects_header: bool = False
        self.head: bytes = b""
        self.body: list[bytes] = []
        self.body_left: i64 = 0
        self.body_size: i64 = 0
        # consuming
        self.consumers: dict[str, Consumer] = {}
        self.unacked: dict[int, Delivery] = {}
        self.next_tag: i64 = 1
        self.lowest: i64 = 1
        self.held: i64 = 0
        self.limit: i64 = 0             # prefetch of the whole channel
        self.is_eased: bool = False
        self.favoured: Consumer | None = None       # while room is shared: who may take of it, and up to where
        self.share: i64 = 0
        self.next_share: i64 = 0        # the place of the consumer that is asked first, and of the one that is woken first
        self.next_wake: i64 = 0
        self.prefetch: i64 = 0          # of each consumer to come
        self.transaction: Transaction | None = None
        self.away_id: i64 = 0           # its name between nodes, once it has something to do with another
        self.last_queue: str = ""
        self.patience: i64 = 0          # until when it waits for the fate of a queue whose home is silent
        self.given_name: str = ""       # of a queue that is being declared without one
        self.reply_consumer: str = ""
        self.reply_key: str = ""
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.acknowledged: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0

    # --- publishing -------------------------------------------------------------------------------------------

    def publish(self, key: bytes, info: ContentInfo, content: bytes, size: i64) -> None:
        """A complete message for the exchange and routing key in `key` (the payload of basic.publish)."""
        connection = self.connection
        route = connection.routes.get(key)
        if route is None:
            route = connection.find_route(key)
        self.published += 1
        if info.special or route.special or self.mode == TRANSACTION:
            connection.broker.publish_carefully(self, route, info, content, size)
            return
        route.count += 1
        if self.mode == CONFIRM:
            self.enqueue(route, Message(content, route.address, info, size), self.next_barrier())
        else:
            self.enqueue(route, Message(content, route.address, info, size), None)

    def next_barrier(self) -> ConfirmBarrier:
        """The barrier of this turn, for the publish with the next sequence number."""
        self.sequence += 1
        barrier = self.barrier
        if barrier is None:
            barrier = self.barrier = ConfirmBarrier(self)
            self.connection.broker.confirming.append(self)
        return barrier

    def enqueue(self, route: Route, message: Message, barrier: ConfirmBarrier | None) -> None:
        queues = route.queues
        count = len(queues)
        if count == 1:
            if not queues[0].publish(message, barrier) and barrier is not None:
                barrier.refuse(self.sequence)
        elif count == 0:
            self.connection.broker.goes_nowhere(self, message, mandatory=route.mandatory)
        else:
            refused = False
            self.connection.broker.letters_wait = True
            for queue in queues:
                if not queue.publish(message.copy(), barrier):
                    refused = True
            self.connection.broker.letters_wait = False
            if refused and barrier is not None:
                barrier.refuse(self.sequence)

    def close_barrier(self) -> None:
        """The turn is over: nothing more joins its barrier."""
        barrier = self.barrier
        if barrier is None:
            return
        self.barrier = None
        barrier.sequence = self.sequence
        self.barriers.append(barrier)
        if barrier.outstanding == 0:
            self.settle_confirms()

    def settle_confirms(self) -> None:
        barriers = self.barriers
        upto: i64 = 0
        while barriers and barriers[0].outstanding == 0:
            barrier = barriers.popleft()
            if barrier.refused or barrier.is_lost:
                if upto:
                    self._confirm(upto)
                upto = 0
                if barrier.is_lost:
                    self._refuse_all(barrier)
                else:
                    self._confirm_around(barrier)
            else:
                upto = barrier.sequence
        if upto:
            self._confirm(upto)

    def _refuse_all(self, barrier: ConfirmBarrier) -> None:
        """Which of them the log did not take nobody knows."""
        refused = barrier.refused
        for sequence in range(self.confirmed + 1, barrier.sequence + 1):
            if sequence not in refused and not self.is_closing:
                self.send(BasicNack(sequence, multiple=False, requeue=False))
        self.confirmed = barrier.sequence

    def _confirm_around(self, barrier: ConfirmBarrier) -> None:
        refused = barrier.refused
        for sequence in range(self.confirmed + 1, barrier.sequence + 1):
            if sequence in refused:
                self.confirmed = sequence
            else:
                self._confirm(sequence)

    def _confirm(self, upto: i64) -> None:
        if self.is_closing:
            return
        multiple = 1 if upto - self.confirmed > 1 else 0
        self.confirmed = upto
        self.connection.put(ACK.pack(1, self.number, 13, 60, 80, upto, multiple, 0xCE))

    # --- delivering -------------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, message: Message) -> None:
        tag = self.next_tag
        self.next_tag = tag + 1
        if consumer.no_ack:
            self.delivered_no_ack += 1
        else:
            self.unacked[tag] = Delivery(tag, message, consumer.queue, consumer, self.connection.broker.now)
            self.held += 1
            consumer.unacked += 1
            self.delivered += 1
        address = message.address
        if address is not consumer.address and address != consumer.address:
            consumer.aim(address)
        connection = self.connection
        out = connection.out
        out.append(consumer.head)
        out.append(TAG_AND_FLAG.pack(tag, 1 if message.redelivered else 0))
        out.append(consumer.tail)
        content = message.content
        if content[2] != self.low or content[1] != self.high or len(content) > connection.largest:
            content = retarget(content, self.number, connection.frame_max)
        out.append(content)
        connection.out_size += len(content) + 64
        if connection.out_size > FULL and (len(content) < LARGE or connection.out_size > FULL_OF_LARGE):
            connection.is_full = True
        if not connection.is_dirty:
            connection.mark_dirty()

    def put_content(self, content: bytes) -> None:
        connection = self.connection
        if content[2] != self.low or content[1] != self.high or len(content) > connection.largest:
            content = retarget(content, self.number, connection.frame_max)
        connection.put(content)

    def send(self, method: Method) -> None:
        payload = method.encode()
        self.connection.put(b"\x01" + self.number_bytes + len(payload).to_bytes(4, "big") + payload + b"\xce")

    # --- settling ---------------------------------------------------------------------------------------------

    def take(self, tag: int, *, multiple: bool) -> list[Delivery]:
        """Remove the deliveries that a client settles with this tag."""
        unacked = self.unacked
        if not multiple:
            delivery = unacked.pop(tag, None)
            if delivery is None:
                raise PreconditionFailed(f"unknown delivery tag {tag}")
            self._release(delivery)
            return [delivery]
        if tag == 0:
            tag = self.next_tag - 1
        elif tag not in unacked:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        taken: list[Delivery] = []
        low = self.lowest
        if tag - low > 2 * len(unacked) + 64:
            numbers = sorted(number for number in unacked if number <= tag)
        else:
            numbers = list(range(low, tag + 1))
        for number in numbers:
            delivery = unacked.pop(number, None)
            if delivery is not None:
                self._release(delivery)
                taken.append(delivery)
        self.lowest = tag + 1
        return taken

    def _release(self, delivery: Delivery) -> None:
        consumer = delivery.consumer
        if consumer is not None:        # what basic.get took does not count against a prefetch limit
            self.held -= 1
            consumer.unacked -= 1

    def ack(self, tag: int, *, multiple: bool) -> None:
        taken = self.take(tag, multiple=multiple)
        if self.transaction is not None:
            self.transaction.add_acks(taken)
            return
        self.acknowledge(taken)

    def acknowledge(self, taken: list[Delivery]) -> None:
        self.acknowledged += len(taken)
        for delivery in taken:
            queue = delivery.queue
            queue.acknowledge(delivery.message)
            if not queue.is_active and queue.backlog.count:
                queue.activate()
        if self.limit:
            self.ease()

    def reject(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        taken = self.take(tag, multiple=multiple)
        if self.transaction is not None:
            self.transaction.add_rejects(taken, requeue=requeue)
            return
        self.turn_away(taken, requeue=requeue)

    def turn_away(self, taken: list[Delivery], *, requeue: bool) -> None:
        for delivery in taken:
            if requeue:
                delivery.queue.requeue(delivery.message)
            else:
                delivery.queue.reject(delivery.message)
            delivery.queue.activate()
        if self.limit:
            self.ease()

    def hold_again(self, deliveries: list[Delivery]) -> None:
        """Settled in a transaction that did not happen. The oldest come first again."""
        if not deliveries:
            return
        unacked = self.unacked
        for delivery in deliveries:
            unacked[delivery.tag] = delivery
            self.lowest = min(self.lowest, delivery.tag)
        self.unacked = {tag: unacked[tag] for tag in sorted(unacked)}

    def requeue_all(self) -> None:
        """Everything this channel holds goes back to its place."""
        if self.transaction is not None:
            self.transaction.rollback()
        held = [self.unacked[tag] for tag in sorted(self.unacked)]
        self.unacked = {}
        self.lowest = self.next_tag
        for delivery in held:
            self._release(delivery)
            delivery.queue.requeue(delivery.message)

    # --- sharing ------------------------------------------------------------------------------------------------

    def has_room(self, consumer: Consumer) -> bool:
        if self.is_eased:
            return consumer is self.favoured and self.held < self.share
        return self.held < self.limit

    def ease(self) -> None:
        """There may be room under the limit again."""
        if not self.is_eased:
            self.is_eased = True
            self.connection.broker.eased.append(self)
            self.wake_queues()

    def share_room(self) -> None:
        consumers = list(self.consumers.values())
        count = len(consumers)
        first = self.next_share
        for step in range(count):
            if self.held >= self.limit:
                break
            at = (first + step) % count
            before = self.held
            self.share = before + (self.limit - before + count - step - 1) // (count - step)
            self.favoured = consumers[at]
            consumers[at].queue.offer()
            if self.held > before:
                self.next_share = at + 1
        self.favoured = None
        self.is_eased = False

    def wake_queues(self) -> None:
        """Another one first each time: what there is room for, in the socket too, may all go to the first."""
        for consumer in rotated(list(self.consumers.values()), self.next_wake):
            if consumer.queue.backlog.count or consumer.queue.is_away:
                consumer.queue.activate()
        self.next_wake += 1

    # --- the channel's own life ---------------------------------------------------------------------------------

    def suspend(self) -> None:
        self.is_suspended = True

    def resume(self) -> None:
        """What the channel waited for has come. Frames that arrived meanwhile have their turn soon, not at once: whoever
        calls this may be in the middle of another frame of the same connection."""
        if self.inbox and not self.connection.is_over:
            self.connection.broker.resume_later(self)
        else:
            self.is_suspended = False

    def go_on(self) -> None:
        self.is_suspended = False
        waiting = self.inbox
        self.inbox = []
        self.inbox_size = 0
        if not self.connection.is_over:
            self.connection.resume_frames(self.number, [] if self.is_closing else waiting)

    def try_again(self, method: Method) -> None:
        """Put a method that had to wait before the frames that arrived since, and go on."""
        payload = method.encode()
        frame = b"\x01" + self.number_bytes + len(payload).to_bytes(4, "big") + payload + b"\xce"
        self.inbox.insert(0, frame)
        self.resume()

    def is_gone(self) -> bool:
        return self.is_closing or self.is_released or self.connection.is_over

    def fail(self, error: AMQPError, method: i64) -> None:
        """What the channel waited for has failed: the client is told as if the method had just been handled."""
        connection = self.connection
        if self.is_gone():
            return
        connection.current, connection.current_method = self.number, method
        if isinstance(error, ChannelError):
            connection.fail_channel(error)
        elif isinstance(error, HardError):
            self.forget_waiting()
            connection.fail(error)

    def forget_waiting(self) -> bool:
        """Frames that waited will not be handled any more. Did the client want to close the channel?"""
        wants_close = any(frame[0] == 1 and frame[7:11] == b"\x00\x14\x00\x28" for frame in self.inbox)
        self.inbox = []
        self.inbox_size = 0
        self.connection.go_on_reading()
        return wants_close

    def release(self) -> None:
        """The channel ends: consumers leave, what it held goes back."""
        self.is_released = True
        for consumer in list(self.consumers.values()):
            self.drop_consumer(consumer)
        self.requeue_all()
        self.transaction = None             # a circle of references would outlive the channel for long
        self.barrier = None
        self.barriers.clear()
        self.connection.broker.count_channel(self)
        if self.reply_key:
            self.connection.broker.forget_reply_channel(self)
        if self.away_id:
            self.connection.broker.forwarding.channel_left(self)

    def cancel_consumer(self, consumer: Consumer) -> None:
        """Its queue is gone: it leaves, and its client is told if it can be."""
        self.consumers.pop(consumer.tag, None)
        if not self.is_gone() and self.connection.capabilities.get("consumer_cancel_notify") is True:
            self.send(BasicCancel(consumer.tag, no_wait=True))

    def drop_consumer(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.tag, None)
        consumer.queue.remove_consumer(consumer)
        self.connection.broker.events.consumer("consumer.deleted", consumer)
