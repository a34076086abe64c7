"""Disks that stand still while their nodes answer: the processes that sync for them are frozen."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.live.nodes import Node, Nodes

from .rings import count, declare, eventually, mirror, publish, standing, until_in_sync

pytestmark = [pytest.mark.timeout(180), pytest.mark.chaos]
STUTTER = 4.0       # seconds, in which both would be put out one after the other


def helpers_of(node: Node) -> list[int]:
    assert node.process is not None
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text().split()
    return [int(child) for child in children if b"helper.py" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def standing_still(*nodes: Node) -> Iterator[None]:
    helpers = [helper for node in nodes for helper in helpers_of(node)]
    assert helpers, "a node syncs by another process"
    for helper in helpers:
        os.kill(helper, signal.SIGSTOP)
    try:
        yield
    finally:
        for helper in helpers:
            os.kill(helper, signal.SIGCONT)


def in_sync(node: Node, queue: str) -> list[str]:
    return standing(node, queue)[2]


@pytest.fixture
def queue(nodes: Nodes, request: pytest.FixtureRequest) -> str:
    name = f"disk.{request.node.name}"
    mirror(nodes[0], "disk")
    declare(nodes[0], name)
    until_in_sync(nodes, name)
    publish(nodes[0], name, b"before")
    return name


def test_of_two_mirrors_whose_disks_stutter_one_stays_and_nothing_is_confirmed_without_it(nodes: Nodes, queue: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with standing_still(nodes[1], nodes[2]):
            publishing = pool.submit(publish, nodes[0], queue, b"during")
            eventually(lambda: len(in_sync(nodes[0], queue)) == 1)
            until = time.monotonic() + STUTTER
            while time.monotonic() < until:
                assert (len(in_sync(nodes[0], queue)), publishing.done()) == (1, False)
        publishing.result(30)
    until_in_sync(nodes, queue)
    assert [count(node, queue) for node in nodes] == [2, 2, 2]


def test_disks_that_stand_still_for_good_do_not_stop_the_queue(nodes: Nodes, queue: str) -> None:
    with standing_still(nodes[1], nodes[2]):
        publish(nodes[0], queue, b"during")
        assert in_sync(nodes[0], queue) == []
    until_in_sync(nodes, queue)
    assert [count(node, queue) for node in nodes] == [2, 2, 2]
