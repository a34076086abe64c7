"""Messages between machines as bytes, for the ring lane of a link. Compiled; Entries and Mark are hot.

Little-endian, version 1: kind u8, queue u64, epoch u64, then what the kind has. A batch is sent as its chunk, whose header says
epoch, first index and count, so that nothing is said twice; the chunk is the rest of the message.
"""

from __future__ import annotations

from struct import Struct, error, pack, unpack_from
from typing import Final

from mirrormq.log.chunk import decode_chunk
from mirrormq.log.errors import DamagedChunk
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.messages import (
    AskMark,
    AskStatus,
    AskSum,
    Barred,
    Entries,
    Follow,
    FollowAgain,
    Followed,
    Leaving,
    Mark,
    Message,
    Piece,
    PieceWanted,
    Reach,
    StableNote,
    Status,
    SyncAsked,
    TakeAnew,
    TellSum,
)
from mirrormq.mirror.machine.records import Batch

VERSION: Final = 1
HEAD: Final = Struct("<BQQ")
HEAD_SIZE: Final = 17
ENTRIES: Final = Struct("<BQQQQQB")
ENTRIES_SIZE: Final = 42
MARK: Final = Struct("<BQQQQBQQ")

K_ENTRIES: Final = 1
K_MARK: Final = 2
K_ASK_MARK: Final = 3
K_FOLLOW: Final = 4
K_FOLLOWED: Final = 5
K_FOLLOW_AGAIN: Final = 6
K_BARRED: Final = 7
K_REACH: Final = 8
K_LEAVING: Final = 9
K_ASK_STATUS: Final = 10
K_STATUS: Final = 11
K_STABLE: Final = 12
K_SYNC: Final = 13
K_WANTED: Final = 14
K_PIECE: Final = 15
K_ASK_SUM: Final = 16
K_SUM: Final = 17
K_ANEW: Final = 18


class BadMessage(Exception):
    """What a peer sent is no message of this version."""


def encode(queue: int, message: Message) -> bytes:
    if isinstance(message, Entries):
        batch = message.batch
        head = ENTRIES.pack(
            K_ENTRIES, queue, message.epoch, message.nonce, message.stable, message.stable_received, 1 if batch.waits else 0
        )
        return head + batch.data
    if isinstance(message, Mark):
        return MARK.pack(K_MARK, queue, message.epoch, message.durable, message.received, message.whole, message.base,
                         message.filled)
    return _encode_cold(queue, message)


def _encode_cold(queue: int, m: Message) -> bytes:
    kind = 0
    body = b""
    if isinstance(m, AskMark):
        kind = K_ASK_MARK
    elif isinstance(m, FollowAgain):
        kind = K_FOLLOW_AGAIN
    elif isinstance(m, Barred):
        kind, body = K_BARRED, pack("<B", m.is_empty)
    elif isinstance(m, Leaving):
        kind = K_LEAVING
    elif isinstance(m, AskStatus):
        kind = K_ASK_STATUS
    elif isinstance(m, Follow):
        kind, body = K_FOLLOW, pack("<QB", m.nonce, m.whole) + _encode_lineage(m.lineage)
    elif isinstance(m, Followed):
        kind = K_FOLLOWED
        body = pack("<QQQQQQ", m.nonce, m.keep, m.begin, m.begin_epoch, m.stable, m.stable_received)
    elif isinstance(m, Reach):
        kind, body = K_REACH, "\n".join(m.missing).encode()
    elif isinstance(m, Status):
        kind, body = K_STATUS, pack("<QQ", m.durable, m.received)
    elif isinstance(m, StableNote):
        kind, body = K_STABLE, pack("<QQ", m.stable, m.stable_received)
    else:
        kind, body = _encode_sync(m)
    assert kind, f"no bytes for {m!r}"
    return HEAD.pack(kind, queue, m.epoch) + body


def _encode_sync(m: Message) -> tuple[int, bytes]:
    """What is said about full syncs, and why there must be one."""
    if isinstance(m, SyncAsked):
        return K_SYNC, pack("<BQ", m.on, m.drained_to)
    if isinstance(m, PieceWanted):
        return K_WANTED, pack("<QQQQ", m.nonce, m.base, m.position, m.limit)
    if isinstance(m, Piece):
        return K_PIECE, pack("<QQQB", m.nonce, m.base, m.next, m.done) + m.data
    if isinstance(m, AskSum):
        return K_ASK_SUM, pack("<Q", m.index)
    if isinstance(m, TellSum):
        return K_SUM, pack("<Qqqq", m.index, m.count, m.size, m.sum)
    return (K_ANEW, b"") if isinstance(m, TakeAnew) else (0, b"")


def _encode_lineage(lineage: Lineage) -> bytes:
    runs = [value for run in zip(lineage.epochs, lineage.firsts, strict=True) for value in run]
    return pack(f"<QQI{len(runs)}Q", lineage.base, lineage.end, len(lineage.epochs), *runs)


def decode(data: bytes) -> tuple[int, Message]:
    """(queue, message); raises BadMessage."""
    try:
        return _decode(data)
    except (error, IndexError, UnicodeDecodeError, DamagedChunk) as problem:
        raise BadMessage(f"a message of {len(data)} bytes makes no sense: {problem}") from problem


def _decode(data: bytes) -> tuple[int, Message]:
    kind = data[0]
    if kind == K_ENTRIES:
        _, queue, epoch, nonce, stable, received, waits = ENTRIES.unpack_from(data)
        chunk = decode_chunk(data, ENTRIES_SIZE)
        batch = Batch(chunk.epoch, chunk.first_index, chunk.count, data[ENTRIES_SIZE:], waits != 0)
        return queue, Entries(epoch, nonce, batch, stable, received)
    if kind == K_MARK:
        _, queue, epoch, durable, received, whole, base, filled = MARK.unpack_from(data)
        return queue, Mark(epoch, durable, received, whole != 0, base, filled)
    _, queue, epoch = HEAD.unpack_from(data)
    return queue, _decode_cold(kind, epoch, data)


def _decode_cold(kind: int, epoch: int, data: bytes) -> Message:
    at = HEAD_SIZE
    if kind == K_FOLLOW:
        nonce, whole = unpack_from("<QB", data, at)
        return Follow(epoch, nonce, _decode_lineage(data, at + 9), whole != 0)
    if kind == K_FOLLOWED:
        nonce, keep, begin, before, stable, received = unpack_from("<QQQQQQ", data, at)
        return Followed(epoch, nonce, keep, begin, before, stable, received)
    if kind == K_STABLE:
        stable, received = unpack_from("<QQ", data, at)
        return StableNote(epoch, stable, received)
    if kind == K_STATUS:
        durable, received = unpack_from("<QQ", data, at)
        return Status(epoch, durable, received)
    if kind == K_SYNC:
        on, drained = unpack_from("<BQ", data, at)
        return SyncAsked(epoch, on != 0, drained)
    if kind == K_WANTED:
        nonce, base, position, limit = unpack_from("<QQQQ", data, at)
        return PieceWanted(epoch, nonce, base, position, limit)
    if kind == K_PIECE:
        nonce, base, following, done = unpack_from("<QQQB", data, at)
        return Piece(epoch, nonce, base, following, data[at + 25 :], done != 0)
    return _decode_plain(kind, epoch, data)


def _decode_plain(kind: int, epoch: int, data: bytes) -> Message:
    if kind == K_REACH:
        names = data[HEAD_SIZE:].decode()
        return Reach(epoch, tuple(names.split("\n")) if names else ())
    if kind == K_ASK_MARK:
        return AskMark(epoch)
    if kind == K_FOLLOW_AGAIN:
        return FollowAgain(epoch)
    if kind == K_BARRED:
        return Barred(epoch, unpack_from("<B", data, HEAD_SIZE)[0] != 0)
    if kind == K_ASK_SUM:
        return AskSum(epoch, unpack_from("<Q", data, HEAD_SIZE)[0])
    if kind == K_SUM:
        index, count, size, known = unpack_from("<Qqqq", data, HEAD_SIZE)
        return TellSum(epoch, index, count, size, known)
    if kind == K_ANEW:
        return TakeAnew(epoch)
    if kind == K_LEAVING:
        return Leaving(epoch)
    if kind == K_ASK_STATUS:
        return AskStatus(epoch)
    raise BadMessage(f"no message has the kind {kind}")


def _decode_lineage(data: bytes, at: int) -> Lineage:
    base, end, runs = unpack_from("<QQI", data, at)
    values = unpack_from(f"<{runs * 2}Q", data, at + 20)
    lineage = Lineage()
    lineage.base, lineage.end = base, end
    lineage.epochs = list(values[0::2])
    lineage.firsts = list(values[1::2])
    return lineage
