"""confirm: RabbitMQ's publisher confirms."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.writer import Writer


class ConfirmSelect(Method):
    ID: ClassVar[int] = 85 << 16 | 10
    name: ClassVar[str] = "confirm.select"
    FIELDS: ClassVar[tuple[str, ...]] = ("no_wait",)

    def __init__(self, *, no_wait: bool = False) -> None:
        self.no_wait = no_wait

    def encode(self) -> bytes:
        w = Writer(ConfirmSelect.ID)
        w.bits([self.no_wait])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConfirmSelect:
        no_wait = r.octet() & 1 != 0
        return ConfirmSelect(no_wait=no_wait)


class ConfirmSelectOk(Method):
    ID: ClassVar[int] = 85 << 16 | 11
    name: ClassVar[str] = "confirm.select-ok"

    def encode(self) -> bytes:
        return Writer(ConfirmSelectOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ConfirmSelectOk:
        return ConfirmSelectOk()
