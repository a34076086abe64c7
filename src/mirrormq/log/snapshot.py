"""The state of a queue at one place of its log, so that what lies before need not be folded again. Compiled.

A message is live when it is in the log and not yet gone. A snapshot says which: every message with index >= cursor, and
those in `live`, which is sorted and lies below cursor. It reflects every entry below next_index and none above.

Encoding, version 1: version u8, then little-endian u64 queue_id, epoch, next_index, cursor, reserved, count, bytes, then u32
number of live runs, u32 length of extra, then the runs as variable-length numbers (gap since the run before, length - 1),
then extra, then crc32 of all that. Version 2 has, between extra and the checksum, u32 number of publishers, and for each of
them u64 publisher, sequence, index of its newest message; it is written where there are any. Version 3 is version 2, and
behind the publishers, of which there may be none, u64 sum + 1, u64 lost_in, u64 light; it is written where one is known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from struct import Struct, pack, unpack_from
from typing import Final, TypeAlias
from zlib import crc32

from mirrormq.log.errors import DamagedChunk

VERSION: Final = 1
WITH_PUBLISHERS: Final = 2
WITH_SUM: Final = 3
Octets: TypeAlias = bytes
HEAD: Final = Struct("<BQQQQQQQII")
U32: Final = Struct("<I")
SUM: Final = Struct("<QQQ")


class Snapshot:
    """`count` and `bytes` are those of the persistent live messages; `extra` belongs to the owner of the queue.
    `publishers` is flat: publisher, sequence, index, …, in the order in which they published last. `sum`, `lost_in` and
    `light`: see fold.RecoveredQueue."""

    __slots__ = (
        "bytes", "count", "cursor", "epoch", "extra", "light", "live", "lost_in", "next_index", "publishers", "queue_id",
        "reserved", "sum",
    )

    def __init__(
        self, queue_id: int, epoch: int, next_index: int, cursor: int, live: array[int], reserved: int = 0,
        count: int = 0, bytes: int = 0, extra: Octets = b"", publishers: list[int] | None = None, sum: int = -1,
        lost_in: int = 0, light: int = 0,
    ) -> None:
        self.queue_id: int = queue_id
        self.epoch: int = epoch
        self.next_index: int = next_index
        self.cursor: int = cursor
        self.live: array[int] = live
        self.reserved: int = reserved
        self.count: int = count
        self.bytes: int = bytes
        self.extra: Octets = extra
        self.publishers: list[int] = publishers if publishers is not None else []
        self.sum: int = sum
        self.lost_in: int = lost_in
        self.light: int = light

    def encode(self) -> bytes:
        runs = bytearray()
        number = _put_runs(runs, self.live)
        numbers = self.publishers
        version = WITH_SUM if self.sum >= 0 or self.lost_in or self.light else WITH_PUBLISHERS if numbers else VERSION
        tail = b"" if version == VERSION else pack(f"<I{len(numbers)}Q", len(numbers) // 3, *numbers)
        if version == WITH_SUM:
            tail += SUM.pack(self.sum + 1, self.lost_in, self.light)
        head = HEAD.pack(
            version, self.queue_id, self.epoch, self.next_index, self.cursor, self.reserved, self.count, self.bytes,
            number, len(self.extra),
        )
        body = b"".join((head, runs, self.extra, tail))
        return body + U32.pack(crc32(body))


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises DamagedChunk where the bytes are not what encode made."""
    if len(data) < HEAD.size + 4 or U32.unpack_from(data, len(data) - 4)[0] != crc32(data[:-4]):
        raise DamagedChunk("a snapshot's checksum is wrong")
    if not VERSION <= data[0] <= WITH_SUM:
        raise DamagedChunk(f"a snapshot has format version {data[0]}, this program reads up to version {WITH_SUM}")
    _, queue_id, epoch, next_index, cursor, reserved, count, size, runs, extra = HEAD.unpack_from(data, 0)
    live: array[int] = array("Q")
    end = _get_runs(data, HEAD.size, runs, live)
    publishers: list[int] = []
    known = lost_in = light = 0
    if data[0] != VERSION:
        at = end + extra + 4
        number: int = U32.unpack_from(data, at - 4)[0]
        publishers = list(unpack_from(f"<{3 * number}Q", data, at))
        if data[0] == WITH_SUM:
            known, lost_in, light = SUM.unpack_from(data, at + 24 * number)
    return Snapshot(
        queue_id, epoch, next_index, cursor, live, reserved, count, size, data[end : end + extra], publishers, known - 1, lost_in,
        light,
    )


def is_live(snapshot: Snapshot, first: int, next_index: int) -> bool:
    """May a message with first <= index < next_index still be wanted?"""
    if next_index > snapshot.cursor:
        return True
    at = bisect_left(snapshot.live, first)
    return at < len(snapshot.live) and snapshot.live[at] < next_index


def _put_runs(out: bytearray, live: array[int]) -> int:
    """Write the sorted numbers as runs; returns how many runs."""
    runs = 0
    at = 0
    end = len(live)
    last = 0
    while at < end:
        first = live[at]
        after = first + 1
        at += 1
        while at < end and live[at] == after:
            after += 1
            at += 1
        _put_number(out, first - last)
        _put_number(out, after - first - 1)
        last = after
        runs += 1
    return runs


def _put_number(out: bytearray, number: int) -> None:
    assert number >= 0, "live is not sorted"
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _get_runs(data: bytes, at: int, runs: int, live: array[int]) -> int:
    """Read that many runs into live; returns where they end."""
    last = 0
    for _ in range(runs):
        gap, at = _get_number(data, at)
        length, at = _get_number(data, at)
        first = last + gap
        last = first + length + 1
        if length == 0:
            live.append(first)
        else:
            live.extend(range(first, last))
    return at


def _get_number(data: bytes, at: int) -> tuple[int, int]:
    shift = 0
    number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
