"""Simulated logs and disks: what was appended, what of it survives a crash, and what a group commit makes durable."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.records import Batch


class Publish(NamedTuple):
    publisher: str
    sequence: int
    message: int
    transient: bool


class Ack(NamedTuple):
    acked: int
    message: int


Entry = Publish | Ack


class Packed(bytes):
    """To the machine, opaque bytes, one for each thing; to the simulation, the things themselves."""

    content: tuple[Any, ...]


def pack(*content: Any) -> Packed:
    packed = Packed(len(content))
    packed.content = content
    return packed


def entries_of(batch: Batch) -> tuple[Entry, ...]:
    assert isinstance(batch.data, Packed)
    return batch.data.content


class Log:
    """One queue's log on one node: batches behind `base`, and what full sync has put below it."""

    def __init__(self) -> None:
        self.base = 0
        self.base_epoch = 0
        self.batches: list[Batch] = []
        self.ends: list[int] = []
        self.first_kept = 1
        self.whole = True
        self.below: dict[int, Publish] = {}
        self.ledger: list[tuple[bytes, int, int]] = []
        self.quarantined = 0

    @property
    def end(self) -> int:
        return self.ends[-1] if self.ends else self.base

    def copy(self) -> Log:
        other = Log()
        other.__dict__.update(self.__dict__)
        other.batches = self.batches[:]
        other.ends = self.ends[:]
        other.below = dict(self.below)
        return other

    def append(self, batch: Batch) -> None:
        assert batch.first == self.end + 1, "the log is contiguous"
        self.batches.append(batch)
        self.ends.append(batch.last)

    def cut(self, keep: int) -> list[Batch]:
        at = bisect_left(self.ends, keep + 1)
        gone = self.batches[at:]
        del self.batches[at:]
        del self.ends[at:]
        assert self.end == keep, "a cut falls between batches"
        self.quarantined += len(gone)
        return gone

    def begin_at(self, first: int, before: int) -> None:
        self.base, self.base_epoch = first - 1, before
        self.batches, self.ends = [], []
        self.first_kept = first
        self.whole = first == 1
        self.below = {}
        self.ledger = []

    def batch_at(self, index: int) -> Batch | None:
        at = bisect_left(self.ends, index)
        return self.batches[at] if self.base < index and at < len(self.batches) else None

    def read(self, first: int, limit: int) -> list[Batch]:
        if first < self.first_kept:
            return []
        at = bisect_left(self.ends, first)
        return self.batches[at : at + limit]

    def lineage(self) -> Lineage:
        lineage = Lineage(self.base, self.base_epoch)
        for batch in self.batches:
            lineage.extend(batch.epoch, batch.count)
        return lineage

    def live(self, upto: int = 1 << 60) -> dict[int, Publish]:
        live = dict(self.below)
        for batch in self.batches:
            if batch.first > upto:
                break
            for offset, entry in enumerate(entries_of(batch)):
                fold(live, batch.first + offset, entry)
        return live


def fold(live: dict[int, Publish], index: int, entry: Entry) -> None:
    if isinstance(entry, Publish):
        live[index] = entry
    else:
        live.pop(entry.acked, None)
