"""Mutated frame sequences against the broker in memory. The long form is `PYTHONPATH=tests python -m fuzz.run`."""

from __future__ import annotations

import gc
import os
from collections import Counter
from random import Random

import pytest

from mirrormq.node.proxy_protocol import ProxyError, parse

from .run import Campaign
from .runner import Runner, check_twins
from .scenario import build, twins

SEED = 20
BATCH = 25
KEPT_ON_PURPOSE = {"ContentInfo"}  # property lists are remembered, up to a limit


@pytest.mark.parametrize("first", range(0, 150, BATCH))
def test_every_mutated_sequence_ends_in_order(first: int) -> None:
    runner = Runner()
    for number in range(first, first + BATCH):
        try:
            runner.run(build(SEED, number))
        except Exception as fault:
            raise AssertionError(f"seed {SEED} scenario {number}: {fault}") from fault


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_it_does_not_matter_how_bytes_are_cut_into_portions(first: int) -> None:
    for number in range(first, first + BATCH):
        try:
            check_twins(*twins(SEED, number))
        except Exception as fault:
            raise AssertionError(f"seed {SEED} twins {number}: {fault}") from fault


def ours() -> Counter[str]:
    """Objects of the broker that are in memory, by class."""
    kinds = [type(thing) for thing in gc.get_objects()]
    names = [kind.__name__ for kind in kinds if str(kind.__module__).startswith("mirrormq.")]
    return Counter(name for name in names if name not in KEPT_ON_PURPOSE)


def test_what_has_ended_is_freed_without_the_garbage_collector() -> None:
    """A node collects garbage rarely, so a circle of references is a leak."""
    runner = Runner()
    for number in range(3):
        runner.run(build(SEED, number))
    gc.collect()
    before = ours()
    gc.disable()
    try:
        for number in range(3, 15):
            runner.run(build(SEED, number))
        assert ours() - before == Counter()
    finally:
        gc.enable()


PROXY_HEADERS = (
    b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672\r\n", b"PROXY TCP6 2001:db8::1 2001:db8::2 40000 5672\r\n",
    b"PROXY UNKNOWN\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x9c\x40\x16\x28",
    b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00",
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x1b\xc0\x00\x02\x01\xc0\x00\x02\x02\x9c\x40\x16\x28"
    b"\x20\x00\x0c\x07\x00\x00\x00\x00\x22\x00\x04user",
)  # fmt: skip


def test_a_broken_proxy_header_is_refused_and_nothing_worse() -> None:
    rng = Random(SEED)
    for _ in range(5000):
        header = bytearray(rng.choice(PROXY_HEADERS))
        for _ in range(rng.randint(0, 4)):
            header[rng.randrange(len(header))] = rng.choice((0, 32, 255, rng.randrange(256)))
        data = bytes(header[: rng.randint(1, len(header))] if rng.random() < 0.3 else header)
        try:
            parse(data)
        except ProxyError:
            continue


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_many_mutated_sequences_end_in_order_and_memory_stays_flat() -> None:
    Campaign(int(os.environ.get("FUZZ_SEED", "1"))).run(int(os.environ.get("MIRRORMQ_SEQUENCES", "50000")))
