"""Many queues and bindings, declared through one node, are on the others; a cold node joins and serves."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from compat.support import eventually
from live.load import Client, Publisher, Taker
from mirrormq.wire.methods import QueueBind, QueueDeclare

from .nodes import Node, Nodes, running

QUEUES = int(os.environ.get("MIRRORMQ_MANY", "1000"))
HANDS = 20


def declare(port: int, first: int, count: int) -> None:
    """So many durable queues with two bindings each."""
    client = Client(port)
    for number in range(first, first + count):
        client.call(QueueDeclare(f"many-{number}", durable=True), "queue.declare-ok")
        client.call(QueueBind(f"many-{number}", "amq.topic", f"a.{number}"), "queue.bind-ok")
        client.call(QueueBind(f"many-{number}", "amq.direct", f"b.{number % 100}"), "queue.bind-ok")
    client.close()


def declare_all(port: int) -> None:
    share = QUEUES // HANDS
    hands = [threading.Thread(target=declare, args=(port, hand * share, share)) for hand in range(HANDS)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()


def counts(node: Node) -> tuple[int, int]:
    names = node.api("GET", "/api/queues?columns=name&disable_stats=true")
    bindings = node.api("GET", "/api/exchanges/%2F/amq.topic/bindings/source")
    bindings += node.api("GET", "/api/exchanges/%2F/amq.direct/bindings/source")
    return len(names), len(bindings)


def memory(node: Node) -> int:
    assert node.process is not None
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) >> 10


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_one_node_declares_is_on_all_and_a_cold_node_joins(tmp_path: Path) -> None:
    with running(tmp_path, 2) as nodes:
        before = memory(nodes[0])
        started = time.monotonic()
        declare_all(nodes[0].port)
        declared = time.monotonic() - started
        for node in nodes:
            eventually(lambda node=node: counts(node) == (QUEUES, 2 * QUEUES))
        cold = Nodes(tmp_path, names=["rabbit9@localhost"])[0]
        cold.open()
        try:
            started = time.monotonic()
            cold.start()
            joined = time.monotonic() - started
            eventually(lambda: len(cold.sees()) == 3)
            assert counts(cold) == (QUEUES, 2 * QUEUES)
            publisher = Publisher(cold.port, "many-7")
            publisher.step(100)
            publisher.finish()
            publisher.close()
            taker = Taker(nodes[1].port, "many-7")
            eventually(lambda: taker.step(1.0) and len(taker.got) >= 100)
            taker.close()
            assert [number for number, _ in taker.got] == list(range(1, 101))
            print(f"{QUEUES} queues: declared in {declared:.1f} s, joined in {joined:.1f} s, memory {before} to "
                  f"{memory(nodes[0])} MiB at home, {memory(nodes[1])} MiB beside, {memory(cold)} MiB in the cold node")
        finally:
            cold.close()
