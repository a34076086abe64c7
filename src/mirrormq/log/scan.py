"""Going through one write-ahead log file after a stop: what is sound, what is not, and whose it was. Compiled.

Nothing is decided here about the queues; the result is a list of sound chunks in the order of the file, and of bad places.
A bad place at or behind `synced` was never reported durable: an unfinished write. Below it, it is damage.
"""

from __future__ import annotations

from typing import Final

from mirrormq.log.batch import (
    BATCH_HEADER_SIZE,
    DIRECTORY_ENTRY,
    DIRECTORY_ENTRY_SIZE,
    FILE_HEADER_SIZE,
    SALT_OFFSET,
    BatchHeader,
    decode_batch_header,
    decode_file_header,
    directory_is_sound,
)
from mirrormq.log.chunk import HEADER_SIZE, MAGIC, Chunk, decode_chunk, payload_is_sound, trailer_before
from mirrormq.log.entries import DROP, entry_length
from mirrormq.log.errors import DamagedChunk

UNKNOWN: Final = -1
NOTHING: Final = -2


class BadPlace:
    """Bytes that should have been one chunk of queue_id; or UNKNOWN, nobody knows what; or NOTHING but a batch's front.

    `first` and `count` say which indexes are lost, where that is known (count 0 where it is not).
    """

    __slots__ = ("count", "end", "first", "offset", "queue_id")

    def __init__(self, offset: int, end: int, queue_id: int, first: int, count: int) -> None:
        self.offset: int = offset
        self.end: int = end
        self.queue_id: int = queue_id
        self.first: int = first
        self.count: int = count


class Scan:
    """What one file holds; `end` is behind the last batch that was found, sound or not."""

    __slots__ = (
        "_regions",
        "bad",
        "batches",
        "chunks",
        "data",
        "end",
        "has_header",
        "previous_end",
        "salt",
        "sequence",
        "synced",
    )

    def __init__(self, data: bytes, sequence: int) -> None:
        self.data: bytes = data
        self.sequence: int = sequence
        self.salt: int = 0
        self.has_header: bool = False
        self.previous_end: int = -1
        self.synced: int = 0
        self.end: int = FILE_HEADER_SIZE
        self.chunks: list[Chunk] = []
        self.bad: list[BadPlace] = []
        self.batches: list[BatchHeader] = []
        self._regions: list[tuple[int, int]] = []

    def is_recycled(self) -> bool:
        """Does the file carry another number inside than outside?"""
        header = decode_file_header(self.data)
        return header is not None and header.sequence != self.sequence

    def is_begun(self) -> bool:
        """Is this the start of a file that holds at least one batch under its number?"""
        return self._read_header() and self._batch_at(FILE_HEADER_SIZE) is not None

    def run(self, limit: int) -> None:
        """Look at everything below limit (-1: the whole file, whose end is not known)."""
        if self._read_header():
            stop = len(self.data) if limit < 0 else min(limit, len(self.data))
            while self.end < stop and self._step(stop):
                pass
        self.synced = max(self.synced, limit)
        if limit > self.end:
            self._regions.append((self.end, limit))
            self.end = limit
        for start, stop in self._regions:
            self._read_region(start, min(stop, self.synced))
            if stop > self.synced:
                self.bad.append(BadPlace(max(start, self.synced), stop, UNKNOWN, 0, 0))
        self.chunks.sort(key=_offset_of)
        self.bad.sort(key=_place_of)

    def _step(self, stop: int) -> bool:
        """One batch, or one bad region up to the next; False where nothing of this file follows."""
        batch = self._batch_at(self.end)
        if batch is not None and directory_is_sound(self.data, batch):
            self._read_batch(batch)
            self.end = batch.end
            return True
        after = batch.end if batch is not None else self._next_batch(self.end + 1, stop)
        if after < 0:
            return False
        self._regions.append((self.end, after))
        self.end = after
        return True

    def _read_header(self) -> bool:
        """False where the file was never begun under this number."""
        header = decode_file_header(self.data)
        if header is not None:
            self.salt = header.salt
            self.previous_end = header.previous_end
            self.has_header = header.sequence == self.sequence
            return self.has_header
        batch = decode_batch_header(self.data, FILE_HEADER_SIZE)
        if batch is None or batch.sequence != self.sequence & 0xFFFFFFFF:
            return False
        self.salt = batch.salt
        return True

    def _batch_at(self, at: int) -> BatchHeader | None:
        batch = decode_batch_header(self.data, at)
        if batch is None or batch.salt != self.salt or batch.sequence != self.sequence & 0xFFFFFFFF:
            return None
        self.synced = max(self.synced, batch.synced)
        return batch

    def _next_batch(self, at: int, stop: int) -> int:
        """Where the next sound batch of this file starts, -1 if there is none.

        It is found by its salt, which no client knows: bytes in messages, and in what is left of the file's former life, do not
        hold up the search.
        """
        salt = self.salt.to_bytes(8, "little")
        found = at + SALT_OFFSET - 1
        while True:
            found = self.data.find(salt, found + 1, stop)
            if found < 0:
                return -1
            if self._batch_at(found - SALT_OFFSET) is not None:
                return found - SALT_OFFSET

    def _read_batch(self, batch: BatchHeader) -> None:
        self.batches.append(batch)
        at = batch.first_chunk
        for number in range(batch.chunks):
            queue_id, size, crc = DIRECTORY_ENTRY.unpack_from(
                self.data, batch.directory + number * DIRECTORY_ENTRY_SIZE
            )
            chunk = _sound_chunk(self.data, at)
            if chunk is not None and chunk.header_crc == crc and chunk.size == size:
                self.chunks.append(chunk)
            else:
                self._bad_chunk(at, at + size, queue_id)
            at += size

    def _bad_chunk(self, at: int, end: int, queue_id: int) -> None:
        """The directory says whose it was; header and trailer, where one is sound, which indexes."""
        first = 0
        count = 0
        try:
            chunk = decode_chunk(self.data, at)
            if chunk.queue_id == queue_id:
                first = chunk.first_index
                count = chunk.count
        except DamagedChunk:
            pass
        self.bad.append(BadPlace(at, end, queue_id, first, count))

    def _read_region(self, start: int, stop: int) -> None:
        """A batch with a bad header or directory: find its chunks by their own headers, name the rest by its trailers.

        Only below the sync mark: there every byte was written under this number, while behind it sound chunks of the
        file's former life may lie between the unfinished ones.
        """
        if start >= stop:
            return
        found: list[Chunk] = []
        gaps: list[int] = []
        at = gap = start
        while at >= 0:
            at = self.data.find(MAGIC, at, stop)
            chunk = _sound_chunk(self.data, at) if at >= 0 else None
            if chunk is not None:
                found.append(chunk)
                gaps += (gap, at)
                gap = chunk.end
            at = chunk.end if chunk is not None else at + 1 if at >= 0 else -1
        gaps += (gap, stop)
        self.chunks += found
        self._name_gaps(gaps, len(found))

    def _name_gaps(self, gaps: list[int], found: int) -> None:
        """Flat start, end of what is no sound chunk; the first gap holds the bad front of the batch."""
        lost = [(gaps[at], gaps[at + 1]) for at in range(0, len(gaps), 2) if gaps[at] < gaps[at + 1]]
        for start, stop in lost:
            end = trailer_before(self.data, stop) if stop <= len(self.data) else None
            if end is not None:
                self.bad.append(BadPlace(start, stop, end[0], end[1], 0))
            elif len(lost) == 1 and stop - start == BATCH_HEADER_SIZE + DIRECTORY_ENTRY_SIZE * found:
                self.bad.append(BadPlace(start, stop, NOTHING, 0, 0))
            else:
                self.bad.append(BadPlace(start, stop, UNKNOWN, 0, 0))


def _sound_chunk(data: bytes, at: int) -> Chunk | None:
    if at + HEADER_SIZE > len(data):
        return None
    try:
        chunk = decode_chunk(data, at)
    except DamagedChunk:
        return None
    return chunk if payload_is_sound(data, chunk) else None


def has_drop(data: bytes, chunk: Chunk) -> bool:
    """Does the sound chunk end messages otherwise than by an acknowledgement?"""
    at = chunk.payload
    end = at + chunk.length if chunk.count else at      # a record has no entries
    try:
        while at < end and data[at] != DROP:
            at += entry_length(data, at)
    except DamagedChunk:
        return False        # whoever folds it will say so
    return at < end


def _offset_of(chunk: Chunk) -> int:
    return chunk.offset


def _place_of(place: BadPlace) -> int:
    return place.offset
