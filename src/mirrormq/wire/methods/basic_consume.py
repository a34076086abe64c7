"""basic: prefetch, and the consumers of a channel."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.table import Table
from mirrormq.wire.writer import Writer


class BasicQos(Method):
    ID: ClassVar[int] = 60 << 16 | 10
    name: ClassVar[str] = "basic.qos"
    FIELDS: ClassVar[tuple[str, ...]] = ("prefetch_size", "prefetch_count", "global_")

    def __init__(self, prefetch_size: int = 0, prefetch_count: int = 0, *, global_: bool = False) -> None:
        self.prefetch_size = prefetch_size
        self.prefetch_count = prefetch_count
        self.global_ = global_

    def encode(self) -> bytes:
        w = Writer(BasicQos.ID)
        w.long(self.prefetch_size)
        w.short(self.prefetch_count)
        w.bits([self.global_])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicQos:
        prefetch_size = r.long()
        prefetch_count = r.short()
        global_ = r.octet() & 1 != 0
        return BasicQos(prefetch_size, prefetch_count, global_=global_)


class BasicQosOk(Method):
    ID: ClassVar[int] = 60 << 16 | 11
    name: ClassVar[str] = "basic.qos-ok"

    def encode(self) -> bytes:
        return Writer(BasicQosOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> BasicQosOk:
        return BasicQosOk()


class BasicConsume(Method):
    ID: ClassVar[int] = 60 << 16 | 20
    name: ClassVar[str] = "basic.consume"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "queue",
        "consumer_tag",
        "no_local",
        "no_ack",
        "exclusive",
        "no_wait",
        "arguments",
    )

    def __init__(
        self,
        queue: str = "",
        consumer_tag: str = "",
        *,
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.consumer_tag = consumer_tag
        self.no_local = no_local
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.no_wait = no_wait
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(BasicConsume.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.shortstr(self.consumer_tag)
        w.bits([self.no_local, self.no_ack, self.exclusive, self.no_wait])
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicConsume:
        r.short()
        queue = r.shortstr()
        consumer_tag = r.shortstr()
        bits = r.octet()
        arguments = r.table()
        return BasicConsume(
            queue,
            consumer_tag,
            no_local=bits & 1 != 0,
            no_ack=bits & 2 != 0,
            exclusive=bits & 4 != 0,
            no_wait=bits & 8 != 0,
            arguments=arguments,
        )


class BasicConsumeOk(Method):
    ID: ClassVar[int] = 60 << 16 | 21
    name: ClassVar[str] = "basic.consume-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag",)

    def __init__(self, consumer_tag: str = "") -> None:
        self.consumer_tag = consumer_tag

    def encode(self) -> bytes:
        w = Writer(BasicConsumeOk.ID)
        w.shortstr(self.consumer_tag)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicConsumeOk:
        consumer_tag = r.shortstr()
        return BasicConsumeOk(consumer_tag)


class BasicCancel(Method):
    """By the client; with RabbitMQ's extension also by the server, when the queue is gone."""

    ID: ClassVar[int] = 60 << 16 | 30
    name: ClassVar[str] = "basic.cancel"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag", "no_wait")

    def __init__(self, consumer_tag: str = "", *, no_wait: bool = False) -> None:
        self.consumer_tag = consumer_tag
        self.no_wait = no_wait

    def encode(self) -> bytes:
        w = Writer(BasicCancel.ID)
        w.shortstr(self.consumer_tag)
        w.bits([self.no_wait])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicCancel:
        consumer_tag = r.shortstr()
        no_wait = r.octet() & 1 != 0
        return BasicCancel(consumer_tag, no_wait=no_wait)


class BasicCancelOk(Method):
    ID: ClassVar[int] = 60 << 16 | 31
    name: ClassVar[str] = "basic.cancel-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag",)

    def __init__(self, consumer_tag: str = "") -> None:
        self.consumer_tag = consumer_tag

    def encode(self) -> bytes:
        w = Writer(BasicCancelOk.ID)
        w.shortstr(self.consumer_tag)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicCancelOk:
        consumer_tag = r.shortstr()
        return BasicCancelOk(consumer_tag)
