"""The lineage of a log: which epoch wrote which indexes. Compiled.

Two entries with the same epoch and index are the same entry, and so are all entries before them: only one node appends in an
epoch, and a member appends only behind what it has in common with its predecessor. So two lineages say where two logs part,
without a look at any entry.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 64


class Lineage:
    """Runs of indexes, oldest first: run k has epoch epochs[k] and starts at firsts[k].

    `base` is the index before the first that is held; where it is not 0, the first run starts at it, so that its epoch is known.
    """

    __slots__ = ("base", "end", "epochs", "firsts")

    def __init__(self, base: int = 0, epoch: int = 0) -> None:
        self.base: int = base
        self.end: int = base
        self.epochs: list[int] = [epoch] if base else []
        self.firsts: list[int] = [base] if base else []

    def extend(self, epoch: int, count: int) -> None:
        """The next `count` indexes were written in that epoch."""
        if not self.epochs or self.epochs[-1] != epoch:
            assert not self.epochs or self.epochs[-1] < epoch, "epochs never go back"
            self.epochs.append(epoch)
            self.firsts.append(self.end + 1)
        self.end += count

    def cut(self, keep: int) -> None:
        """Forget what is behind `keep`."""
        assert self.base <= keep <= self.end
        self.end = keep
        while self.firsts and self.firsts[-1] > keep:
            self.firsts.pop()
            self.epochs.pop()

    def run_at(self, index: int) -> int:
        """Which run holds the index: looked for from the newest end, where the answer usually is."""
        run = len(self.firsts) - 1
        while self.firsts[run] > index:
            run -= 1
        return run

    def last_epoch(self) -> int:
        return self.epochs[-1] if self.epochs else 0

    def copy(self, runs: int = LONGEST) -> Lineage:
        """The newest runs; what lies before them counts as not held."""
        other = Lineage()
        other.epochs = self.epochs[-runs:]
        other.firsts = self.firsts[-runs:]
        other.end = self.end
        other.base = self.base if len(self.firsts) <= runs else other.firsts[0]
        return other

    def common(self, other: Lineage) -> int:
        """The last index up to which both logs are the same; -1 where nothing shows that they have anything in common."""
        floor = max(self.base, other.base)
        index = min(self.end, other.end)
        while index >= floor and index > 0:
            mine = self.run_at(index)
            theirs = other.run_at(index)
            if self.epochs[mine] == other.epochs[theirs]:
                return index
            if self.epochs[mine] > other.epochs[theirs]:
                index = self.firsts[mine] - 1
            else:
                index = other.firsts[theirs] - 1
        return 0 if floor == 0 else -1

    def divergence_bound(self, other: Lineage) -> int:
        """The index behind which the other log certainly differs from this one, where common() finds none; the other log's end
        where that is not known. The other log cannot go on from there: it does not hold that index, or this one does not."""
        if other.end < self.base:
            return other.end
        index = min(self.end, other.end)
        last = other.last_epoch()
        while index >= self.base and index > 0 and self.epochs[self.run_at(index)] > last:
            index = self.firsts[self.run_at(index)] - 1
        floor = max(self.base, other.base)
        return min(index, floor - 1) if min(self.end, other.end) >= floor else index

    def __repr__(self) -> str:
        runs = ", ".join(f"{epoch}:{first}" for epoch, first in zip(self.epochs, self.firsts, strict=True))
        return f"<{self.base}..{self.end} {runs}>"
