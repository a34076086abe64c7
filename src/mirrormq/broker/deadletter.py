"""Dead letters: what is written into a message's headers when it leaves a queue unacknowledged, and where it may go."""
from __future__ import annotations

from typing import Final

from mirrormq.broker.message import ContentInfo, Message
from mirrormq.wire.properties import replace_expiration, replace_headers
from mirrormq.wire.table import Table, Timestamp, Value, encode_value, join_fields, split_fields

DEATHS: Final = "x-death"
MAX_COUNT: Final = (1 << 63) - 1        # clients can forge it
FIRST: Final = ("x-first-death-reason", "x-first-death-queue", "x-first-death-exchange")


def deaths_of(info: ContentInfo) -> list[Table] | None:
    """The x-death header, the newest record first; None if there is none that makes sense."""
    found = info.headers().get(DEATHS)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        return None
    return [entry for entry in found if isinstance(entry, dict)]


def makes_cycle(deaths: list[Table], queue: str) -> bool:
    """Whether delivering to `queue` would repeat a round that no client's reject was part of."""
    for at, death in enumerate(deaths):
        if death.get("queue") == queue:
            return all(entry.get("reason") != "rejected" for entry in deaths[:at + 1])
    return False


def bury(message: Message, queue: str, reason: str, now_ms: int, keys: list[str], *, drop_copies: bool) -> bytes:
    """The properties of the dead letter. `keys` are the routing keys it had; `drop_copies` removes CC."""
    info = message.info
    fields = split_fields(info.properties, info.headers_at) if info.headers_at >= 0 else []
    had_deaths = any(name == DEATHS for name, _ in fields)
    deaths = _folded(deaths_of(info) or [])
    entry = _next_entry(deaths, message, queue, reason, now_ms, keys)
    rest = [death for death in deaths if not _is_same(death, queue, reason)]
    dropped = (DEATHS, "CC", "BCC") if drop_copies else (DEATHS,)
    kept = [(name, value) for name, value in fields if name not in dropped]
    if not had_deaths:
        kept += [(name, encode_value(value)) for name, value in zip(FIRST, (reason, queue, message.exchange()), strict=True)]
    kept.append((DEATHS, _encode_deaths([entry, *rest])))
    properties = replace_headers(info.properties, 0, join_fields(kept))
    return replace_expiration(properties, 0, None) if info.expiration is not None else properties


def _folded(deaths: list[Table]) -> list[Table]:
    """One record for each queue and reason, the first of its kind. Brokers of old did not count, but wrote one for each time;
    what is left without a count gets the number of its kind. RabbitMQ turns the order round by this, each time."""
    firsts: dict[str, Table] = {}
    counts: dict[str, int] = {}
    for death in deaths:
        kind = repr((death.get("queue"), death.get("reason")))
        firsts.setdefault(kind, death)
        counts[kind] = counts.get(kind, 0) + 1
    folded: list[Table] = []
    for kind, first in firsts.items():
        counted: Table = {} if "count" in first else {"count": counts[kind]}
        folded.append(counted | first)
    folded.reverse()
    return folded


def _is_same(death: Table, queue: str, reason: str) -> bool:
    return death.get("queue") == queue and death.get("reason") == reason


def _next_entry(deaths: list[Table], message: Message, queue: str, reason: str, now_ms: int, keys: list[str]) -> Table:
    for death in deaths:
        if _is_same(death, queue, reason):
            count = death.get("count")
            again: Table = {name: death[name] for name in sorted(death)}
            again["count"] = min(count + 1, MAX_COUNT) if isinstance(count, int) else 1
            return again
    routing_keys: list[Value] = list(keys)
    entry: Table = {"count": 1, "reason": reason, "queue": queue, "time": Timestamp(now_ms // 1000),
                    "exchange": message.exchange(), "routing-keys": routing_keys}
    if message.info.expiration is not None:
        entry["original-expiration"] = message.info.expiration
    return entry


def _encode_deaths(deaths: list[Table]) -> bytes:
    items = b"".join(b"F" + join_fields([(name, _encode(name, value)) for name, value in death.items()]) for death in deaths)
    return b"A" + len(items).to_bytes(4, "big") + items


def _encode(name: str, value: Value) -> bytes:
    if name == "count" and isinstance(value, int):
        return b"l" + value.to_bytes(8, "big", signed=True)
    return encode_value(value)


def with_properties(message: Message, properties: bytes) -> bytes:
    """The message's content with other properties; its body frames are taken over as they are."""
    content = message.content
    head_size = int.from_bytes(content[3:7], "big")
    head = content[7:19] + properties
    return b"\x02" + content[1:3] + len(head).to_bytes(4, "big") + head + b"\xce" + content[head_size + 8:]


def copies_of(info: ContentInfo, name: str) -> list[str] | None:
    """The routing keys in a CC or BCC header; None if the header is not a list."""
    headers = info.headers()
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        return None
    return [item for item in value if isinstance(item, str)]
