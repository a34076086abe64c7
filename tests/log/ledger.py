"""A queue's log as a plain list, and what it folds to, worked out the slow way."""

from __future__ import annotations

from random import Random

from mirrormq.log.entries import (
    ACK,
    DROP,
    ENQUEUE,
    FORGET,
    ORIGIN,
    PURGED,
    RESERVE,
    SKIP,
    TRANSIENT,
    ChunkBuilder,
    Entry,
    entries_in,
)

QUEUE = 7
Line = tuple[object, ...]


class Fold:
    """What is live, by index: content; what is reserved; what each publisher sent last."""

    def __init__(self) -> None:
        self.live: dict[int, Entry] = {}
        self.reserved = 0
        self.publishers: dict[int, tuple[int, int]] = {}

    def persistent(self) -> dict[int, bytes]:
        return {index: entry.content for index, entry in self.live.items() if not entry.flags & TRANSIENT}


class Ledger:
    """`entries` has each index from `base` + 1 on, with the epoch it was written in; a message comes with whose it is."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.entries: list[tuple[int, Entry, tuple[int, int] | None]] = []

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    def copy(self) -> Ledger:
        other = Ledger(self.base)
        other.entries = self.entries[:]
        return other

    def take(self, epoch: int, chunk: bytes) -> None:
        found = entries_in(chunk, 0)
        origins: dict[int, tuple[int, int]] = {}
        for entry in found:
            if entry.kind == ORIGIN:
                assert entry.ranges is not None
                publisher, sequence, first, count = entry.ranges
                origins |= {first + at: (publisher, sequence + at) for at in range(count)}
        for entry in found:
            if entry.kind != ORIGIN:
                assert entry.index == self.end + 1
                times = entry.count if entry.kind == SKIP else 1
                self.entries += [(epoch, entry, origins.get(entry.index))] * times

    def cut(self, keep: int) -> None:
        del self.entries[keep - self.base :]

    def epoch_at(self, index: int) -> int:
        return self.entries[index - self.base - 1][0] if index > self.base else 0

    def runs(self) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        for at, (epoch, _, _) in enumerate(self.entries):
            if not out or out[-1][0] != epoch:
                out.append((epoch, self.base + at + 1))
        return out

    def fold(self, upto: int) -> Fold:
        fold = Fold()
        for at in range(upto - self.base):
            _, entry, origin = self.entries[at]
            index = self.base + at + 1
            if entry.kind == ENQUEUE:
                fold.live[index] = entry
            elif entry.kind in (ACK, DROP):
                for low, high in pairs(entry.ranges or []):
                    for gone in range(low, high + 1):
                        fold.live.pop(gone, None)
            elif entry.kind == RESERVE:
                fold.reserved = entry.count
            elif entry.kind == FORGET:
                fold.publishers.pop(entry.count, None)
            if origin is not None:
                fold.publishers[origin[0]] = (origin[1], index)
        return fold


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    return list(zip(flat[0::2], flat[1::2], strict=True))


def line(entry: Entry) -> Line:
    """What an entry says, whichever chunk it lies in."""
    return (
        entry.kind, entry.flags, entry.address, entry.content, entry.size, entry.time_ms, entry.ranges,
        0 if entry.kind == SKIP else entry.count, entry.bytes, entry.reason, entry.extra, entry.publisher,
    )


def lines(chunks: list[bytes]) -> list[tuple[int, Line]]:
    """(index, what it says) of each entry; a SKIP once for each index, ORIGINs left out."""
    out: list[tuple[int, Line]] = []
    for chunk in chunks:
        for entry in entries_in(chunk, 0):
            if entry.kind == SKIP:
                out += [(entry.index + at, line(entry)) for at in range(entry.count)]
            elif entry.kind != ORIGIN:
                out.append((entry.index, line(entry)))
    return out


class Writer:
    """Makes random chunks behind a ledger."""

    def __init__(self, random: Random, name: bytes) -> None:
        self.random = random
        self.name = name
        self.sequences: dict[int, int] = {}
        self.time = 0

    def chunk(self, ledger: Ledger, epoch: int) -> tuple[int, bytes]:
        """(count, chunk); the ledger does not have it yet."""
        random = self.random
        self.time += random.randrange(3)
        fold = ledger.fold(ledger.end) if ledger.base == 0 else Fold()
        live = sorted(fold.live)
        builder = ChunkBuilder(QUEUE, epoch, ledger.end + 1)
        for _ in range(random.randrange(1, 6)):
            what = random.random()
            if what < 0.6:
                self._publish(builder)
            elif what < 0.85 and live:
                chosen = live[: random.randrange(1, 6)] if random.random() < 0.6 else random.sample(live, 1)
                live = [index for index in live if index not in chosen]
                kept = [index for index in chosen if not fold.live[index].flags & TRANSIENT]
                flat = [index for one in chosen for index in (one, one)]
                size = sum(fold.live[index].size for index in kept)
                if random.random() < 0.7:
                    builder.ack(flat, len(kept), size)
                else:
                    builder.drop(PURGED, flat, len(kept), size)
            elif what < 0.92:
                builder.reserve(builder.next_index + random.randrange(10))
            elif what < 0.97:
                builder.skip(random.randrange(1, 8))
            else:
                builder.forget(random.randrange(3))
        return builder.count, builder.seal(self.time)

    def _publish(self, builder: ChunkBuilder) -> None:
        random = self.random
        publisher = random.randrange(3)
        first = builder.next_index
        number = random.randrange(1, 5)
        before = random.random() < 0.5
        sequence = self.sequences.get(publisher, 0) + 1
        if before and publisher:
            builder.origin(publisher, sequence, first, number)
        for _ in range(number):
            content = self.name + b"%d" % builder.next_index + random.randbytes(random.randrange(200))
            builder.enqueue(TRANSIENT if random.random() < 0.1 else 0, b"to", content, len(content))
        if not before and publisher:
            builder.origin(publisher, sequence, first, number)
        if publisher:
            self.sequences[publisher] = sequence + number - 1
