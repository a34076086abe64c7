"""basic: the methods that carry a message, and basic.get."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.writer import Writer


class BasicPublish(Method):
    ID: ClassVar[int] = 60 << 16 | 40
    name: ClassVar[str] = "basic.publish"
    FIELDS: ClassVar[tuple[str, ...]] = ("exchange", "routing_key", "mandatory", "immediate")

    def __init__(
        self, exchange: str = "", routing_key: str = "", *, mandatory: bool = False, immediate: bool = False
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate

    def encode(self) -> bytes:
        w = Writer(BasicPublish.ID)
        w.short(0)
        w.shortstr(self.exchange)
        w.shortstr(self.routing_key)
        w.bits([self.mandatory, self.immediate])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicPublish:
        r.short()
        exchange = r.shortstr()
        routing_key = r.shortstr()
        bits = r.octet()
        return BasicPublish(exchange, routing_key, mandatory=bits & 1 != 0, immediate=bits & 2 != 0)


class BasicReturn(Method):
    ID: ClassVar[int] = 60 << 16 | 50
    name: ClassVar[str] = "basic.return"
    FIELDS: ClassVar[tuple[str, ...]] = ("reply_code", "reply_text", "exchange", "routing_key")

    def __init__(self, reply_code: int = 0, reply_text: str = "", exchange: str = "", routing_key: str = "") -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.exchange = exchange
        self.routing_key = routing_key

    def encode(self) -> bytes:
        w = Writer(BasicReturn.ID)
        w.short(self.reply_code)
        w.shortstr(self.reply_text)
        w.shortstr(self.exchange)
        w.shortstr(self.routing_key)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicReturn:
        reply_code = r.short()
        reply_text = r.shortstr()
        exchange = r.shortstr()
        routing_key = r.shortstr()
        return BasicReturn(reply_code, reply_text, exchange, routing_key)


class BasicDeliver(Method):
    ID: ClassVar[int] = 60 << 16 | 60
    name: ClassVar[str] = "basic.deliver"
    FIELDS: ClassVar[tuple[str, ...]] = ("consumer_tag", "delivery_tag", "redelivered", "exchange", "routing_key")

    def __init__(
        self,
        consumer_tag: str = "",
        delivery_tag: int = 0,
        exchange: str = "",
        routing_key: str = "",
        *,
        redelivered: bool = False,
    ) -> None:
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key

    def encode(self) -> bytes:
        w = Writer(BasicDeliver.ID)
        w.shortstr(self.consumer_tag)
        w.longlong(self.delivery_tag)
        w.bits([self.redelivered])
        w.shortstr(self.exchange)
        w.shortstr(self.routing_key)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicDeliver:
        consumer_tag = r.shortstr()
        delivery_tag = r.longlong()
        redelivered = r.octet() & 1 != 0
        exchange = r.shortstr()
        routing_key = r.shortstr()
        return BasicDeliver(consumer_tag, delivery_tag, exchange, routing_key, redelivered=redelivered)


class BasicGet(Method):
    ID: ClassVar[int] = 60 << 16 | 70
    name: ClassVar[str] = "basic.get"
    FIELDS: ClassVar[tuple[str, ...]] = ("queue", "no_ack")

    def __init__(self, queue: str = "", *, no_ack: bool = False) -> None:
        self.queue = queue
        self.no_ack = no_ack

    def encode(self) -> bytes:
        w = Writer(BasicGet.ID)
        w.short(0)
        w.shortstr(self.queue)
        w.bits([self.no_ack])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicGet:
        r.short()
        queue = r.shortstr()
        no_ack = r.octet() & 1 != 0
        return BasicGet(queue, no_ack=no_ack)


class BasicGetOk(Method):
    ID: ClassVar[int] = 60 << 16 | 71
    name: ClassVar[str] = "basic.get-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("delivery_tag", "redelivered", "exchange", "routing_key", "message_count")

    def __init__(
        self,
        delivery_tag: int = 0,
        exchange: str = "",
        routing_key: str = "",
        message_count: int = 0,
        *,
        redelivered: bool = False,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_count = message_count

    def encode(self) -> bytes:
        w = Writer(BasicGetOk.ID)
        w.longlong(self.delivery_tag)
        w.bits([self.redelivered])
        w.shortstr(self.exchange)
        w.shortstr(self.routing_key)
        w.long(self.message_count)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicGetOk:
        delivery_tag = r.longlong()
        redelivered = r.octet() & 1 != 0
        exchange = r.shortstr()
        routing_key = r.shortstr()
        message_count = r.long()
        return BasicGetOk(delivery_tag, exchange, routing_key, message_count, redelivered=redelivered)


class BasicGetEmpty(Method):
    ID: ClassVar[int] = 60 << 16 | 72
    name: ClassVar[str] = "basic.get-empty"

    def encode(self) -> bytes:
        w = Writer(BasicGetEmpty.ID)
        w.shortstr("")
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> BasicGetEmpty:
        r.shortstr()
        return BasicGetEmpty()
