"""A probe of failovers: publishers with confirms on nodes that survive, a fault on the leader's, then a drain and a count."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from cluster.live.couriers import STEP, Courier
from cluster.live.nodes import Node, Nodes
from live.load import Client, drain

from .rings import eventually, leader_of, named, others

Fault = Callable[[Node], None]


class Witness(Courier):
    """A courier that remembers when it was confirmed something."""

    def __init__(self, number: int, port: int, queue: str, window: int) -> None:
        super().__init__(number, port, [queue], window)
        self.stamps: list[float] = []

    def _hear(self, client: Client, pending: dict[int, tuple[str, int]]) -> None:
        before = len(pending)
        super()._hear(client, pending)
        if len(pending) < before:
            self.stamps.append(time.monotonic())

    def is_heard_since(self, instant: float) -> bool:
        return bool(self.stamps) and self.stamps[-1] > instant

    def longest_pause(self, since: float) -> float:
        return max(after - before for before, after in pairwise(self.stamps) if after > since)

    def finish(self) -> None:
        self.stopping.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} still waits for confirms"


@dataclass
class Report:
    confirmed: int = 0
    refused: int = 0
    reconnects: int = 0
    lost: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    pause: float = 0.0
    leader: str = ""
    first_lost: list[int] = field(default_factory=list)

    def must_be_clean(self) -> None:
        """Publishers on nodes that survive see nothing but a pause."""
        faults = (self.lost, self.duplicates, self.out_of_order, self.refused, self.reconnects)
        assert faults == (0, 0, 0, 0, 0), self
        assert self.confirmed > 50, self


def probe(nodes: Nodes, queue: str, fault: Fault, *, window: int = 20, before: float = 0.5, after: float = 0.5) -> Report:
    """Publishers run on the other nodes while the fault hits the leader; returns when they have gone on for a while."""
    leader = leader_of(nodes[0], queue)
    witnesses = [Witness(number, node.port, queue, window) for number, node in enumerate(others(nodes, leader), 1)]
    for witness in witnesses:
        witness.start()
    try:
        eventually(lambda: all(len(witness.stamps) > 5 and len(witness.confirmed[queue]) > 50 for witness in witnesses))
        time.sleep(before)
        since = time.monotonic()
        fault(named(nodes, leader))
        _until_it_goes_on(nodes, queue, leader, witnesses, after)
    finally:
        for witness in witnesses:
            witness.finish()
    report = Report(leader=leader, pause=max(witness.longest_pause(since - 0.5) for witness in witnesses))
    return count(report, witnesses, drain(others(nodes, leader)[0].port, queue), queue)


def _until_it_goes_on(nodes: Nodes, queue: str, old: str, witnesses: list[Witness], after: float) -> None:
    """Another leads, and every publisher is answered from it for a while."""
    survivor = others(nodes, old)[0]
    eventually(lambda: leader_of(survivor, queue) not in ("", old))
    moved = time.monotonic()
    eventually(lambda: all(witness.is_heard_since(moved) for witness in witnesses))
    time.sleep(after)


def count(report: Report, couriers: list[Witness], got: list[tuple[int, bool]], queue: str) -> Report:
    seen: set[int] = set()
    last: dict[int, int] = {}
    for number, _ in got:
        report.duplicates += number in seen
        report.out_of_order += number not in seen and number < last.get(number // STEP, 0)
        seen.add(number)
        last[number // STEP] = max(number, last.get(number // STEP, 0))
    for courier in couriers:
        missing = courier.confirmed[queue] - seen
        report.first_lost += sorted(missing)[:3]
        report.lost += len(missing)
        report.confirmed += len(courier.confirmed[queue])
        report.refused += courier.refused
        report.reconnects += courier.reconnects - 1         # the last one is its end
    return report
