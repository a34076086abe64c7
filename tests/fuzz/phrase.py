"""What phrases are made of: frames for one channel, and the names and tables that are drawn over and over."""

from __future__ import annotations

from random import Random

from mirrormq.wire.methods import (
    Method,
)
from mirrormq.wire.table import Table

from .vocabulary import (
    EXCHANGES,
    LONG,
    ODD_EXCHANGES,
    ODD_QUEUES,
    QUEUES,
    VALUES,
)

Part = tuple[int, bytes]
Phrase = list[Part]

NEW_CHANNEL: Part = (0, b"")


def said(*methods: Method) -> Phrase:
    return [(1, method.encode()) for method in methods]


def any_queue(rng: Random) -> str:
    return rng.choice(QUEUES) if rng.random() < 0.93 else rng.choice(ODD_QUEUES)


def any_exchange(rng: Random) -> str:
    return rng.choice(EXCHANGES) if rng.random() < 0.9 else rng.choice(ODD_EXCHANGES)


def flag(rng: Random, chance: float = 0.2) -> bool:
    return rng.random() < chance


def any_table(rng: Random) -> Table:
    return {rng.choice(("a", "b", "x-match", "", LONG, "\udcff")): rng.choice(VALUES) for _ in range(rng.randrange(3))}
