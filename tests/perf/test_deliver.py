"""Deliveries are counted, measured and acknowledged the same, however the bytes are cut up and however they differ."""

from __future__ import annotations

import random

import pytest

from mirrormq.cli.perf.hot.deliver import BadFrame, Meter
from mirrormq.cli.perf.hot.histogram import Histogram
from mirrormq.cli.perf.hot.inbox import Inbox
from mirrormq.cli.perf.hot.publish import Ledger
from mirrormq.cli.perf.hot.verify import Witness
from mirrormq.wire.frames import HEARTBEAT_FRAME, FrameReader, content_frames, method_frame
from mirrormq.wire.methods import BasicAck, BasicDeliver, BasicNack, BasicReturn, ConnectionBlocked, decode_method
from mirrormq.wire.properties import Properties, encode_properties

NOW = 1_700_000_000_000_000_000
MILLISECOND = 1_000_000


def delivery(tag: int, body: bytes, *, key: str = "q", redelivered: bool = False, frame_max: int = 4096) -> bytes:
    deliver = BasicDeliver("ctag", tag, "", key, redelivered=redelivered)
    return method_frame(1, deliver) + content_frames(1, encode_properties(Properties(delivery_mode=2)), body, frame_max)


def body_of(size: int, stamp: int = NOW - MILLISECOND) -> bytes:
    return (stamp.to_bytes(8, "big") + b"x" * size)[:size]


def inbox_with(every: int = 1, limit: int = 0, witness: Witness | None = None) -> tuple[Inbox, Meter]:
    inbox = Inbox()
    meter = inbox.meter = Meter(Histogram(), every, limit, witness)
    return inbox, meter


def acks_of(meter: Meter) -> list[tuple[int, bool]]:
    methods = [decode_method(frame.payload) for frame in FrameReader(0).feed(bytes(meter.out))]
    return [(method.delivery_tag, method.multiple) for method in methods if isinstance(method, BasicAck)]


def feed_in_pieces(inbox: Inbox, data: bytes, chance: random.Random, largest: int) -> None:
    position = 0
    while position < len(data):
        size = chance.randint(1, largest)
        inbox.feed(data[position : position + size], NOW)
        position += size


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("largest", [5, 200, 100_000])
def test_no_cut_of_the_bytes_changes_what_is_counted(seed: int, largest: int) -> None:
    chance = random.Random(seed)
    inbox, meter = inbox_with(every=7)
    sizes = [chance.choice([0, 5, 8, 40, 40, 40, 40, 9000]) for _ in range(300)]
    parts = []
    for tag, size in enumerate(sizes, 1):
        parts.append(delivery(tag, body_of(size), key=chance.choice(["q", "q", "other"]), redelivered=tag % 10 == 0))
        if chance.random() < 0.1:
            parts.append(HEARTBEAT_FRAME)
    feed_in_pieces(inbox, b"".join(parts), chance, largest)
    assert (meter.received, meter.redelivered) == (300, 30)
    assert meter.latency.total == sum(size >= 8 for size in sizes)
    assert acks_of(meter) == [(tag, True) for tag in range(7, 301, 7)]
    assert inbox.rest == b""


def test_the_latency_is_the_time_from_the_stamp_to_the_reading() -> None:
    inbox, meter = inbox_with()
    for number, age in enumerate((1, 2, 3, 4), 1):
        inbox.feed(delivery(number, body_of(50, NOW - age * MILLISECOND)), NOW)
    assert meter.latency.lowest() == pytest.approx(1000, rel=0.02)
    assert meter.latency.highest() == pytest.approx(4000, rel=0.02)


def test_messages_of_somebody_else_have_no_latency() -> None:
    inbox, meter = inbox_with()
    inbox.feed(delivery(1, b"not one of our messages") + delivery(2, b"not one of our messages"), NOW)
    assert (meter.received, meter.latency.total) == (2, 0)


def test_single_acks_name_every_message() -> None:
    inbox, meter = inbox_with(every=1)
    inbox.feed(b"".join(delivery(tag, body_of(30)) for tag in range(1, 6)), NOW)
    assert acks_of(meter) == [(tag, False) for tag in range(1, 6)]


def test_without_acks_none_is_sent() -> None:
    inbox, meter = inbox_with(every=0)
    inbox.feed(b"".join(delivery(tag, body_of(30)) for tag in range(1, 6)), NOW)
    meter.acknowledge_rest()
    assert (meter.received, acks_of(meter)) == (5, [])


def test_the_rest_is_acknowledged_when_no_more_comes() -> None:
    inbox, meter = inbox_with(every=4)
    inbox.feed(b"".join(delivery(tag, body_of(30)) for tag in range(1, 7)), NOW)
    meter.acknowledge_rest()
    meter.acknowledge_rest()
    assert acks_of(meter) == [(4, True), (6, True)]


def test_a_consumer_that_has_its_messages_takes_no_more() -> None:
    inbox, meter = inbox_with(limit=3)
    inbox.feed(b"".join(delivery(tag, body_of(30)) for tag in range(1, 9)), NOW)
    inbox.feed(delivery(9, body_of(30)), NOW)
    assert (meter.received, meter.left, len(acks_of(meter))) == (3, 0, 3)


def test_confirms_reach_the_ledger_and_other_methods_the_caller() -> None:
    inbox = Inbox()
    ledger = inbox.ledger = Ledger(Histogram(), awaited=True)
    ledger.publish(10, NOW - MILLISECOND)
    blocked = ConnectionBlocked("low on disk")
    inbox.feed(method_frame(1, BasicAck(4, multiple=True)) + method_frame(0, blocked), NOW)
    inbox.feed(method_frame(1, BasicNack(5)), NOW)
    assert (ledger.confirmed, ledger.nacked, ledger.outstanding()) == (4, 1, 5)
    assert [(channel, decode_method(payload)) for _, channel, payload in inbox.others] == [(0, blocked)]


def test_returned_messages_are_counted_and_not_taken_for_deliveries() -> None:
    inbox, meter = inbox_with()
    returned = method_frame(1, BasicReturn(312, "NO_ROUTE", "x", "k")) + content_frames(1, b"\0\0", body_of(9000), 4096)
    inbox.feed(returned + delivery(1, body_of(30)) + returned, NOW)
    assert (inbox.returned, meter.received) == (2, 1)


def test_a_returned_numbered_message_is_excused() -> None:
    inbox = Inbox()
    ledger = inbox.ledger = Ledger(Histogram(), awaited=True)
    inbox.numbered = True
    ledger.publish(2, NOW)
    body = numbered(run=1, producer=0, sequence=2)
    inbox.feed(method_frame(1, BasicReturn(312, "NO_ROUTE", "x", "k")) + content_frames(1, b"\0\0", body, 4096), NOW)
    assert ledger.refused == [2]


def numbered(run: int, producer: int, sequence: int) -> bytes:
    return NOW.to_bytes(8, "big") + run.to_bytes(4, "big") + producer.to_bytes(4, "big") + sequence.to_bytes(8, "big")


def test_a_witness_sees_repeats_disorder_and_strangers() -> None:
    witness = Witness(9, "q", {})
    inbox, _ = inbox_with(witness=witness)
    deliveries = [(1, False), (2, False), (2, False), (4, False), (3, False), (4, True)]
    for tag, (sequence, redelivered) in enumerate(deliveries, 1):
        inbox.feed(delivery(tag, numbered(9, 5, sequence), redelivered=redelivered), NOW)
    inbox.feed(delivery(9, numbered(8, 5, 1)) + delivery(10, b"short"), NOW)
    assert (witness.duplicated, witness.disordered, witness.again, witness.foreign) == (1, 1, 1, 2)


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400 Bad Request\r\n", b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00\x7f\xff\xff\xff\x00"]
)
def test_what_is_no_frame_is_an_error(data: bytes) -> None:
    with pytest.raises(BadFrame):
        Inbox().feed(data, NOW)


def test_a_frame_without_its_end_is_an_error() -> None:
    frame = bytearray(delivery(1, body_of(30)))
    frame[-1] = 0
    inbox, _ = inbox_with()
    with pytest.raises(BadFrame):
        inbox.feed(bytes(frame), NOW)
