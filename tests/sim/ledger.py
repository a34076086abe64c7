"""Which forwarded publishes a simulated queue has taken, folded from its log. What to do with another is the node's own rule."""

from __future__ import annotations

from mirrormq.broker.forward.runs import Publisher
from sim.storage import Log, Publish, entries_of

NEW = 0
EARLY = -1
Dump = list[tuple[bytes, int, int]]


class Ledger:
    def __init__(self, log: Log | None = None) -> None:
        self._known: dict[bytes, Publisher] = {}
        self._places: dict[bytes, int] = {}         # where the newest of each is
        if log is not None:
            self._fold(log)

    def _fold(self, log: Log) -> None:
        for name, sequence, index in log.ledger:
            self._note(name, sequence, index)
        for batch in log.batches:
            for offset, entry in enumerate(entries_of(batch)):
                if isinstance(entry, Publish):
                    self.note(entry, batch.first + offset)

    def judge(self, entry: Publish, floor: int) -> int:
        """NEW: take it. EARLY: one before it comes again. Otherwise it is here: answer when that index is stable."""
        name = entry.publisher.encode()
        known = self._known.get(name, Publisher())
        if known.comes_early(entry.sequence, floor):
            return EARLY
        return NEW if known.is_new(entry.sequence) else self._places[name]

    def note(self, entry: Publish, index: int) -> None:
        self._note(entry.publisher.encode(), entry.sequence, index)

    def _note(self, name: bytes, sequence: int, index: int) -> None:
        self._known.setdefault(name, Publisher()).last = sequence
        self._places[name] = index

    def dump(self) -> Dump:
        return [(name, int(known.last), self._places[name]) for name, known in self._known.items()]
