"""A message on its way through the broker, and what the broker reads of it.

Content is never decoded on the way through: `content` holds the header frame and the body frames as the publisher sent them.
Only what queues need is read from the properties, once for each distinct property list (`ContentInfo`, cached by its bytes).
"""
from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from mirrormq.wire.properties import scan_properties
from mirrormq.wire.table import Value, decode_table

NEVER: Final = (1 << 62)
HEADER_AT: Final = 7            # the payload of the content header inside `content`
PROPERTIES_AT: Final = 19
CACHE_LIMIT: Final = 4096
CACHED_SIZE: Final = 1024       # a larger property list is hardly sent twice, and thousands of them are much memory


class ContentInfo:
    """What the broker needs to know of one property list."""

    def __init__(self, properties: bytes) -> None:
        scan = scan_properties(properties, 0)
        self.properties: bytes = properties
        self.persistent: bool = scan.delivery_mode == 2
        self.priority: i64 = max(scan.priority, 0)
        self.expiration: str | None = scan.expiration
        self.user_id: str | None = scan.user_id
        self.reply_to: str | None = scan.reply_to
        self.headers_at: i64 = scan.headers_at
        self.headers_end: i64 = scan.headers_end
        self.copies: bool = scan.headers_at >= 0 and _names_copies(properties[scan.headers_at:scan.headers_end])
        self.ttl: i64 = -1
        self.ttl_fault: str = ""
        self.mode_fault: str = ""
        if len(properties) > 1 and properties[0] & 0x10 and scan.delivery_mode not in (1, 2):
            self.mode_fault = f"{{delivery_mode_unknown,{scan.delivery_mode}}}"
        if scan.expiration is not None:
            self._read_expiration(scan.expiration)
        self.special: bool = bool(self.copies or self.ttl_fault or self.mode_fault or scan.user_id is not None
                                  or self.is_direct_reply())

    def is_direct_reply(self) -> bool:
        return self.reply_to is not None and self.reply_to.startswith(DIRECT_REPLY)

    def _read_expiration(self, text: str) -> None:
        self.ttl_fault = _number_fault(text)
        if self.ttl_fault:
            return
        value = int(text)
        if value < 0:
            self.ttl_fault = f"{{value_negative,{value}}}"
        elif value > MAX_TTL:
            self.ttl_fault = f"{{value_too_large,{value}}}"
        else:
            self.ttl = value

    def headers(self) -> dict[str, Value]:
        if self.headers_at < 0:
            return {}
        return decode_table(self.properties, self.headers_at)[0]


DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"
MAX_TTL: Final = 315_360_000_000        # ten years in milliseconds, RabbitMQ's limit


def _names_copies(table: bytes) -> bool:
    return b"\x02CC" in table or b"\x03BCC" in table


def _number_fault(text: str) -> str:
    """Nothing if it is one sign at most and then digits."""
    start = 1 if text[:1] in ("+", "-") else 0
    end = start
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    if end == start:
        return "no_integer"
    return f'{{leftover_string,"{text[end:]}"}}' if end < len(text) else ""


class InfoCache:
    """ContentInfo by property bytes; forgotten all at once when it grows past a limit."""

    def __init__(self) -> None:
        self.known: dict[bytes, ContentInfo] = {}

    def get(self, properties: bytes) -> ContentInfo:
        info = self.known.get(properties)
        if info is None:
            info = ContentInfo(properties)
            if len(properties) <= CACHED_SIZE:
                if len(self.known) >= CACHE_LIMIT:
                    self.known.clear()
                self.known[properties] = info
        return info


class Message:
    """One message in one queue. `index` is its address in that queue's log."""

    def __init__(self, content: bytes, address: bytes, info: ContentInfo, size: i64) -> None:
        self.content: bytes = content
        self.address: bytes = address       # exchange, routing key and blind copies, each as a short string
        self.info: ContentInfo = info
        self.size: i64 = size               # of the body
        self.index: i64 = 0
        self.expires: i64 = NEVER           # of the broker's time
        self.logged: bool = False           # its entry is in the log, so its end must be logged too
        self.persistent: bool = info.persistent
        self.redelivered: bool = False

    def copy(self) -> Message:
        return Message(self.content, self.address, self.info, self.size)

    def exchange(self) -> str:
        return self.address[1:1 + self.address[0]].decode("utf-8", "surrogateescape")

    def routing_key(self) -> str:
        at = 1 + self.address[0]
        return self.address[at + 1:at + 1 + self.address[at]].decode("utf-8", "surrogateescape")

    def body(self) -> bytes:
        """The body without its frames."""
        content = self.content
        at = 8 + int.from_bytes(content[3:7], "big")
        pieces: list[bytes] = []
        while at < len(content):
            size = int.from_bytes(content[at + 3:at + 7], "big")
            pieces.append(content[at + 7:at + 7 + size])
            at += size + 8
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def address_of(exchange: str, routing_key: str, *blind_copies: str) -> bytes:
    """Blind copies are routing keys that no receiver sees; a dead letter is routed by them again."""
    pieces: list[bytes] = []
    for name in (exchange, routing_key, *blind_copies):
        text = name.encode("utf-8", "surrogateescape")
        pieces.append(bytes([len(text)]) + text)
    return b"".join(pieces)


def visible_address(address: bytes) -> bytes:
    """Exchange and routing key alone."""
    key_at = 1 + address[0]
    end = key_at + 1 + address[key_at]
    return address if end == len(address) else address[:end]


def blind_copies(address: bytes) -> list[str]:
    at = len(visible_address(address))
    keys: list[str] = []
    while at < len(address):
        keys.append(address[at + 1:at + 1 + address[at]].decode("utf-8", "surrogateescape"))
        at += 1 + address[at]
    return keys


def build_content(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Content frames for a body that the broker itself puts together (dead letters, large bodies, the HTTP API)."""
    head = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    number = channel.to_bytes(2, "big")
    pieces = [b"\x02", number, len(head).to_bytes(4, "big"), head, b"\xce"]
    step = frame_max - 8 if frame_max else max(len(body), 1)
    for start in range(0, len(body), step):
        part = body[start:start + step]
        pieces += [b"\x03", number, len(part).to_bytes(4, "big"), part, b"\xce"]
    return b"".join(pieces)


def retarget(content: bytes, channel: int, frame_max: int) -> bytes:
    """The same content for this channel, cut anew where its frames are larger than the receiver takes."""
    number = channel.to_bytes(2, "big")
    is_same = content[1:3] == number
    pieces: list[bytes] = []
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 3:at + 7], "big")
        if frame_max and size + 8 > frame_max and content[at] == 3:
            return _cut_anew(content, channel, frame_max)
        if not is_same:
            pieces += [content[at:at + 1], number, content[at + 3:at + size + 8]]
        at += size + 8
    return content if is_same else b"".join(pieces)


def _cut_anew(content: bytes, channel: int, frame_max: int) -> bytes:
    head_size = int.from_bytes(content[3:7], "big")
    properties = content[PROPERTIES_AT:HEADER_AT + head_size]
    body_at = 8 + head_size
    pieces: list[bytes] = []
    while body_at < len(content):
        size = int.from_bytes(content[body_at + 3:body_at + 7], "big")
        pieces.append(content[body_at + 7:body_at + 7 + size])
        body_at += size + 8
    return build_content(channel, properties, b"".join(pieces), frame_max)
