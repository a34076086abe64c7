"""A cluster under confirmed load, with faults between and in its nodes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from live.load import Client

from .couriers import Courier, Taker, check
from .nodes import Nodes, running

SECONDS = float(os.environ.get("MIRRORMQ_LOAD_SECONDS", "8"))


def spread(nodes: Nodes) -> dict[str, int]:
    """Nine durable queues, three on each node; returns the index of each one's home."""
    homes: dict[str, int] = {}
    for index, node in enumerate(nodes):
        client = Client(node.port)
        for number in range(3):
            client.declare(f"q{index}{number}")
            homes[f"q{index}{number}"] = index
        client.close()
    return homes


@pytest.mark.long
@pytest.mark.timeout(300)
def test_nothing_confirmed_is_lost_while_a_link_breaks_and_a_node_dies(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        homes = spread(nodes)
        couriers = [Courier(number, nodes[number].port, sorted(homes)) for number in range(3)]
        takers = [Taker(nodes[(home + 1) % 3].port, queue) for queue, home in homes.items()]
        for thread in (*takers, *couriers):
            thread.start()
        pause = SECONDS / 6
        time.sleep(pause)
        nodes[1].line.cut()             # from the node that dials it
        nodes[2].line.blackhole()
        time.sleep(pause)
        nodes[1].line.heal()
        nodes[2].line.heal()
        time.sleep(pause)
        nodes[2].kill()
        time.sleep(pause)
        nodes[2].start()
        time.sleep(2 * pause)
        for courier in couriers:
            courier.stopping.set()
        for courier in couriers:
            courier.join(90)
            assert not courier.is_alive(), f"{courier.name} still waits for confirms"
        nodes.until_whole()
        for taker in takers:
            taker.stopping.set()
        for taker in takers:
            taker.join(90)
            assert not taker.is_alive(), f"{taker.name} does not end"
        confirmed = check(couriers, takers)
        print(f"{confirmed} confirmed, {sum(courier.refused for courier in couriers)} refused")
        assert confirmed > 1000
