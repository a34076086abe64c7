"""AMQP errors, one class per reply code.

A `ChannelError` (soft) closes the channel it happened on, a `HardError` closes the connection.
The class says which side of that line a fault is on; `code` and `name` are what goes on the wire.
"""

from __future__ import annotations

from typing import ClassVar, Final

_SHORT_STRING: Final = 255
_ELLIPSIS: Final = b"..."


def _fit(text: str) -> str:
    """Text that every peer can read: UTF-8, cut to the bytes of a short string, never inside a character."""
    data = text.encode("utf-8", "replace")
    if len(data) > _SHORT_STRING:
        end = _SHORT_STRING - len(_ELLIPSIS)
        while data[end] & 0xC0 == 0x80:
            end -= 1
        data = data[:end] + _ELLIPSIS
    return data.decode("utf-8")


class AMQPError(Exception):
    """A fault with a reply code. `text` is the explanation without the code's name."""

    code: ClassVar[int] = 0
    name: ClassVar[str] = ""

    def __init__(self, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        return _fit(f"{self.name} - {self.text}") if self.text else self.name

    def __str__(self) -> str:
        return f"{self.code} {self.name} - {self.text}"


class ChannelError(AMQPError):
    """Closes the channel."""


class HardError(AMQPError):
    """Closes the connection."""


class ContentTooLarge(ChannelError):
    code: ClassVar[int] = 311
    name: ClassVar[str] = "CONTENT_TOO_LARGE"


class NoRoute(ChannelError):
    code: ClassVar[int] = 312
    name: ClassVar[str] = "NO_ROUTE"


class NoConsumers(ChannelError):
    code: ClassVar[int] = 313
    name: ClassVar[str] = "NO_CONSUMERS"


class AccessRefused(ChannelError):
    code: ClassVar[int] = 403
    name: ClassVar[str] = "ACCESS_REFUSED"


class NotFound(ChannelError):
    code: ClassVar[int] = 404
    name: ClassVar[str] = "NOT_FOUND"


class ResourceLocked(ChannelError):
    code: ClassVar[int] = 405
    name: ClassVar[str] = "RESOURCE_LOCKED"


class PreconditionFailed(ChannelError):
    code: ClassVar[int] = 406
    name: ClassVar[str] = "PRECONDITION_FAILED"


class ConnectionForced(HardError):
    code: ClassVar[int] = 320
    name: ClassVar[str] = "CONNECTION_FORCED"


class InvalidPath(HardError):
    code: ClassVar[int] = 402
    name: ClassVar[str] = "INVALID_PATH"


class HardAccessRefused(HardError):
    code: ClassVar[int] = 403
    name: ClassVar[str] = "ACCESS_REFUSED"


class FrameError(HardError):
    code: ClassVar[int] = 501
    name: ClassVar[str] = "FRAME_ERROR"


class SyntaxFault(HardError):
    code: ClassVar[int] = 502
    name: ClassVar[str] = "SYNTAX_ERROR"


class CommandInvalid(HardError):
    code: ClassVar[int] = 503
    name: ClassVar[str] = "COMMAND_INVALID"


class ChannelFault(HardError):
    code: ClassVar[int] = 504
    name: ClassVar[str] = "CHANNEL_ERROR"


class UnexpectedFrame(HardError):
    code: ClassVar[int] = 505
    name: ClassVar[str] = "UNEXPECTED_FRAME"


class ResourceError(HardError):
    code: ClassVar[int] = 506
    name: ClassVar[str] = "RESOURCE_ERROR"


class NotAllowed(HardError):
    code: ClassVar[int] = 530
    name: ClassVar[str] = "NOT_ALLOWED"


class NotImplementedFault(HardError):
    code: ClassVar[int] = 540
    name: ClassVar[str] = "NOT_IMPLEMENTED"


class InternalError(HardError):
    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"
