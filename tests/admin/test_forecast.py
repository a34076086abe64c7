"""What is foretold of queues if their node stops."""

from __future__ import annotations

import pytest

from mirrormq.admin.outlook import LOST, MOVES, PARTLY, WAITS, verdict
from mirrormq.admin.ring_view import Heir, Placement

from .conftest import Connect
from .support import NODE, Node


class _Backlog:
    count = 3


class _Queue:
    """As much of a queue as a forecast looks at."""

    vhost, name, held, kept, backlog = "/", "orders", 1, 4, _Backlog()

    def __init__(self, *, durable: bool = True, exclusive: bool = False) -> None:
        self.durable = durable
        self.exclusive = exclusive


MIRRORED = Placement("a", ("b",), ("c",))
BARE = Placement("a", (), ("c",))
ALONE = Placement("a")


@pytest.mark.parametrize(("durable", "exclusive", "place", "word"), [
    (True, False, MIRRORED, MOVES), (True, False, BARE, WAITS), (True, False, ALONE, WAITS), (False, False, ALONE, LOST),
    (False, False, MIRRORED, MOVES), (True, True, ALONE, LOST),
])  # fmt: skip
def test_the_verdict_follows_from_copies_in_sync(durable: bool, exclusive: bool, place: Placement, word: str):
    told, sentence = verdict(_Queue(durable=durable, exclusive=exclusive), place)  # type: ignore[arg-type]
    assert told == word
    assert sentence


@pytest.mark.parametrize(("lacks", "words"), [
    (3, "it has 1 of 4 messages"), (0, "it has 4 messages, as this node does"),
    (None, "how many of 4 messages it has is not known"),
])
def test_a_mirror_that_takes_over_out_of_sync_is_named_with_what_it_has(lacks: int | None, words: str):
    told, sentence = verdict(_Queue(), BARE, Heir("c", lacks))  # type: ignore[arg-type]
    assert told == PARTLY
    assert sentence.startswith("c takes over although it is not in sync")
    assert words in sentence


@pytest.mark.live
def test_the_node_and_the_command_line_tell_it(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("passing")
    told = node.api("GET", f"/api/nodes/{NODE}/stop-forecast")
    rows = {row["name"]: row for row in told["queues"] if row["vhost"] == vhost}
    assert (rows["kept"]["verdict"], rows["passing"]["verdict"]) == (WAITS, LOST)
    lines = [line.split("\t") for line in node.ctl("stop_forecast").lines]
    assert [vhost, "kept", "0", WAITS] in [line[:4] for line in lines]
    assert node.ask("GET", "/api/nodes/nobody@nowhere/stop-forecast").status == 404
