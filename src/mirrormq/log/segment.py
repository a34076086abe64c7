"""A queue's segment files: chunks that have left the write-ahead log, oldest index first. Compiled.

A file starts with a header of 40 bytes (magic b"MQSEGM\\0\\0", version u8, 7 bytes 0, queue_id u64, first_index u64,
u32 0, crc32); behind it lie chunks, ascending, with holes where nothing was live. Which files belong to a queue, and how
many bytes of each are good, is written in the manifest beside each snapshot in the write-ahead log: bytes behind that
length, and files that the manifest does not name, are what a crash left over.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from mirrormq.log.chunk import HEADER_SIZE, MAGIC, OVERHEAD
from mirrormq.log.errors import DamagedChunk
from mirrormq.log.index import SparseIndex

SEGMENT_MAGIC: Final = b"MQSEGM\0\0"
VERSION: Final = 1
SEGMENT_FRONT: Final = Struct("<8sB7xQQI")
SEGMENT_HEADER_SIZE: Final = 40
MANIFEST_HEAD: Final = Struct("<QI")
MANIFEST_ENTRY: Final = Struct("<QIQQQ")
SCAN_BYTES: Final = 256 * 1024
PLACE: Final = Struct("<QIQI")
U32: Final = Struct("<I")
SUFFIX: Final = ".seg"


class Segment:
    """`length` bytes of the file are good; `next_index` is behind its last chunk; `indexes` is how many indexes its
    chunks cover, or how many messages were left in those that were thinned out. The sparse index is filled as far as
    `scanned`. It is pinned while it is written to, and sealed when it must not be written to any more."""

    __slots__ = (
        "fd", "first_index", "generation", "index", "indexes", "judged_live", "length", "next_index", "path", "pinned",
        "queue_id", "scanned", "scanned_index", "sealed",
    )

    def __init__(
        self, directory: Path, queue_id: int, first_index: int, generation: int, length: int, next_index: int,
        indexes: int,
    ) -> None:
        self.queue_id: int = queue_id
        self.first_index: int = first_index
        self.generation: int = generation
        self.length: int = length
        self.next_index: int = next_index
        self.indexes: int = indexes
        self.path: Path = directory / f"{first_index:020d}-{generation}{SUFFIX}"
        self.fd: int = -1
        self.pinned: bool = False
        self.sealed: bool = False
        self.judged_live: int = -1
        self.index: SparseIndex = SparseIndex()
        self.scanned: int = SEGMENT_HEADER_SIZE
        self.scanned_index: int = 0

    def offset_for(self, index: int, fd: int) -> int:
        """Offset of the first chunk that reaches beyond index, or of one not far before it; length where there is none.

        The scan hops from header to header and trusts their lengths: whoever reads the chunk verifies it.
        """
        if index >= self.next_index:
            return self.length
        if self.scanned < self.length and self.scanned_index <= index:
            self._scan(index, fd)
        return self.index.offset_for(index)

    def _scan(self, index: int, fd: int) -> None:
        """Extend the sparse index until it reaches beyond index."""
        at = self.scanned
        while at < self.length and self.scanned_index <= index:
            data = os.pread(fd, min(SCAN_BYTES, self.length - at), at)
            at = self._scan_window(data, at)

    def _scan_window(self, data: bytes, base: int) -> int:
        at = 0
        while at + HEADER_SIZE <= len(data):
            if data[at : at + 4] != MAGIC:
                raise DamagedChunk(f"no chunk starts at offset {base + at} of {self.path}")
            first, count, _, length = PLACE.unpack_from(data, at + 24)
            self.index.note(first, base + at)
            self.scanned_index = first + count
            at += length + OVERHEAD
        if at == 0:
            raise DamagedChunk(f"{self.path} ends within a chunk at offset {base}")
        self.scanned = base + at
        return self.scanned

    def behind_holes(self, fd: int) -> int:
        """The first index behind the last hole between its chunks."""
        at = SEGMENT_HEADER_SIZE
        behind = last = self.first_index
        while at < self.length:
            first, count, _, length = PLACE.unpack_from(os.pread(fd, HEADER_SIZE, at), 24)
            if first != last:
                behind = first
            last = first + count
            at += length + OVERHEAD
        return behind

    def cut(self, border: int, fd: int) -> None:
        """Let it end before the chunk that starts at border or later. What lies behind must not be overwritten before the cut
        is durable, so nothing is written to this file any more."""
        at = SEGMENT_HEADER_SIZE
        last = self.first_index
        indexes = 0
        while at < self.length:
            first, count, _, length = PLACE.unpack_from(os.pread(fd, HEADER_SIZE, at), 24)
            if first >= border:
                break
            last = first + count
            indexes += count
            at += length + OVERHEAD
        self.length = at
        self.next_index = last
        self.indexes = indexes
        self.sealed = True
        self.index = SparseIndex()
        self.scanned = SEGMENT_HEADER_SIZE
        self.scanned_index = 0

    def extend(self, places: list[tuple[int, int]], size: int, next_index: int, indexes: int) -> None:
        """`size` bytes of chunks were written behind the others; places are the sparse pairs among them."""
        if self.scanned == self.length:
            for first, offset in places:
                self.index.note(first, offset)
            self.scanned = self.length + size
            self.scanned_index = next_index
        self.length += size
        self.next_index = next_index
        self.indexes += indexes


def segment_header(queue_id: int, first_index: int) -> bytes:
    front = SEGMENT_FRONT.pack(SEGMENT_MAGIC, VERSION, queue_id, first_index, 0)
    return front + U32.pack(crc32(front))


def encode_manifest(moved_upto: int, segments: list[Segment]) -> bytes:
    """Every chunk below moved_upto is in one of these segments, or gone."""
    pieces = [MANIFEST_HEAD.pack(moved_upto, len(segments))]
    for segment in segments:
        pieces.append(
            MANIFEST_ENTRY.pack(
                segment.first_index, segment.generation, segment.length, segment.next_index, segment.indexes
            )
        )
    return b"".join(pieces)


def decode_manifest(data: bytes, directory: Path, queue_id: int) -> tuple[int, list[Segment], int]:
    """moved_upto, the segments, and where the manifest ends."""
    moved_upto, number = MANIFEST_HEAD.unpack_from(data, 0)
    at = MANIFEST_HEAD.size
    segments: list[Segment] = []
    for _ in range(number):
        first, generation, length, next_index, indexes = MANIFEST_ENTRY.unpack_from(data, at)
        segments.append(Segment(directory, queue_id, first, generation, length, next_index, indexes))
        at += MANIFEST_ENTRY.size
    return moved_upto, segments, at
