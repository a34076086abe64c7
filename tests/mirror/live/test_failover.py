"""The leader of a mirrored queue is lost in every way; publishers on the nodes that survive see nothing but a pause.

MIRRORMQ_FAILOVERS says how often; each time the median and the worst pause are printed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from cluster.etcd import etcd_cluster
from cluster.live.nodes import Node, Nodes, running
from live.load import drain

from .probe import Fault, Report, Witness, count, probe
from .rings import declare, eventually, leader_of, mirror, standing, until_in_sync

TIMES = int(os.environ.get("MIRRORMQ_FAILOVERS", "1"))
pytestmark = [pytest.mark.long, pytest.mark.timeout(120 + 40 * TIMES)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("failover")) as nodes:
        mirror(nodes[0], "ha")
        yield nodes


def fail_over(nodes: Nodes, queue: str, fault: Fault, undo: Fault) -> None:
    """As often as asked: the fault, the count, and the old leader is a mirror again by itself."""
    pauses = [fail_over_once(nodes, queue, fault, undo) for _ in range(TIMES)]
    print(f"\n{queue}: {len(pauses)} failovers, pause {median(pauses):.2f} s at the median, {max(pauses):.2f} s at worst")


def fail_over_once(nodes: Nodes, queue: str, fault: Fault, undo: Fault) -> float:
    """Returns the longest pause."""
    until_in_sync(nodes, queue)
    leader = leader_of(nodes[0], queue)
    report = None
    try:
        report = probe(nodes, queue, fault)
    finally:
        undo(next(node for node in nodes if node.name == leader))
    report.must_be_clean()
    until_in_sync(nodes, queue)
    return report.pause


def terminate(node: Node) -> None:
    """Begin a clean stop."""
    assert node.process is not None
    node.process.send_signal(signal.SIGTERM)


def finish_and_start(node: Node) -> None:
    node.stop()
    node.start()


def test_a_killed_leader_costs_a_pause_and_nothing_else(nodes: Nodes) -> None:
    declare(nodes[0], "ha.killed")
    fail_over(nodes, "ha.killed", Node.kill, Node.start)


def test_a_queue_that_may_refuse_says_so_of_nothing_that_the_next_leader_has(nodes: Nodes) -> None:
    mirror(nodes[0], "ha.roomy", priority=1, max_length=1_000_000, overflow="reject-publish")
    declare(nodes[0], "ha.roomy")
    fail_over(nodes, "ha.roomy", Node.kill, Node.start)


def test_a_frozen_leader_costs_a_pause_and_nothing_else(nodes: Nodes) -> None:
    declare(nodes[0], "ha.frozen")
    fail_over(nodes, "ha.frozen", Node.freeze, Node.thaw)


def test_a_leader_that_stops_cleanly_hands_over(nodes: Nodes) -> None:
    declare(nodes[0], "ha.stopped")
    fail_over(nodes, "ha.stopped", terminate, finish_and_start)


@pytest.mark.parametrize("way", ["cut", "blackhole"])
def test_a_leader_that_is_cut_off_from_the_others_loses_its_lead_and_comes_back(nodes: Nodes, way: str) -> None:
    """All links of the third node are dialled by others, through its own line."""
    for turn in range(TIMES):
        queue = f"ha.{way}.{turn}"
        declare(nodes[2], queue)
        pause = fail_over_once(nodes, queue, lambda node: getattr(node.line, way)(), lambda node: node.line.heal())
        print(f"\n{queue}: pause {pause:.2f} s")
        nodes.until_whole()
        eventually(lambda queue=queue: leader_of(nodes[2], queue) != nodes[2].name)


def test_a_frozen_mirror_is_put_out_of_the_ring_and_comes_back_by_itself(nodes: Nodes) -> None:
    declare(nodes[0], "ha.slow")
    until_in_sync(nodes, "ha.slow")
    witness = Witness(1, nodes[1].port, "ha.slow", 20)
    witness.start()
    try:
        eventually(lambda: len(witness.stamps) > 5)
        nodes[2].freeze()
        try:
            eventually(lambda: standing(nodes[0], "ha.slow")[2] == [nodes[1].name])
            without = time.monotonic()
            eventually(lambda: witness.is_heard_since(without))
        finally:
            nodes[2].thaw()
        until_in_sync(nodes, "ha.slow")
    finally:
        witness.finish()
    print(f"\nlongest pause {witness.longest_pause(0.0):.2f} s")
    count(Report(), [witness], drain(nodes[2].port, "ha.slow"), "ha.slow").must_be_clean()


@pytest.fixture(scope="module")
def etcd_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    directory = tmp_path_factory.mktemp("failover-etcd")
    with etcd_cluster(directory / "etcd", 1) as store, running(directory / "nodes", coordination=store.spec) as nodes:
        mirror(nodes[0], "ha")
        yield nodes


@pytest.mark.parametrize("way", ["kill", "cut", pytest.param("freeze", marks=pytest.mark.chaos),
                                 pytest.param("stop", marks=pytest.mark.chaos)])
def test_with_etcd_too_a_lost_leader_costs_a_pause_and_nothing_else(etcd_nodes: Nodes, way: str) -> None:
    faults: dict[str, tuple[Fault, Fault]] = {
        "kill": (Node.kill, Node.start), "freeze": (Node.freeze, Node.thaw), "stop": (terminate, finish_and_start),
        "cut": (lambda node: node.line.cut(), lambda node: node.line.heal()),
    }
    for turn in range(TIMES if way == "cut" else 1):            # all links of the third node are dialled by others
        queue = f"ha.etcd.{way}.{turn}"
        declare(etcd_nodes[2], queue)
        if way == "cut":
            etcd_nodes.until_whole()
            fail_over_once(etcd_nodes, queue, *faults[way])
        else:
            fail_over(etcd_nodes, queue, *faults[way])


def test_of_two_nodes_the_one_that_is_left_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, count=2) as nodes:
        mirror(nodes[0], "ha")
        declare(nodes[0], "ha.two")
        fail_over(nodes, "ha.two", Node.kill, Node.start)
