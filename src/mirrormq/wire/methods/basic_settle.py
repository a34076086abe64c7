"""basic: acknowledging, rejecting and recovering deliveries."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.writer import Writer


class BasicAck(Method):
    """From a consumer, or from the server as a confirm."""

    ID: ClassVar[int] = 60 << 16 | 80
    name: ClassVar[str] = "basic.ack"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "multiple")

    def __init__(self, delivery_tag: int = 0, *, multiple: bool = False) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple

    def encode(self) -> bytes:
        w = Writer(BasicAck.ID)
        w.longlong(self.delivery_tag)
        w.bits([self.multiple])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicAck:
        delivery_tag = r.longlong()
        multiple = r.octet() & 1 != 0
        return BasicAck(delivery_tag, multiple=multiple)


class BasicReject(Method):
    ID: ClassVar[int] = 60 << 16 | 90
    name: ClassVar[str] = "basic.reject"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "requeue")

    def __init__(self, delivery_tag: int = 0, *, requeue: bool = True) -> None:
        self.delivery_tag = delivery_tag
        self.requeue = requeue

    def encode(self) -> bytes:
        w = Writer(BasicReject.ID)
        w.longlong(self.delivery_tag)
        w.bits([self.requeue])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicReject:
        delivery_tag = r.longlong()
        requeue = r.octet() & 1 != 0
        return BasicReject(delivery_tag, requeue=requeue)


class BasicRecoverAsync(Method):
    ID: ClassVar[int] = 60 << 16 | 100
    name: ClassVar[str] = "basic.recover-async"
    FIELDS: ClassVar[tuple[str, ...]] = ("requeue",)

    def __init__(self, *, requeue: bool = False) -> None:
        self.requeue = requeue

    def encode(self) -> bytes:
        w = Writer(BasicRecoverAsync.ID)
        w.bits([self.requeue])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicRecoverAsync:
        requeue = r.octet() & 1 != 0
        return BasicRecoverAsync(requeue=requeue)


class BasicRecover(Method):
    ID: ClassVar[int] = 60 << 16 | 110
    name: ClassVar[str] = "basic.recover"
    FIELDS: ClassVar[tuple[str, ...]] = ("requeue",)

    def __init__(self, *, requeue: bool = False) -> None:
        self.requeue = requeue

    def encode(self) -> bytes:
        w = Writer(BasicRecover.ID)
        w.bits([self.requeue])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicRecover:
        requeue = r.octet() & 1 != 0
        return BasicRecover(requeue=requeue)


class BasicRecoverOk(Method):
    ID: ClassVar[int] = 60 << 16 | 111
    name: ClassVar[str] = "basic.recover-ok"

    def encode(self) -> bytes:
        return Writer(BasicRecoverOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> BasicRecoverOk:
        return BasicRecoverOk()


class BasicNack(Method):
    """RabbitMQ's extension, both ways."""

    ID: ClassVar[int] = 60 << 16 | 120
    name: ClassVar[str] = "basic.nack"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "multiple", "requeue")

    def __init__(self, delivery_tag: int = 0, *, multiple: bool = False, requeue: bool = True) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

    def encode(self) -> bytes:
        w = Writer(BasicNack.ID)
        w.longlong(self.delivery_tag)
        w.bits([self.multiple, self.requeue])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicNack:
        delivery_tag = r.longlong()
        bits = r.octet()
        return BasicNack(delivery_tag, multiple=bits & 1 != 0, requeue=bits & 2 != 0)
