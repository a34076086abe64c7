"""Blocks are valid publishes of the right size; the ledger settles every confirm once."""

from __future__ import annotations

import random
import struct

import pytest

from mirrormq.cli.perf.address import parse_address
from mirrormq.cli.perf.blocks import build_block
from mirrormq.cli.perf.hot.histogram import Histogram
from mirrormq.cli.perf.hot.publish import Ledger
from mirrormq.cli.perf.settings import Settings, parse_properties
from mirrormq.wire.frames import FrameReader
from mirrormq.wire.methods import BasicPublish, decode_method
from mirrormq.wire.properties import decode_properties

FRAME_MAX = 4096


def settings_with(**changes: object) -> Settings:
    return Settings(addresses=(parse_address("amqp://localhost"),), queues=("q",), **changes)  # type: ignore[arg-type]


def published(settings: Settings, stamp: int, first: int, count: int) -> list[tuple[BasicPublish, int, bytes]]:
    """What a broker makes of a block: method, delivery mode and body of each message."""
    frames = FrameReader(FRAME_MAX).feed(build_block(settings, 3, 1, FRAME_MAX).messages(stamp, first, count))
    found: list[tuple[BasicPublish, int, bytes]] = []
    for frame in frames:
        if frame.kind == 1:
            method = decode_method(frame.payload)
            assert isinstance(method, BasicPublish)
            found.append((method, 0, b""))
        elif frame.kind == 2:
            properties = decode_properties(frame.payload, 12)
            found[-1] = (found[-1][0], properties.delivery_mode or 0, b"")
            assert struct.unpack_from(">Q", frame.payload, 4) == (settings.size,)
        else:
            found[-1] = (*found[-1][:2], found[-1][2] + frame.payload)
    return found


@pytest.mark.parametrize(
    ("size", "verify"),
    [(size, False) for size in (0, 1, 7, 8, 23, 24, 100, 4088, 4089, 100_000)]
    + [(size, True) for size in (24, 100, 4088, 4089, 100_000)],
)
def test_every_message_of_a_write_has_the_size_asked_for(size: int, verify: bool) -> None:
    messages = published(settings_with(size=size, verify=verify), 12345, 1, 5)
    assert [len(body) for _, _, body in messages] == [size] * 5


def test_a_message_begins_with_the_time_of_its_write() -> None:
    for _, _, body in published(settings_with(size=100), 1_700_000_000_000_000_000, 1, 3):
        assert int.from_bytes(body[:8], "big") == 1_700_000_000_000_000_000


def test_verified_messages_carry_run_producer_and_number() -> None:
    messages = published(settings_with(size=64, verify=True, run=77), 5, 10, 3)
    assert [struct.unpack_from(">QIIQ", body) for _, _, body in messages] == [
        (5, 77, 3, 10),
        (5, 77, 3, 11),
        (5, 77, 3, 12),
    ]


def test_the_publish_names_exchange_key_and_properties() -> None:
    properties = parse_properties({}, {}, persistent=True)
    settings = settings_with(exchange="x", routing_key="k", mandatory=True, properties=properties)
    [(method, mode, _)] = published(settings, 1, 1, 1)
    assert (method.exchange, method.routing_key, method.mandatory, mode) == ("x", "k", True, 2)


def test_a_block_knows_its_size_on_the_wire() -> None:
    for settings in (settings_with(size=3), settings_with(size=500), settings_with(size=500, verify=True)):
        block = build_block(settings, 0, 1, FRAME_MAX)
        assert len(block.messages(1, 1, 4)) == 4 * block.size


def ledger_with(count: int) -> Ledger:
    ledger = Ledger(Histogram(), awaited=True)
    for start in range(0, count, 3):
        ledger.publish(min(3, count - start), 1_000_000)
    return ledger


def test_one_ack_for_many_settles_them_all() -> None:
    ledger = ledger_with(10)
    ledger.settle(7, 3_000_000, multiple=True, refused=False)
    assert (ledger.confirmed, ledger.outstanding(), ledger.latency.total) == (7, 3, 7)
    assert ledger.latency.percentile(50) == bucketed(2000)


def bucketed(microseconds: int) -> int:
    histogram = Histogram()
    histogram.add(microseconds, 1)
    return histogram.percentile(50)


def test_acks_out_of_order_settle_each_message_once() -> None:
    ledger = ledger_with(6)
    for tag in (3, 5, 3, 1):
        ledger.settle(tag, 2_000_000, multiple=False, refused=False)
    assert (ledger.confirmed, ledger.low, ledger.unsettled()) == (3, 1, [2, 4, 6])
    ledger.settle(6, 2_000_000, multiple=True, refused=False)
    assert (ledger.confirmed, ledger.outstanding(), ledger.latency.total) == (6, 0, 6)


def test_a_nack_counts_as_refused_and_not_as_confirmed() -> None:
    ledger = ledger_with(5)
    ledger.settle(2, 2_000_000, multiple=False, refused=True)
    ledger.settle(4, 2_000_000, multiple=True, refused=True)
    assert (ledger.confirmed, ledger.nacked, sorted(ledger.refused)) == (0, 4, [1, 2, 3, 4])
    assert ledger.unsettled() == [5]


def test_tag_zero_for_many_means_all() -> None:
    ledger = ledger_with(5)
    ledger.settle(0, 2_000_000, multiple=True, refused=False)
    assert ledger.outstanding() == 0


def test_without_confirms_nothing_is_outstanding() -> None:
    ledger = Ledger(Histogram(), awaited=False)
    ledger.publish(100, 1)
    assert (ledger.sent, ledger.outstanding(), ledger.unsettled()) == (100, 0, [])


@pytest.mark.parametrize("seed", range(10))
def test_any_mixture_of_acks_settles_every_message_once(seed: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger(Histogram(), awaited=True)
    waiting: set[int] = set()
    for turn in range(1500):
        count = chance.randint(1, 9)
        waiting |= set(range(ledger.sent + 1, ledger.sent + count + 1))
        ledger.publish(count, turn * 1000)
        while len(waiting) > chance.randint(0, 20):
            tag = chance.choice(sorted(waiting))
            multiple = chance.random() < 0.3
            ledger.settle(tag, turn * 1000 + 500_000, multiple=multiple, refused=False)
            waiting -= {one for one in waiting if one == tag or (multiple and one < tag)}
            assert ledger.outstanding() == len(waiting)
    assert set(ledger.unsettled()) == waiting
    assert ledger.latency.total == ledger.confirmed == ledger.sent - len(waiting)
