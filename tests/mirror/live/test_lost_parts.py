"""A part of a mirror's files is taken away while its node is down: its copy counts for nothing until it is whole again.

One cluster for all tests. A mirror that was synchronised in full has its messages in segments.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pika.exceptions import AMQPError

from cluster.live.nodes import Node, Nodes
from compat.support import ApiError
from live.load import drain

from .rings import channel_at, count, declare, eventually, leader_of, look, mirror, publish, standing, until_in_sync

pytestmark = pytest.mark.timeout(300)
MANY = 200


def log_of(node: Node) -> Path:
    return node.directory / "data" / "log"


def segment_of(node: Node, queue: str) -> Path:
    """Each message says to which queue it was published."""
    return next(path for path in log_of(node).glob("queues/*/*.seg") if queue.encode() in path.read_bytes())


def lose_segment(node: Node, queue: str) -> None:
    segment_of(node, queue).unlink()


def shorten_segment(node: Node, queue: str) -> None:
    with segment_of(node, queue).open("r+b") as file:
        file.truncate(file.seek(0, 2) // 2)


def lose_newest_log_file(node: Node, _queue: str) -> None:
    max(log_of(node).glob("wal/*.wal")).unlink()


def lose_everything_but_the_directory(node: Node, _queue: str) -> None:
    for path in log_of(node).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def filled(nodes: Nodes, queue: str, home: int = 0) -> None:
    """Its mirrors were made when the messages were there."""
    declare(nodes[home], queue)
    publish(nodes[home], queue, *[b"%019d" % number for number in range(1, MANY + 1)])
    mirror(nodes[0], queue, ha_sync_mode="automatic")
    until_in_sync(nodes, queue)


def numbers_of(node: Node, queue: str) -> list[int]:
    return [number for number, _ in drain(node.port, queue)]


@pytest.mark.parametrize("lose", [lose_segment, lose_newest_log_file, pytest.param(shorten_segment, marks=pytest.mark.chaos)])
def test_a_copy_that_lacks_a_part_is_not_in_sync_and_is_taken_anew(nodes: Nodes, lose: Callable[[Node, str], None]) -> None:
    queue = f"part.{lose.__name__}"
    three = nodes[2].name
    filled(nodes, queue)
    nodes[2].stop()
    lose(nodes[2], queue)
    publish(nodes[1], queue, b"%019d" % (MANY + 1))
    nodes[2].start()
    eventually(lambda: f"queue '{queue}' in vhost '/' is not in sync here" in nodes[2].log())
    until_in_sync(nodes, queue)
    mirror(nodes[0], queue, ha_sync_mode="automatic", ha_mode="nodes", ha_params=[three])
    eventually(lambda: standing(nodes[0], queue) == (three, [], []))
    assert numbers_of(nodes[1], queue) == list(range(1, MANY + 2))


@pytest.mark.chaos
@pytest.mark.parametrize("lose", [lose_segment, lose_newest_log_file, lose_everything_but_the_directory])
def test_who_lacks_a_part_and_starts_first_does_not_lead(nodes: Nodes, lose: Callable[[Node, str], None]) -> None:
    """All go down at once, so that it is in the ring by what the others know."""
    queue = f"first.{lose.__name__}"
    filled(nodes, queue)
    for node in nodes:
        node.freeze()
    for node in nodes:
        node.kill()
    lose(nodes[2], queue)
    for number in (2, 0, 1):
        nodes[number].start()
    eventually(lambda: leader_of(nodes[0], queue) in (nodes[0].name, nodes[1].name))
    until_in_sync(nodes, queue)
    assert numbers_of(nodes[2], queue) == list(range(1, MANY + 1))


@pytest.mark.chaos
def test_a_damaged_copy_that_was_the_only_one_in_sync_is_named_and_leads_nothing(nodes: Nodes) -> None:
    filled(nodes, "only")
    mirror(nodes[0], "only", ha_mode="nodes", ha_params=[nodes[2].name])
    eventually(lambda: standing(nodes[0], "only") == (nodes[2].name, [], []))
    nodes[2].stop()
    segment = segment_of(nodes[2], "only")
    held = segment.read_bytes()
    segment.unlink()
    nodes[2].start()
    assert "no other node was in sync, so nobody leads it" in nodes[2].log()
    eventually(lambda: [look(node, "only").get("state") for node in nodes] == ["down"] * 3)
    nodes[2].stop()
    segment.write_bytes(held)
    nodes[2].start()
    eventually(lambda: look(nodes[0], "only").get("state") == "running")
    assert count(nodes[0], "only") == MANY


@pytest.mark.chaos
@pytest.mark.parametrize("number", [0, 2])
def test_a_queue_whose_only_copy_is_lost_is_listed_and_can_be_deleted(nodes: Nodes, number: int) -> None:
    """From any node, and declared again at once."""
    queue = f"deleted{number}"
    filled(nodes, queue)
    mirror(nodes[0], queue, ha_mode="nodes", ha_params=[nodes[2].name])
    eventually(lambda: standing(nodes[0], queue) == (nodes[2].name, [], []))
    nodes[2].stop()
    segment_of(nodes[2], queue).unlink()
    nodes[2].start()
    eventually(lambda: [state_in_list(node, queue) for node in nodes] == ["down"] * 3)
    nodes[number].api("DELETE", f"/api/queues/%2F/{queue}")
    eventually(lambda: [state_in_list(node, queue) for node in nodes] == [None] * 3)
    declare(nodes[1], queue)
    assert count(nodes[2], queue) == 0


def state_in_list(node: Node, queue: str) -> str | None:
    return next((row["state"] for row in node.api("GET", "/api/queues") if row["name"] == queue), None)


def restart_with_a_flipped_bit(node: Node, queue: str) -> None:
    node.stop()
    segment = segment_of(node, queue)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    node.start()


@pytest.mark.chaos
def test_a_mirror_that_finds_its_copy_damaged_takes_it_anew_at_once(nodes: Nodes) -> None:
    """It is the first that a new mirror asks for what it lacks."""
    one, _, three = (node.name for node in nodes)
    declare(nodes[0], "source")
    publish(nodes[0], "source", *[b"%019d" % number for number in range(1, MANY + 1)])
    mirror(nodes[0], "source", ha_sync_mode="automatic", ha_mode="nodes", ha_params=[one, three])
    until_in_sync(nodes, "source", copies=2)
    restart_with_a_flipped_bit(nodes[2], "source")
    until_in_sync(nodes, "source", copies=2)
    mirror(nodes[0], "source", ha_sync_mode="automatic")
    until_in_sync(nodes, "source")
    assert "queue 'source' in vhost '/' is not in sync here any more" in nodes[2].log()
    assert lead_by(nodes, "source", three) == list(range(1, MANY + 1))


def lead_by(nodes: Nodes, queue: str, name: str) -> list[int]:
    """What is in the queue when that node leads."""
    nodes[0].api("POST", f"/api/queues/%2F/{queue}/actions", {"action": "move", "node": name})
    eventually(lambda: leader_of(nodes[0], queue) == name)
    return numbers_of(nodes[0], queue)


@pytest.mark.chaos
def test_a_leader_that_finds_its_copy_damaged_hands_over_and_takes_it_anew(nodes: Nodes) -> None:
    """What is in a segment is looked at when it is read, and not before. A client that meets it may be refused, and can go on."""
    three = nodes[2].name
    filled(nodes, "flipped")
    restart_with_a_flipped_bit(nodes[2], "flipped")
    until_in_sync(nodes, "flipped")
    with suppress(ApiError):        # it may have handed over again before anybody saw that it led
        nodes[0].api("POST", "/api/queues/%2F/flipped/actions", {"action": "move", "node": three})
    with channel_at(nodes[0]) as channel, suppress(AMQPError):
        list(iter(lambda: channel.basic_get("flipped")[0], None))
    eventually(lambda: "queue 'flipped' in vhost '/' is not in sync here any more" in nodes[2].log())
    eventually(lambda: leader_of(nodes[0], "flipped") not in ("", three))
    until_in_sync(nodes, "flipped")
    publish(nodes[2], "flipped", b"%019d" % (MANY + 1))
    assert lead_by(nodes, "flipped", three) == list(range(1, MANY + 2))
