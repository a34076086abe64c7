"""A consumer of a queue, and the order in which a queue's consumers take their turn."""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.message import visible_address
from mirrormq.wire.table import Value

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.queue import Queue


PLENTY: Final = 1 << 40


class Consumer:
    """One basic.consume: `limit` is its prefetch (0: none), `unacked` what it holds."""

    def __init__(self, channel: Channel, queue: Queue, tag: str, *, no_ack: bool, exclusive: bool,
                 priority: int, limit: int, arguments: dict[str, Value]) -> None:
        self.channel: Channel = channel
        self.queue: Queue = queue
        self.tag: str = tag
        self.no_ack: bool = no_ack
        self.exclusive: bool = exclusive
        self.priority: int = priority
        self.limit: i64 = limit
        self.arguments: dict[str, Value] = arguments
        self.unacked: i64 = 0
        self.delivered: i64 = 0
        self.waiting: bool = False          # a queue had something for it while it could not take any
        name = tag.encode("utf-8", "surrogateescape")
        self.prefix: bytes = b"\x00\x3c\x00\x3c" + bytes([len(name)]) + name
        self.address: bytes = b""           # of the last delivery, for which `head` and `tail` hold
        self.head: bytes = b""
        self.tail: bytes = b""

    def is_ready(self) -> bool:
        if self.limit and self.unacked >= self.limit and not self.no_ack:
            return False
        channel = self.channel
        if channel.limit and not self.no_ack and not channel.has_room(self):
            return False
        return channel.flowing and not channel.connection.is_full

    def room(self) -> i64:
        """How many messages it can take now."""
        if not self.is_ready():
            return 0
        room: i64 = PLENTY
        if not self.no_ack:
            channel = self.channel
            if self.limit:
                room = self.limit - self.unacked
            if channel.limit and channel.limit - channel.held < room:
                room = channel.limit - channel.held
        return room

    def aim(self, address: bytes) -> None:
        """Prepare the fixed parts of basic.deliver for messages of this address."""
        self.address = address
        shown = visible_address(address)
        size = len(self.prefix) + 9 + len(shown)
        self.head = b"\x01" + self.channel.number_bytes + size.to_bytes(4, "big") + self.prefix
        self.tail = shown + b"\xce"


class Turns:
    """Consumers grouped by priority, highest first; within a group they take turns."""

    def __init__(self) -> None:
        self.everyone: list[Consumer] = []
        self.groups: list[list[Consumer]] = []
        self.next: list[int] = []

    def add(self, consumer: Consumer) -> None:
        self.everyone.append(consumer)
        self._regroup()

    def remove(self, consumer: Consumer) -> None:
        self.everyone.remove(consumer)
        self._regroup()

    def _regroup(self) -> None:
        by_priority: dict[int, list[Consumer]] = {}
        for consumer in self.everyone:
            by_priority.setdefault(consumer.priority, []).append(consumer)
        self.groups = [by_priority[priority] for priority in sorted(by_priority, reverse=True)]
        self.next = [0] * len(self.groups)

    def take(self) -> Consumer | None:
        """The consumer whose turn it is and who can take a message now."""
        groups = self.groups
        for g in range(len(groups)):
            group = groups[g]
            size = len(group)
            at = self.next[g]
            for _ in range(size):
                if at >= size:
                    at = 0
                consumer = group[at]
                at += 1
                if consumer.is_ready():
                    self.next[g] = at
                    return consumer
        return None

    def give_back(self, consumer: Consumer) -> None:
        """It got nothing after all: it is still its turn."""
        for g in range(len(self.groups)):
            group = self.groups[g]
            if consumer in group:
                self.next[g] = group.index(consumer)
