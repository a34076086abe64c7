"""What the store itself knows of a queue's log, written before each manifest: lineage, completeness, which life. Compiled.

Encoding, little-endian: version u8 (1), life u8, flags u8 (1 WHOLE, 2 HAS_ASIDE, 4 DIFFERS), u8 0, u64 base, whole_from,
filled, u32 number of runs, then for each run u64 epoch, first index. Flags that a reader does not know it ignores.

A log has one life after another. BEGIN: it starts anew, and what it was is set aside. AGAIN: the same, but what was set aside
before stays so and what it was goes. ASIDE: the record is about the log that is set aside. RESTORE: the log that was set
aside is the log again. SAME: nothing of the kind; without HAS_ASIDE, nothing is set aside any more.
"""

from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import Final

from mirrormq.log.errors import DamagedChunk
from mirrormq.log.queue import QueueLog

VERSION: Final = 1
FRONT: Final = Struct("<BBBxQQQI")
SAME: Final = 0
BEGIN: Final = 1
AGAIN: Final = 2
ASIDE: Final = 3
RESTORE: Final = 4
WHOLE: Final = 1
HAS_ASIDE: Final = 2
DIFFERS: Final = 4         # see QueueLog


class Standing:
    __slots__ = ("base", "differs", "end", "epochs", "filled", "firsts", "has_aside", "life", "whole", "whole_from")

    def __init__(self, life: int, base: int, whole_from: int, filled: int) -> None:
        self.life: int = life
        self.base: int = base
        self.whole_from: int = whole_from
        self.filled: int = filled
        self.whole: bool = True
        self.has_aside: bool = False
        self.differs: bool = False
        self.epochs: list[int] = []
        self.firsts: list[int] = []
        self.end: int = 0

    def give(self, queue: QueueLog) -> None:
        queue.base = self.base
        queue.whole_from = self.whole_from
        queue.filled = self.filled
        queue.whole = self.whole
        queue.differs = self.differs
        queue.epochs = self.epochs
        queue.firsts = self.firsts


def encode_standing(queue: QueueLog, life: int, *, has_aside: bool) -> bytes:
    runs: list[int] = []
    for at in range(len(queue.epochs)):
        runs += (queue.epochs[at], queue.firsts[at])
    flags = (WHOLE if queue.whole else 0) | (HAS_ASIDE if has_aside else 0) | (DIFFERS if queue.differs else 0)
    front = FRONT.pack(VERSION, life, flags, queue.base, queue.whole_from, queue.filled, len(queue.epochs))
    return front + pack(f"<{len(runs)}Q", *runs)


def decode_standing(data: bytes) -> Standing:
    """`end` is where the rest of the record starts."""
    version, life, flags, base, whole_from, filled, runs = FRONT.unpack_from(data, 0)
    if version != VERSION:
        raise DamagedChunk(f"a record has format version {version}, this program reads version {VERSION}")
    standing = Standing(life, base, whole_from, filled)
    standing.whole = flags & WHOLE != 0
    standing.has_aside = flags & HAS_ASIDE != 0
    standing.differs = flags & DIFFERS != 0
    numbers = list(unpack_from(f"<{2 * runs}Q", data, FRONT.size))
    standing.epochs = numbers[0::2]
    standing.firsts = numbers[1::2]
    standing.end = FRONT.size + 16 * runs
    return standing
