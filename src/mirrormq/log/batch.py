"""How chunks lie in a write-ahead log file. Compiled.

A file starts with a header of 64 bytes; behind it follow batches, one for each group commit::

    file header   magic b"MQWALOG\\0", version u8, 7 bytes 0, sequence u64, salt u64, previous_end u64, 20 bytes 0, crc32
    batch header  magic b"MQWB", version u8, flags u8, u16 0, chunks u32, directory crc u32, salt u64, synced u64,
                  length u64 (directory and chunks), low half of the file's sequence u32, crc32
    directory     for each chunk: queue_id u64, bytes u32, its header crc u32
    chunks

The salt is a random number made new each time a file is begun, so that neither bytes left over in a recycled file nor
bytes that a client put into a message can pass for a batch. `synced` says up to where the file was known to be on disk when
the batch was written, and `previous_end` the same of the file before: damage below such a mark cannot be an unfinished
write. The directory finds each chunk although another one's header is broken, and tells whose it was.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

FILE_MAGIC: Final = b"MQWALOG\0"
BATCH_MAGIC: Final = b"MQWB"
VERSION: Final = 1
FILE_FRONT: Final = Struct("<8sB7xQQQ20x")
FILE_HEADER_SIZE: Final = 64
BATCH_FRONT: Final = Struct("<4sBBHIIQQQI")
BATCH_HEADER_SIZE: Final = 48
SALT_OFFSET: Final = 16
DIRECTORY_ENTRY: Final = Struct("<QII")
DIRECTORY_ENTRY_SIZE: Final = 16
U32: Final = Struct("<I")


class FileHeader:
    __slots__ = ("previous_end", "salt", "sequence", "version")

    def __init__(self, version: int, sequence: int, salt: int, previous_end: int) -> None:
        self.version: int = version
        self.sequence: int = sequence
        self.salt: int = salt
        self.previous_end: int = previous_end


class BatchHeader:
    __slots__ = ("chunks", "directory_crc", "length", "offset", "salt", "sequence", "synced")

    def __init__(
        self, offset: int, chunks: int, directory_crc: int, salt: int, synced: int, length: int, sequence: int
    ) -> None:
        self.offset: int = offset
        self.chunks: int = chunks
        self.directory_crc: int = directory_crc
        self.salt: int = salt
        self.synced: int = synced
        self.length: int = length
        self.sequence: int = sequence

    @property
    def directory(self) -> int:
        return self.offset + BATCH_HEADER_SIZE

    @property
    def first_chunk(self) -> int:
        return self.offset + BATCH_HEADER_SIZE + DIRECTORY_ENTRY_SIZE * self.chunks

    @property
    def end(self) -> int:
        return self.offset + BATCH_HEADER_SIZE + self.length


def encode_file_header(sequence: int, salt: int, previous_end: int) -> bytes:
    front = FILE_FRONT.pack(FILE_MAGIC, VERSION, sequence, salt, previous_end)
    return front + U32.pack(crc32(front))


def decode_file_header(data: bytes) -> FileHeader | None:
    """None where the first bytes are not a sound file header."""
    if len(data) < FILE_HEADER_SIZE or data[:8] != FILE_MAGIC:
        return None
    if U32.unpack_from(data, 60)[0] != crc32(data[:60]):
        return None
    _, version, sequence, salt, previous_end = FILE_FRONT.unpack_from(data, 0)
    return FileHeader(version, sequence, salt, previous_end)


def encode_directory(chunks: list[bytes]) -> bytes:
    pieces: list[bytes] = []
    for chunk in chunks:
        pieces.append(chunk[8:16])
        pieces.append(U32.pack(len(chunk)))
        pieces.append(chunk[52:56])
    return b"".join(pieces)


def encode_batch_head(sequence: int, salt: int, synced: int, chunks: list[bytes], size: int) -> bytes:
    """Header and directory for chunks of `size` bytes together."""
    directory = encode_directory(chunks)
    length = len(directory) + size
    front = BATCH_FRONT.pack(
        BATCH_MAGIC, VERSION, 0, 0, len(chunks), crc32(directory), salt, synced, length, sequence & 0xFFFFFFFF
    )
    return b"".join((front, U32.pack(crc32(front)), directory))


def decode_batch_header(data: bytes, offset: int) -> BatchHeader | None:
    """None where no sound batch header is at offset. Whether it is of this file, salt and sequence tell."""
    if offset + BATCH_HEADER_SIZE > len(data) or data[offset : offset + 4] != BATCH_MAGIC:
        return None
    if U32.unpack_from(data, offset + 44)[0] != crc32(data[offset : offset + 44]):
        return None
    _, _, _, _, chunks, directory_crc, salt, synced, length, sequence = BATCH_FRONT.unpack_from(data, offset)
    return BatchHeader(offset, chunks, directory_crc, salt, synced, length, sequence)


def directory_is_sound(data: bytes, batch: BatchHeader) -> bool:
    return batch.first_chunk <= len(data) and crc32(data[batch.directory : batch.first_chunk]) == batch.directory_crc
