"""Which nodes still have what was confirmed of each queue, and so what may lawfully be lost.

The judge follows the queues' records in the store. A copy is gone when its node has lost its disk or has left the
cluster; it counts again when a view has left the node out and a later one has taken it back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.cluster.coordination import Item
from simnodes.ledger import FORCED, Ledger

if TYPE_CHECKING:
    from simnodes.world import World

DELETED = "the queue went with a node"
DISK = "the disks of all who had everything are lost"


class Copies:
    def __init__(self, world: World, ledger: Ledger, queues: list[str]) -> None:
        self.on_deleted: Callable[[str], None] = lambda _queue: None
        self.on_bereft: Callable[[str], None] = lambda _queue: None     # mirrored, and nobody who may lead has it
        self._ledger = ledger
        self._records: dict[str, dict[str, Any]] = {}
        self._lost: dict[str, set[str]] = {queue: set() for queue in queues}
        self._forgotten: set[str] = set()
        world.store_listeners.append(self._changed)

    def _changed(self, changes: dict[str, Item | None]) -> None:
        for key, item in changes.items():
            queue = _queue_of(key)
            if queue not in self._lost:
                continue
            if item is not None:
                record = self._records[queue] = json.loads(item.value)
                self._lost[queue].intersection_update(_holders(record))
            elif self._records.pop(queue, None) is not None:
                self._lost[queue].clear()
                self._ledger.lossy[queue] = DELETED
                self.on_deleted(queue)

    def gone(self, node: str, *, is_forgotten: bool) -> None:
        """What that node had. Where it is forgotten, a mirror that is not in sync leads if there is no other, and says what it
        lacks; where it has lost its disk, nobody does."""
        if is_forgotten:
            self._forgotten.add(node)
        for queue, record in self._records.items():
            holders, lost = _holders(record), self._lost[queue]
            if node not in holders:
                continue
            lost.add(node)
            if lost.issuperset(holders):
                is_led_by_force = is_forgotten and "view" in record and self._ledger.lossy.get(queue, FORCED) == FORCED
                self._ledger.lossy[queue] = FORCED if is_led_by_force else DISK
                if "view" in record and not is_forgotten:
                    self.on_bereft(queue)

    def returned(self, node: str) -> None:
        """A forgotten node joins under its old name. A queue that no mirror has taken over until then waits for its copy."""
        if node in self._forgotten:
            self._forgotten.remove(node)
            for queue, record in self._records.items():
                holders = _holders(record)
                if "view" in record and node in holders and self._lost[queue].issuperset(holders):
                    self._ledger.lossy[queue] = DISK
                    self.on_bereft(queue)


def _queue_of(key: str) -> str:
    """Of a record's key in the store; empty for other keys."""
    if not key.startswith('meta/["queue"'):
        return ""
    _, _, name = json.loads(key[len("meta/"):])
    return str(name)


def _holders(record: dict[str, Any]) -> list[str]:
    return list(record["view"]["ring"]) if "view" in record else [record["node"]]
