"""exchange: declaring, deleting, and binding exchanges to one another."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.table import Table
from mirrormq.wire.writer import Writer


class ExchangeDeclare(Method):
    ID: ClassVar[int] = 40 << 16 | 10
    name: ClassVar[str] = "exchange.declare"
    FIELDS: ClassVar[tuple[str, ...]] = (
        "exchange",
        "type",
        "passive",
        "durable",
        "auto_delete",
        "internal",
        "no_wait",
        "arguments",
    )

    def __init__(
        self,
        exchange: str = "",
        type: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.exchange = exchange
        self.type = type
        self.passive = passive
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.no_wait = no_wait
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(ExchangeDeclare.ID)
        w.short(0)
        w.shortstr(self.exchange)
        w.shortstr(self.type)
        w.bits([self.passive, self.durable, self.auto_delete, self.internal, self.no_wait])
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ExchangeDeclare:
        r.short()
        exchange = r.shortstr()
        kind = r.shortstr()
        bits = r.octet()
        arguments = r.table()
        return ExchangeDeclare(
            exchange,
            kind,
            passive=bits & 1 != 0,
            durable=bits & 2 != 0,
            auto_delete=bits & 4 != 0,
            internal=bits & 8 != 0,
            no_wait=bits & 16 != 0,
            arguments=arguments,
        )


class ExchangeDeclareOk(Method):
    ID: ClassVar[int] = 40 << 16 | 11
    name: ClassVar[str] = "exchange.declare-ok"

    def encode(self) -> bytes:
        return Writer(ExchangeDeclareOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ExchangeDeclareOk:
        return ExchangeDeclareOk()


class ExchangeDelete(Method):
    ID: ClassVar[int] = 40 << 16 | 20
    name: ClassVar[str] = "exchange.delete"
    FIELDS: ClassVar[tuple[str, ...]] = ("exchange", "if_unused", "no_wait")

    def __init__(self, exchange: str = "", *, if_unused: bool = False, no_wait: bool = False) -> None:
        self.exchange = exchange
        self.if_unused = if_unused
        self.no_wait = no_wait

    def encode(self) -> bytes:
        w = Writer(ExchangeDelete.ID)
        w.short(0)
        w.shortstr(self.exchange)
        w.bits([self.if_unused, self.no_wait])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ExchangeDelete:
        r.short()
        exchange = r.shortstr()
        bits = r.octet()
        return ExchangeDelete(exchange, if_unused=bits & 1 != 0, no_wait=bits & 2 != 0)


class ExchangeDeleteOk(Method):
    ID: ClassVar[int] = 40 << 16 | 21
    name: ClassVar[str] = "exchange.delete-ok"

    def encode(self) -> bytes:
        return Writer(ExchangeDeleteOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ExchangeDeleteOk:
        return ExchangeDeleteOk()


class ExchangeBind(Method):
    """RabbitMQ's extension: from exchange to exchange."""

    ID: ClassVar[int] = 40 << 16 | 30
    name: ClassVar[str] = "exchange.bind"
    FIELDS: ClassVar[tuple[str, ...]] = ("destination", "source", "routing_key", "no_wait", "arguments")

    def __init__(
        self,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        *,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(ExchangeBind.ID)
        w.short(0)
        w.shortstr(self.destination)
        w.shortstr(self.source)
        w.shortstr(self.routing_key)
        w.bits([self.no_wait])
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ExchangeBind:
        r.short()
        destination = r.shortstr()
        source = r.shortstr()
        routing_key = r.shortstr()
        no_wait = r.octet() & 1 != 0
        arguments = r.table()
        return ExchangeBind(destination, source, routing_key, no_wait=no_wait, arguments=arguments)


class ExchangeBindOk(Method):
    ID: ClassVar[int] = 40 << 16 | 31
    name: ClassVar[str] = "exchange.bind-ok"

    def encode(self) -> bytes:
        return Writer(ExchangeBindOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ExchangeBindOk:
        return ExchangeBindOk()


class ExchangeUnbind(Method):
    ID: ClassVar[int] = 40 << 16 | 40
    name: ClassVar[str] = "exchange.unbind"
    FIELDS: ClassVar[tuple[str, ...]] = ("destination", "source", "routing_key", "no_wait", "arguments")

    def __init__(
        self,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        *,
        no_wait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.no_wait = no_wait
        self.arguments: Table = arguments or {}

    def encode(self) -> bytes:
        w = Writer(ExchangeUnbind.ID)
        w.short(0)
        w.shortstr(self.destination)
        w.shortstr(self.source)
        w.shortstr(self.routing_key)
        w.bits([self.no_wait])
        w.table(self.arguments)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ExchangeUnbind:
        r.short()
        destination = r.shortstr()
        source = r.shortstr()
        routing_key = r.shortstr()
        no_wait = r.octet() & 1 != 0
        arguments = r.table()
        return ExchangeUnbind(destination, source, routing_key, no_wait=no_wait, arguments=arguments)


class ExchangeUnbindOk(Method):
    ID: ClassVar[int] = 40 << 16 | 51
    name: ClassVar[str] = "exchange.unbind-ok"

    def encode(self) -> bytes:
        return Writer(ExchangeUnbindOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ExchangeUnbindOk:
        return ExchangeUnbindOk()
