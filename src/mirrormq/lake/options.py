"""The options of the data source, read once, with a sentence for each that cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from mirrormq.lake.client import MIRRORS, PATIENCE, Address
from mirrormq.lake.errors import LakeError
from mirrormq.lake.schema import EVENTS, arrow_schema

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
PARTITION_ROWS: Final = 200_000
KNOWN: Final = frozenset((
    "url", "vhost", "queue", "queues", "username", "password", "startingoffsets", "endingoffsets", "startingtimestamp",
    "endingtimestamp", "maxrowspertrigger", "includebody", "columns", "failondataloss", "rowsperpartition", "pushfilters",
    "mirror", "nodes", "maxbytespertrigger", "patience", "jobid", "exchange", "routingkey", "runrows", "path", "ranges",
))  # fmt: skip


@dataclass(frozen=True)
class Options:
    address: Address
    pattern: str
    starting: Any  # EARLIEST, LATEST, a time in milliseconds (int), or indexes by queue (dict)
    ending: Any
    max_rows: int
    max_bytes: int
    partition_rows: int
    fail_on_data_loss: bool
    push_filters: bool
    mirror: str
    with_body: bool
    columns: tuple[str, ...]
    nodes: str

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(with_body=self.with_body, columns=self.columns)


def address_from(options: Mapping[str, str]) -> Address:
    given = {name.lower(): value for name, value in options.items()}
    if not given.get("url"):
        raise LakeError(
            "the option 'url' is missing: the address of a node's management API, such as http://guest:guest@localhost:15672"
        )
    return Address.parse(
        given["url"],
        given.get("vhost", "/"),
        given.get("username", ""),
        given.get("password", ""),
        float(given.get("patience", PATIENCE)),
    )


def read_options(options: Mapping[str, str]) -> Options:
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(name for name in given if name not in KNOWN)
    if unknown:
        raise LakeError(f"no such option: {', '.join(unknown)}")
    columns = tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip())
    strange = [name for name in columns if name not in EVENTS.names]
    if strange:
        raise LakeError(f"no such column: {', '.join(strange)}")
    return Options(
        address_from(options),
        _pattern(given),
        _offsets(given, "starting", EARLIEST),
        _offsets(given, "ending", LATEST),
        _count(given, "maxrowspertrigger", 0),
        _count(given, "maxbytespertrigger", 0),
        _count(given, "rowsperpartition", PARTITION_ROWS),
        _flag(given, "failondataloss", default=True),
        _flag(given, "pushfilters", default=False),
        given.get("mirror", ""),
        _flag(given, "includebody", default=True),
        columns,
        given.get("nodes", MIRRORS),
    )


def _pattern(given: Mapping[str, str]) -> str:
    if "queue" in given and "queues" in given:
        raise LakeError("give 'queue' (a name) or 'queues' (a regular expression), not both")
    if "queue" in given:
        return "^" + "".join(letter if letter.isalnum() else "\\" + letter for letter in given["queue"]) + "$"
    return given.get("queues", ".*")


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, "")
    if text and not (text.isdecimal() and text.isascii()):
        raise LakeError(f"the option '{name}' is a number, not '{text}'")
    return int(text) if text else default


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise LakeError(f"the option '{name}' is true or false, not '{text}'")
    return text == "true" if text else default


def _offsets(given: Mapping[str, str], which: str, default: str) -> Any:
    moment = given.get(f"{which}timestamp")
    text = given.get(f"{which}offsets", default).strip()
    if moment is not None:
        return milliseconds_of(moment)
    if text in (EARLIEST, LATEST):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(index, int) for index in found.values()):
        raise LakeError(f"the option '{which}Offsets' is 'earliest', 'latest' or a JSON object of indexes by queue, not '{text}'")
    return found


def milliseconds_of(text: str) -> int:
    """A moment: milliseconds since 1970, or ISO 8601; without a zone it is UTC."""
    if text.isdecimal() and text.isascii():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise LakeError(f"'{text}' is no moment: give milliseconds since 1970, or a time such as 2026-05-04T12:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
