"""Many mirrored queues on three nodes: what they cost while nothing happens, and how soon all serve when a node is killed.

The figures are printed, not judged: the machines that run the tests are shared. `pytest -s` shows them.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from cluster.live.nodes import Node, Nodes, running
from compat.support import eventually
from live.load import PERSISTENT, Client
from mirrormq.wire.frames import content_frames, method_frame
from mirrormq.wire.methods import BasicAck, BasicPublish, ConfirmSelect, QueueDeclare, decode_method

from .rings import mirror

QUEUES = int(os.environ.get("MIRRORMQ_MIRRORED", "60"))
IDLE_SECONDS = float(os.environ.get("MIRRORMQ_IDLE_SECONDS", "1"))
NAMES = [f"many-{number}" for number in range(QUEUES)]
HANDS = 6

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def declare(port: int, names: list[str]) -> None:
    client = Client(port)
    for name in names:
        client.call(QueueDeclare(name, durable=True), "queue.declare-ok")
    client.close()


def declare_all(nodes: Nodes) -> None:
    """The leads are spread, as the queues are declared through all nodes."""
    hands = [threading.Thread(target=declare, args=(nodes[hand % 3].port, NAMES[hand::HANDS])) for hand in range(HANDS)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()


def are_whole(node: Node, mirrors: int) -> bool:
    rows = node.api("GET", "/api/queues?columns=name,synchronised_slave_nodes")
    short = [row["name"] for row in rows if len(row.get("synchronised_slave_nodes", [])) < mirrors]
    assert len(rows) == QUEUES, len(rows)
    assert not short, f"{len(short)} have fewer than {mirrors} mirrors in sync, as {short[:5]}"
    return True


def lengths(node: Node) -> set[int | None]:
    return {row.get("messages") for row in node.api("GET", "/api/queues?columns=name,messages")}


def publish_to_each(port: int) -> float:
    """One persistent message into each queue, all confirmed; returns the seconds until the last confirm."""
    client = Client(port)
    client.call(ConfirmSelect(), "confirm.select-ok")
    began = time.monotonic()
    client.send(b"".join(method_frame(1, BasicPublish("", name)) + content_frames(1, PERSISTENT, b"1", 131072) for name in NAMES))
    waiting = set(range(1, QUEUES + 1))
    while waiting:
        frame = next(client.frames())
        method = decode_method(frame.payload)
        assert isinstance(method, BasicAck), method
        waiting -= {tag for tag in waiting if tag <= method.delivery_tag} if method.multiple else {method.delivery_tag}
    client.close()
    return time.monotonic() - began


def cpu(node: Node) -> float:
    assert node.process is not None
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_shares(nodes: Nodes) -> list[float]:
    """Per cent of a core that each node uses."""
    before, began = [cpu(node) for node in nodes], time.monotonic()
    time.sleep(IDLE_SECONDS)
    lasted = time.monotonic() - began
    return [100 * (cpu(node) - was) / lasted for node, was in zip(nodes, before, strict=True)]


def test_they_cost_little_and_serve_again_soon_after_a_kill(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        mirror(nodes[0], "many-", ha_sync_mode="automatic")
        began = time.monotonic()
        declare_all(nodes)
        declared = time.monotonic() - began
        eventually(lambda: are_whole(nodes[0], 2), within=120, every=0.5)
        publish_to_each(nodes[1].port)
        shares = idle_shares(nodes)
        nodes[0].kill()
        served = max(publish_to_each(nodes[1].port), publish_to_each(nodes[2].port))
        nodes[0].start()
        nodes.until_whole(60)
        began = time.monotonic()
        eventually(lambda: are_whole(nodes[0], 2), within=120, every=0.5)
        eventually(lambda: lengths(nodes[0]) == {3}, within=60, every=0.5)
        print(f"{QUEUES} mirrored queues: declared in {declared:.1f} s, idle "
              f"{', '.join(f'{share:.1f} %' for share in shares)} of a core, all served {served:.2f} s after a kill, "
              f"all in sync {time.monotonic() - began:.1f} s after the node's return")
