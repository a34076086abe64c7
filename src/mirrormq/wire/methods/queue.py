"""queue: declaring, binding, purging and deleting."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.table import Table
from mirrormq.wire.writer import Writer


class QueueDeclare(Method):
    ID: ClassVar[int] = 50 << 16 | 10
    name: ClassVar[str] = "queue.declare"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "queue",
        "passive",
        "durable",
        "exclusive",
        "auto_delete",
        "no_wait",
        "arguments",
    )

    def __init__(
        self,
        queue: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.passive = passive
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.no_wait = no_wait
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(QueueDeclare.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.bits([self.passive, self.durable, self.exclusive, self.auto_delete, self.no_wait])
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueueDeclare:
        r.short()
        queue = r.shortstr()
        bits = r.octet()
        arguments = r.table()
        return QueueDeclare(
            queue,
            passive=bits & 1 != 0,
            durable=bits & 2 != 0,
            exclusive=bits & 4 != 0,
            auto_delete=bits & 8 != 0,
            no_wait=bits & 16 != 0,
            arguments=arguments,
        )


class QueueDeclareOk(Method):
    ID: ClassVar[int] = 50 << 16 | 11
    name: ClassVar[str] = "queue.declare-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "message_count", "consumer_count")

    def __init__(self, queue: str = "", message_count: int = 0, consumer_count: int = 0) -> None:
        self.queue = queue
        self.message_count = message_count
        self.consumer_count = consumer_count

    def encode(self) -> bytes:
        w = Writer(QueueDeclareOk.ID)
        w.shortstr(self.queue)
        w.long(self.message_count)
        w.long(self.consumer_count)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueueDeclareOk:
        queue = r.shortstr()
        message_count = r.long()
        consumer_count = r.long()
        return QueueDeclareOk(queue, message_count, consumer_count)


class QueueBind(Method):
    ID: ClassVar[int] = 50 << 16 | 20
    name: ClassVar[str] = "queue.bind"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "exchange", "routing_key", "no_wait", "arguments")

    def __init__(
        self,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        *,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(QueueBind.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.shortstr(self.exchange)
        w.shortstr(self.routing_key)
        w.bits([self.no_wait])
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueueBind:
        r.short()
        queue = r.shortstr()
        exchange = r.shortstr()
        routing_key = r.shortstr()
        no_wait = r.octet() & 1 != 0
        arguments = r.table()
        return QueueBind(queue, exchange, routing_key, no_wait=no_wait, arguments=arguments)


class QueueBindOk(Method):
    ID: ClassVar[int] = 50 << 16 | 21
    name: ClassVar[str] = "queue.bind-ok"

    def encode(self) -> bytes:
        return Writer(QueueBindOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> QueueBindOk:
        return QueueBindOk()


class QueuePurge(Method):
    ID: ClassVar[int] = 50 << 16 | 30
    name: ClassVar[str] = "queue.purge"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "no_wait")

    def __init__(self, queue: str = "", *, no_wait: bool = False) -> None:
        self.queue = queue
        self.no_wait = no_wait

    def encode(self) -> bytes:
        w = Writer(QueuePurge.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.bits([self.no_wait])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueuePurge:
        r.short()
        queue = r.shortstr()
        no_wait = r.octet() & 1 != 0
        return QueuePurge(queue, no_wait=no_wait)


class QueuePurgeOk(Method):
    ID: ClassVar[int] = 50 << 16 | 31
    name: ClassVar[str] = "queue.purge-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("message_count",)

    def __init__(self, message_count: int = 0) -> None:
        self.message_count = message_count

    def encode(self) -> bytes:
        w = Writer(QueuePurgeOk.ID)
        w.long(self.message_count)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueuePurgeOk:
        message_count = r.long()
        return QueuePurgeOk(message_count)


class QueueDelete(Method):
    ID: ClassVar[int] = 50 << 16 | 40
    name: ClassVar[str] = "queue.delete"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "if_unused", "if_empty", "no_wait")

    def __init__(
        self, queue: str = "", *, if_unused: bool = False, if_empty: bool = False, no_wait: bool = False
    ) -> None:
        self.queue = queue
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.no_wait = no_wait

    def encode(self) -> bytes:
        w = Writer(QueueDelete.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.bits([self.if_unused, self.if_empty, self.no_wait])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueueDelete:
        r.short()
        queue = r.shortstr()
        bits = r.octet()
        return QueueDelete(queue, if_unused=bits & 1 != 0, if_empty=bits & 2 != 0, no_wait=bits & 4 != 0)


class QueueDeleteOk(Method):
    ID: ClassVar[int] = 50 << 16 | 41
    name: ClassVar[str] = "queue.delete-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("message_count",)

    def __init__(self, message_count: int = 0) -> None:
        self.message_count = message_count

    def encode(self) -> bytes:
        w = Writer(QueueDeleteOk.ID)
        w.long(self.message_count)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueueDeleteOk:
        message_count = r.long()
        return QueueDeleteOk(message_count)


class QueueUnbind(Method):
    ID: ClassVar[int] = 50 << 16 | 50
    name: ClassVar[str] = "queue.unbind"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "exchange", "routing_key", "arguments")

    def __init__(
        self, queue: str = "", exchange: str = "", routing_key: str = "", arguments: Table | None = None
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(QueueUnbind.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.shortstr(self.exchange)
        w.shortstr(self.routing_key)
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> QueueUnbind:
        r.short()
        queue = r.shortstr()
        exchange = r.shortstr()
        routing_key = r.shortstr()
        arguments = r.table()
        return QueueUnbind(queue, exchange, routing_key, arguments=arguments)


class QueueUnbindOk(Method):
    ID: ClassVar[int] = 50 << 16 | 51
    name: ClassVar[str] = "queue.unbind-ok"

    def encode(self) -> bytes:
        return Writer(QueueUnbindOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> QueueUnbindOk:
        return QueueUnbindOk()
