"""etcd's JSON: keys and values in base64, 64-bit integers as text, zero and empty fields left out.

All keys lie below a namespace, so that one etcd can serve several clusters and others. It is put before every key on the way out,
and taken away on the way in.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, TypeAlias

from mirrormq.cluster.coordination.errors import StoreDamaged
from mirrormq.cluster.coordination.keys import prefix_end
from mirrormq.cluster.coordination.port import (
    Absent,
    Change,
    Changes,
    Compare,
    Delete,
    DeletePrefix,
    Item,
    Outcome,
    Present,
    Put,
    Transaction,
    Unchanged,
    ValueIs,
    Write,
)

Json: TypeAlias = dict[str, Any]


def encode(text: str) -> str:
    return b64encode(text.encode()).decode()


def decode(text: str) -> str:
    try:
        return b64decode(text).decode()
    except ValueError as fault:
        raise StoreDamaged(f"etcd's item {text[:100]} (in base64) was not written by us, it is no text: remove it, or name "
                           "another namespace") from fault


def number(answer: Json, name: str) -> int:
    return int(answer.get(name, 0))


def revision_of(answer: Json) -> int:
    return number(answer.get("header", {}), "revision")


class Codec:
    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.probe: Json = {"key": encode(namespace), "count_only": True}
        """A linearizable read that costs next to nothing."""

    def key(self, key: str) -> str:
        return encode(self._namespace + key)

    def prefix(self, prefix: str) -> Json:
        """The range of all keys below a prefix; a zero byte is etcd's word for the lowest key, and for no end."""
        whole = self._namespace + prefix
        return {"key": encode(whole or "\0"), "range_end": encode(prefix_end(whole) or "\0")}

    def page(self, prefix: str, last: str | None, revision: int, limit: int) -> Json:
        """A page of a prefix after the last key of the page before, as of a revision; 0 is the latest."""
        body = self.prefix(prefix) | {"limit": str(limit), "revision": str(revision)}
        if last is not None:
            body["key"] = self.key(last + "\0")
        return body

    def watch(self, prefix: str, after: int) -> Json:
        return {"create_request": self.prefix(prefix) | {"start_revision": str(after + 1), "progress_notify": True}}

    def transaction(self, transaction: Transaction) -> Json:
        keys = dict.fromkeys(compare.key for compare in transaction.compares)
        return {
            "compare": [self._compare(compare) for compare in transaction.compares],
            "success": [self._write(write) for write in transaction.writes],
            "failure": [{"request_range": {"key": self.key(key)}} for key in keys],
        }

    def merged(self, transactions: Iterable[Transaction]) -> Json:
        """Independent transactions inside one."""
        return {"success": [{"request_txn": self.transaction(transaction)} for transaction in transactions]}

    def outcome(self, answer: Json, revision: int) -> Outcome:
        if answer.get("succeeded", False):
            return Outcome(succeeded=True, revision=revision)
        ranges = [part.get("response_range", {}) for part in answer.get("responses", [])]
        found = self.items(item for part in ranges for item in part.get("kvs", []))
        return Outcome(succeeded=False, revision=revision, found=found)

    def outcomes(self, answer: Json) -> list[Outcome]:
        """Those of merged transactions, which share a revision."""
        revision = revision_of(answer)
        return [self.outcome(part["response_txn"], revision) for part in answer.get("responses", [])]

    def items(self, found: Iterable[Json]) -> dict[str, Item]:
        return {self._name(item): _item(item) for item in found}

    def changes(self, revision: int, events: Iterable[Json]) -> Changes:
        return Changes(revision, tuple(self._change(event) for event in events))

    def _change(self, event: Json) -> Change:
        item = event["kv"]
        return Change(self._name(item), None if event.get("type") == "DELETE" else _item(item))

    def _name(self, item: Json) -> str:
        return decode(item["key"])[len(self._namespace) :]

    def _compare(self, compare: Compare) -> Json:
        key = {"key": self.key(compare.key)}
        match compare:
            case Absent():
                return key | {"target": "CREATE", "result": "EQUAL", "create_revision": "0"}
            case Present():
                return key | {"target": "CREATE", "result": "GREATER", "create_revision": "0"}
            case Unchanged(_, revision):
                return key | {"target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}
            case ValueIs(_, value):
                return key | {"target": "VALUE", "result": "EQUAL", "value": encode(value)}

    def _write(self, write: Write) -> Json:
        match write:
            case Put(key, value, lease):
                return {"request_put": {"key": self.key(key), "value": encode(value), "lease": str(lease)}}
            case Delete(key):
                return {"request_delete_range": {"key": self.key(key)}}
            case DeletePrefix(prefix):
                return {"request_delete_range": self.prefix(prefix)}


def _item(item: Json) -> Item:
    return Item(decode(item.get("value", "")), number(item, "mod_revision"), number(item, "lease"))
