"""Frames between two nodes that forward for each other. All numbers are little-endian.

Queues are named by their log's id, which is unique in the cluster. Ids of channels, consumers and requests are given by the node
whose clients they belong to. A text is a u16 length and UTF-8.

Work, from the clients' node to a queue's home::

    PUBLISH   log i64, publisher i64, first sequence i64, settled i64, count u32, then each message
              (every sequence below `settled` has been heard of: the home may forget what became of it)
    CONSUME   request i64, log i64, then see CONSUMER, texts and arguments
    CANCEL    request i64 (0: no answer wanted), consumer u32
    SETTLE    log i64, how u8, then ranges of delivery tags (low i64, high i64)
    CREDIT    (consumer u32, octets u32) for each
    QOS       channel i64, limit u32
    GET       request i64, log i64, channel i64, floor i64, no_ack u8
    PURGE, DELETE, INSPECT, FENCE
              request i64, log i64, flags u8
    REPLY     key text, address length u16, size u32, content length u32, address, content
    LEAVE     channel i64
    PROBE     request i64, key of a reply address as text
    RESTART   log i64, attempt i64: what this node sent for the queue before is void, and comes again behind this frame. With two
              zeros, as the first frame of a session: this node understands DROPPED

Answers, from a queue's home::

    CONFIRM   (log i64, first sequence of the run i64, refused u32, that many sequences i64) for each run
    DELIVER   (consumer u32, tag i64, flags u8, message) for each
    ANSWER    request i64, code u16 (0: done), then what the request asked for, or the text of the error
    CANCELLED consumer u32
    PROBED    request i64, whether there is such a channel u8
    DROPPED   log i64, attempt i64 (of the last RESTART for that queue, or 0): since then this node has dropped work for the
              queue, and it takes no more of it until a RESTART

Nodes of former versions pass over RESTART and DROPPED, whose numbers are beyond those that they know.

A message is address length u16 (SAME: as the message before), size u32, content length u32, address, content.
"""
from __future__ import annotations

from struct import Struct, pack, unpack_from
from typing import Final

PUBLISH: Final = 1
CONSUME: Final = 2
CANCEL: Final = 3
SETTLE: Final = 4
CREDIT: Final = 5
QOS: Final = 6
GET: Final = 7
PURGE: Final = 8
DELETE: Final = 9
INSPECT: Final = 10
FENCE: Final = 11
REPLY: Final = 12
LEAVE: Final = 13
PROBE: Final = 14
CONFIRM: Final = 32
DELIVER: Final = 33
ANSWER: Final = 34
CANCELLED: Final = 35
PROBED: Final = 36
RESTART: Final = 37
DROPPED: Final = 38

RUN: Final = Struct("<qqqqI")
RUN_SIZE: Final = 36
MESSAGE: Final = Struct("<HII")
MESSAGE_SIZE: Final = 10
SAME: Final = 0xFFFF
DELIVERY: Final = Struct("<IqBHII")
DELIVERY_SIZE: Final = 23
REDELIVERED: Final = 1
REQUEST: Final = Struct("<qq")
REQUEST_SIZE: Final = 16
ASKED: Final = Struct("<qqB")
GET_HEAD: Final = Struct("<qqqqB")
CONSUMER: Final = Struct("<qIqIIBqIH")     # channel, consumer, floor, channel's limit, prefetch, flags, priority, port, number
CONSUMER_SIZE: Final = 43
NO_ACK: Final = 1
EXCLUSIVE: Final = 2
CANCEL_HEAD: Final = Struct("<qI")
SETTLED: Final = Struct("<qB")
SETTLED_SIZE: Final = 9
ACKED: Final = 0
REQUEUED: Final = 1
REJECTED: Final = 2
CREDITED: Final = Struct("<II")
CREDITED_SIZE: Final = 8
QOS_HEAD: Final = Struct("<qI")
ID: Final = Struct("<q")
ATTEMPT: Final = Struct("<qq")              # log, attempt
CONSUMER_ID: Final = Struct("<I")
CONFIRMED: Final = Struct("<qqI")
CONFIRMED_SIZE: Final = 20
ANSWERED: Final = Struct("<qH")
ANSWERED_SIZE: Final = 10
COUNTS: Final = Struct("<II")
GOT: Final = Struct("<IqB")                # messages left, tag, flags; then a message
GOT_SIZE: Final = 13
IF_UNUSED: Final = 1
IF_EMPTY: Final = 2
LAST_LEFT: Final = 4           # whoever asks has no consumer there any more: an auto-delete queue goes if nobody has


def encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")[:0xFFFF]
    return len(data).to_bytes(2, "little") + data


def decode_text(data: bytes, at: int) -> tuple[str, int]:
    """The text, and where it ends."""
    end = at + 2 + int.from_bytes(data[at:at + 2], "little")
    return data[at + 2:end].decode("utf-8", "surrogateescape"), end


def encode_ranges(ranges: list[int]) -> bytes:
    return pack(f"<{len(ranges)}q", *ranges)


def decode_numbers(data: bytes, at: int, count: int) -> list[int]:
    numbers: list[int] = []
    for place in range(at, at + 8 * count, 8):
        numbers.append(ID.unpack_from(data, place)[0])
    return numbers


def encode_confirmed(log_id: int, first: int, refused: list[int]) -> bytes:
    head = CONFIRMED.pack(log_id, first, len(refused))
    return head + encode_ranges(refused) if refused else head


def encode_message(address: bytes, content: bytes, size: int) -> bytes:
    return MESSAGE.pack(len(address), size, len(content)) + address + content


def decode_message(data: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Address, content and size of the body, of a message that stands alone."""
    length, size, content_length = unpack_from("<HII", data, at)
    start = at + MESSAGE_SIZE + length
    return data[at + MESSAGE_SIZE:start], data[start:start + content_length], size


def properties_of(content: bytes) -> bytes:
    """The property list inside content frames."""
    return content[19:7 + (content[3] << 24 | content[4] << 16 | content[5] << 8 | content[6])]
