"""What can be taken back on this node, as a small file beside the log: DATA/undo.json.

The file is written behind what it tells of, in a thread. A crash in between loses the way back and nothing else: a log that no
item names is dropped at the next start, and an item whose log is gone is forgotten.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
FILE: Final = "undo.json"
FORMAT: Final = 1
PURGE: Final = "purge"
DELETE: Final = "delete"


@dataclass
class Item:
    """`first` is the first message that has not come back yet. Of a purge, `index` is the entry that ended its messages, and
    `record` says how many. Of a deletion, `record` is what the queue was, `bindings` are (exchange, routing key, arguments)."""

    id: str
    what: str
    vhost: str
    name: str
    log_id: int
    time_ms: int
    until_ms: int
    messages: int
    bytes: int
    first: int
    index: int = 0
    record: Json = field(default_factory=dict)
    bindings: list[tuple[str, str, Json]] = field(default_factory=list)

    def shown(self, wall_ahead: int) -> Json:
        """Its times are the node's; the wall clock is so far ahead of them."""
        names = ("id", "what", "vhost", "name", "messages", "bytes")
        return {"time_ms": self.time_ms + wall_ahead, "until_ms": self.until_ms + wall_ahead} \
            | {name: getattr(self, name) for name in names}


def load(directory: Path) -> list[Item]:
    """Raises OSError and ValueError where the file makes no sense."""
    try:
        known = json.loads((directory / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    if not isinstance(known, dict) or known.get("format") != FORMAT:
        raise ValueError(f"{directory / FILE} has another format than this release's, {FORMAT}")
    try:
        return [Item(**item) for item in known["items"]]
    except (TypeError, KeyError) as fault:
        raise ValueError(f"{directory / FILE} makes no sense: {fault}") from None


def encode(items: list[Item]) -> str:
    return json.dumps({"format": FORMAT, "items": [asdict(item) for item in items]}, ensure_ascii=True)


def save(directory: Path, text: str) -> None:
    path = directory / FILE
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
