"""`x-delayed-message`: an exchange that keeps a message for as long as its `x-delay` header says, then routes it.

Each such exchange has a hidden queue. Its log keeps what is persistent; in memory a delayed message beyond a window costs its due
time and its index.
"""
from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.arguments import QueueArguments, effective_settings
from mirrormq.broker.backlog import WINDOW_BYTES, Backlog, LogHole
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.forward.letters import LetterBarrier
from mirrormq.broker.message import NEVER, Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.queue_log import EXPIRED
from mirrormq.broker.stability import Barrier
from mirrormq.broker.vhost import VirtualHost
from mirrormq.log.entries import Entry
from mirrormq.wire.properties import replace_headers
from mirrormq.wire.table import encode_value, join_fields, split_fields

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

HEADER: Final = "x-delay"
WINDOW: Final = 4096
MAX_DELAY: Final = 4_294_967_295


def delay_of(message: Message) -> int:
    """Milliseconds to wait, 0 if none."""
    value = message.info.headers().get(HEADER)
    if isinstance(value, float):
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value.lstrip("0")[:20] or "0")      # int() refuses strings of thousands of digits
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return 0
    return min(value, MAX_DELAY)


class DelayBacklog(Backlog):
    """Ordered by due time. A slot is (due, index, message or None if it is only in the log)."""

    def __init__(self, source: Backlog) -> None:
        super().__init__(source.log, source.infos, source.budget)
        self.writer = source.writer
        self.log_id = source.log_id
        self.slots: list[tuple[int, int, Message | None]] = []
        self.loaded: i64 = 0
        self.loaded_bytes: i64 = 0

    def has_room(self, size: int) -> bool:
        return self.loaded < WINDOW and self.loaded_bytes < WINDOW_BYTES

    def push(self, message: Message) -> None:
        self.loaded += 1
        self.loaded_bytes += message.size
        self._add(message, message)

    def push_logged(self, message: Message) -> None:
        if self.has_room(message.size):
            self.push(message)
        else:
            self._add(message, None)

    def put_back(self, message: Message) -> None:
        self.push(message)

    def _add(self, message: Message, kept: Message | None) -> None:
        heapq.heappush(self.slots, (message.expires, message.index, kept))
        self.count += 1
        self.bytes += message.size

    def head(self) -> Message | None:
        """The message that is due next. Only its due time is needed before it is popped, so it is loaded then."""
        if not self.slots:
            return None
        due, index, message = self.slots[0]
        if message is None:
            entries = self.read(index, 1)
            if not entries or entries[0].index != index:
                raise LogHole(f"the delayed message with index {index} is not in the log")
            message = self.message_of(entries[0])
            heapq.heapreplace(self.slots, (due, index, message))
            self.loaded += 1
            self.loaded_bytes += message.size
        return message

    def pop(self) -> Message:
        message = self.head()
        assert message is not None
        heapq.heappop(self.slots)
        self.loaded -= 1
        self.loaded_bytes -= message.size
        self.count -= 1
        self.bytes -= message.size
        return message

    def message_of(self, entry: Entry) -> Message:
        message = Backlog.message_of(self, entry)
        message.expires = entry.time_ms + delay_of(message)
        return message

    def take_all(self, next_index: int) -> tuple[list[int], int, int]:
        self.clear()
        return [], 0, 0

    def clear(self) -> None:
        self.slots = []
        self.count = 0
        self.bytes = 0
        self.loaded = 0
        self.loaded_bytes = 0

    def cursor(self, next_index: int) -> int:
        return next_index

    def live_below(self, cursor: int) -> list[int]:
        return sorted(index for _, index, message in self.slots if message is None or message.logged)


class DelayQueue(Queue):
    """Hidden: no client knows its name. Messages leave it only by becoming due."""

    def __init__(self, broker: Broker, vhost: VirtualHost, exchange: Exchange, log_id: int) -> None:
        arguments = QueueArguments({})
        super().__init__(broker, vhost.name, f"amq.delayed.{exchange.name}", log_id, durable=exchange.durable,
                         auto_delete=False, owner=None, arguments=arguments, settings=effective_settings(arguments, {}))
        self.exchange: Exchange = exchange
        self.passes_on = True
        self.backlog = DelayBacklog(self.backlog)

    def delay(self, message: Message, due: i64, waiter: Barrier | None) -> bool:
        """Keep it until it is due; False when the queue refuses it."""
        if self.damage:
            return False
        message.expires = due
        self._enqueue(message, waiter)
        return True

    def end(self, message: Message, reason: int) -> None:
        """Due: route it now. Its end is logged after the chunks of the queues it went to."""
        assert reason == EXPIRED
        letter = LetterBarrier(self, message, reason)
        self.broker.delays.release(self, message, letter)
        if not letter.posted() and message.logged:
            self.note_dead_letter(message, reason)
        self.activate()


class Delays:
    """The hidden queues of all delayed exchanges."""

    def __init__(self, broker: Broker) -> None:
        self.broker: Broker = broker
        self.queues: dict[Exchange, DelayQueue] = {}

    def hold(self, vhost: VirtualHost, exchange: Exchange, message: Message, waiter: Barrier | None) -> bool:
        """Keep a message that asks for a delay; False if it does not. It goes with its exchange, even before a commit."""
        delay = delay_of(message)
        if not delay:
            return False
        queue = self.queues.get(exchange)
        if queue is not None and not queue.delay(message.copy(), self.broker.now + delay, waiter) and waiter is not None:
            waiter.is_lost = True
        return True

    def open(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """The log's number follows from the exchange's, so no record is needed to find it again."""
        broker = self.broker
        queue = self.queues[exchange] = DelayQueue(broker, vhost, exchange, exchange.id | 1)
        broker.queues_by_log[queue.log_id] = queue

    def release(self, queue: DelayQueue, message: Message, letter: LetterBarrier) -> None:
        from mirrormq.broker import publishing
        vhost = self.broker.vhosts.get(queue.vhost)
        if vhost is not None and vhost.exchanges.get(queue.exchange.name) is queue.exchange:
            publishing.publish_delayed(self.broker, vhost, queue.exchange, marked_as_delayed(self.broker, message), letter)

    def forget(self, vhost: VirtualHost, exchange: Exchange) -> None:
        queue = self.queues.pop(exchange, None)
        if queue is not None:
            queue.is_deleted = True
            queue.abandon()
            self.broker.forget_timer(queue)
            self.broker.queues_by_log.pop(queue.log_id, None)
            self.broker.log.drop(queue.log_id)


def marked_as_delayed(broker: Broker, message: Message) -> Message:
    """A copy whose `x-delay` is negative: the wait is over."""
    from mirrormq.broker.deadletter import with_properties
    info = message.info
    fields = split_fields(info.properties, info.headers_at)
    done = encode_value(-delay_of(message))
    properties = replace_headers(info.properties, 0,
                                 join_fields([(name, done if name == HEADER else value) for name, value in fields]))
    copy = Message(with_properties(message, properties), message.address, broker.infos.get(properties), message.size)
    copy.expires = NEVER
    return copy
