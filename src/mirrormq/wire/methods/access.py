"""access: tickets, gone from the specification; RabbitMQ still answers the request."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.writer import Writer


class AccessRequest(Method):
    ID: ClassVar[int] = 30 << 16 | 10
    name: ClassVar[str] = "access.request"
    FIELDS: ClassVar[tuple[str, ...]] = ("realm", "exclusive", "passive", "active", "write", "read")

    def __init__(
        self,
        realm: str = "/data",
        *,
        exclusive: bool = False,
        passive: bool = False,
        active: bool = False,
        write: bool = False,
        read: bool = False,
    ) -> None:
        self.realm = realm
        self.exclusive = exclusive
        self.passive = passive
        self.active = active
        self.write = write
        self.read = read

    def encode(self) -> bytes:
        w = Writer(AccessRequest.ID)
        w.shortstr(self.realm)
        w.bits([self.exclusive, self.passive, self.active, self.write, self.read])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> AccessRequest:
        realm = r.shortstr()
        bits = r.octet()
        return AccessRequest(
            realm,
            exclusive=bits & 1 != 0,
            passive=bits & 2 != 0,
            active=bits & 4 != 0,
            write=bits & 8 != 0,
            read=bits & 16 != 0,
        )


class AccessRequestOk(Method):
    ID: ClassVar[int] = 30 << 16 | 11
    name: ClassVar[str] = "access.request-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("ticket",)

    def __init__(self, ticket: int = 1) -> None:
        self.ticket = ticket

    def encode(self) -> bytes:
        w = Writer(AccessRequestOk.ID)
        w.short(self.ticket)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> AccessRequestOk:
        ticket = r.short()
        return AccessRequestOk(ticket)
