"""channel: opening, pausing and closing."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.writer import Writer


class ChannelOpen(Method):
    ID: ClassVar[int] = 20 << 16 | 10
    name: ClassVar[str] = "channel.open"

    def encode(self) -> bytes:
        w = Writer(ChannelOpen.ID)
        w.shortstr("")
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ChannelOpen:
        r.shortstr()
        return ChannelOpen()


class ChannelOpenOk(Method):
    ID: ClassVar[int] = 20 << 16 | 11
    name: ClassVar[str] = "channel.open-ok"

    def encode(self) -> bytes:
        w = Writer(ChannelOpenOk.ID)
        w.longstr(b"")
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ChannelOpenOk:
        r.longstr()
        return ChannelOpenOk()


class ChannelFlow(Method):
    ID: ClassVar[int] = 20 << 16 | 20
    name: ClassVar[str] = "channel.flow"
    FIELDS: ClassVar[tuple[str, ...]] = ("active",)

    def __init__(self, *, active: bool = False) -> None:
        self.active = active

    def encode(self) -> bytes:
        w = Writer(ChannelFlow.ID)
        w.bits([self.active])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ChannelFlow:
        active = r.octet() & 1 != 0
        return ChannelFlow(active=active)


class ChannelFlowOk(Method):
    ID: ClassVar[int] = 20 << 16 | 21
    name: ClassVar[str] = "channel.flow-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("active",)

    def __init__(self, *, active: bool = False) -> None:
        self.active = active

    def encode(self) -> bytes:
        w = Writer(ChannelFlowOk.ID)
        w.bits([self.active])
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ChannelFlowOk:
        active = r.octet() & 1 != 0
        return ChannelFlowOk(active=active)


class ChannelClose(Method):
    """`failed_class_id` and `failed_method_id` name the method at fault, 0 if none."""

    ID: ClassVar[int] = 20 << 16 | 40
    name: ClassVar[str] = "channel.close"
    FIELDS: ClassVar[tuple[str, ...]] = ("reply_code", "reply_text", "failed_class_id", "failed_method_id")

    def __init__(
        self, reply_code: int = 0, reply_text: str = "", failed_class_id: int = 0, failed_method_id: int = 0
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.failed_class_id = failed_class_id
        self.failed_method_id = failed_method_id

    def encode(self) -> bytes:
        w = Writer(ChannelClose.ID)
        w.short(self.reply_code)
        w.shortstr(self.reply_text)
        w.short(self.failed_class_id)
        w.short(self.failed_method_id)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ChannelClose:
        reply_code = r.short()
        reply_text = r.shortstr()
        failed_class_id = r.short()
        failed_method_id = r.short()
        return ChannelClose(reply_code, reply_text, failed_class_id, failed_method_id)


class ChannelCloseOk(Method):
    ID: ClassVar[int] = 20 << 16 | 41
    name: ClassVar[str] = "channel.close-ok"

    def encode(self) -> bytes:
        return Writer(ChannelCloseOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ChannelCloseOk:
        return ChannelCloseOk()
