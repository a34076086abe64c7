"""Confirmed load on several mirrored queues while more than one fault happens at once.

Nothing confirmed is missing, each publisher's order is kept, what comes twice says so, and of what was published through nodes
that survived nothing was put into a queue twice. MIRRORMQ_LOAD_SECONDS stretches the pauses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest

from cluster.live.couriers import STEP, Courier, Taker, check
from cluster.live.nodes import Nodes, running

from .rings import another_leader, declare, eventually, leader_of, mirror, named, others, until_in_sync

SECONDS = float(os.environ.get("MIRRORMQ_LOAD_SECONDS", "4"))
ORDERS = list(permutations(range(3)))[:6 if SECONDS > 30 else 1]
QUEUES = ["ha.one", "ha.two", "ha.three"]
pytestmark = [pytest.mark.long, pytest.mark.timeout(240 + 10 * int(SECONDS))]


class Load:
    """A courier on each node for all queues, and a taker of each queue."""

    def __init__(self, nodes: Nodes, *, takes: bool = True) -> None:
        self.nodes = nodes
        self.couriers = [Courier(number, node.port, QUEUES, window=60) for number, node in enumerate(nodes)]
        self.takers = [Taker(nodes[(number + 1) % 3].port, queue) for number, queue in enumerate(QUEUES)]
        self.takes = takes

    def start(self) -> None:
        for thread in (*(self.takers if self.takes else ()), *self.couriers):
            thread.start()
        eventually(lambda: all(len(courier.confirmed[QUEUES[0]]) > 20 for courier in self.couriers))

    def until_answered(self, *numbers: int) -> None:
        """These couriers, or all, are confirmed more than they were."""
        couriers = [self.couriers[number] for number in numbers or range(3)]
        before = [len(courier.confirmed[QUEUES[0]]) for courier in couriers]
        eventually(lambda: all(len(courier.confirmed[QUEUES[0]]) > count + 20
                               for courier, count in zip(couriers, before, strict=True)), within=60)

    def finish(self) -> int:
        for courier in self.couriers:
            courier.stopping.set()
        for courier in self.couriers:
            courier.join(60)
            assert not courier.is_alive(), f"{courier.name} still waits for confirms"
        until_in_sync(self.nodes, *QUEUES)
        for taker in self.takers:
            if not self.takes:
                taker.start()
            taker.stopping.set()
        for taker in self.takers:
            taker.join(60)
            assert not taker.is_alive(), f"{taker.name} does not end"
        return check(self.couriers, self.takers)

    def must_have_no_copies(self, *couriers: int) -> None:
        """What these published is in the queues once: taken again only what one taker got before a failover."""
        for taker in self.takers:
            numbers = [number for number, redelivered in taker.got if number // STEP in couriers and not redelivered]
            assert len(numbers) == len(set(numbers)), f"{taker.queue} held a message twice"


@contextmanager
def loaded(directory: Path, *, takes: bool = True) -> Iterator[tuple[Nodes, Load]]:
    with running(directory) as nodes:
        mirror(nodes[0], "ha")
        for node, queue in zip(nodes, QUEUES, strict=True):
            declare(node, queue)
        until_in_sync(nodes, *QUEUES)
        load = Load(nodes, takes=takes)
        load.start()
        try:
            yield nodes, load
        finally:
            for thread in (*load.couriers, *load.takers):
                thread.stopping.set()


def test_two_failovers_within_a_second(tmp_path: Path) -> None:
    """The leader dies, and so does the one that has just taken over."""
    with loaded(tmp_path) as (nodes, load):
        first = leader_of(nodes[0], "ha.one")
        survivor = others(nodes, first)[0]
        named(nodes, first).kill()
        second = eventually(lambda: another_leader(survivor, "ha.one", first), every=0.01)
        last = others(nodes, first, second)[0]
        named(nodes, second).kill()
        eventually(lambda: leader_of(last, "ha.one") == last.name)
        load.until_answered(nodes.nodes.index(last))
        for name in (first, second):
            named(nodes, name).start()
        load.until_answered()
        print(f"\n{load.finish()} confirmed")
        load.must_have_no_copies(nodes.nodes.index(last))


def test_the_leader_and_the_next_member_killed_together(tmp_path: Path) -> None:
    with loaded(tmp_path) as (nodes, load):
        nodes[0].kill()
        nodes[1].kill()
        eventually(lambda: leader_of(nodes[2], "ha.one") == nodes[2].name)
        time.sleep(SECONDS / 6)
        nodes[0].start()
        nodes[1].start()
        load.until_answered()
        print(f"\n{load.finish()} confirmed")
        load.must_have_no_copies(2)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "".join(str(number + 1) for number in order))
def test_all_killed_at_once_and_started_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    with loaded(tmp_path, takes=False) as (nodes, load):
        time.sleep(SECONDS / 6)
        for node in nodes:
            node.kill()
        for number in order:
            nodes[number].start()
        nodes.until_whole()
        load.until_answered()
        print(f"\n{load.finish()} confirmed")


@pytest.mark.chaos
def test_killed_one_after_the_other_and_started_in_another_order(tmp_path: Path) -> None:
    with loaded(tmp_path, takes=False) as (nodes, load):
        for number in (0, 1, 2):
            time.sleep(SECONDS / 6)
            nodes[number].kill()
        for number in (0, 1, 2):
            nodes[number].start()
        nodes.until_whole()
        load.until_answered()
        print(f"\n{load.finish()} confirmed")


@pytest.mark.chaos
def test_partial_cuts_that_come_and_go(tmp_path: Path) -> None:
    """The first and the second lose each other, then the first two and the third, in turn; both sides reach the store."""
    with loaded(tmp_path) as (nodes, load):
        for number in (1, 2) * 3:
            nodes[number].line.cut()
            eventually(lambda number=number: nodes[0].name not in nodes[number].sees())
            time.sleep(SECONDS / 6)
            nodes[number].line.heal()
            nodes.until_whole(60)
        load.until_answered()
        print(f"\n{load.finish()} confirmed")
        load.must_have_no_copies(0, 1, 2)


@pytest.mark.chaos
def test_every_node_frozen_in_turn(tmp_path: Path) -> None:
    with loaded(tmp_path) as (nodes, load):
        for node in nodes:
            node.freeze()
            time.sleep(3)
            node.thaw()
            until_in_sync(nodes, *QUEUES)
        load.until_answered()
        print(f"\n{load.finish()} confirmed")
        load.must_have_no_copies(0, 1, 2)
