"""What is foretold of queues if their node stops."""

from __future__ import annotations

import pytest

from mirrormq.admin.forecast import AT_RISK, ENDS, MOVES, WAITS, forecast
from mirrormq.admin.mirrors import Learner, Ring
from mirrormq.broker.arguments import parse_queue_arguments

from .conftest import Connect
from .support import NODE, Node


class _Backlog:
    count = 3


class _Queue:
    """As much of a queue as a forecast looks at."""

    vhost, name, held, backlog = "/", "orders", 1, _Backlog()

    def __init__(self, *, durable: bool = True, exclusive: bool = False) -> None:
        self.durable = durable
        self.exclusive = exclusive
        self.arguments = parse_queue_arguments({}, "orders", "/")


MIRRORED = Ring("a", 2, ("b", "c"), ("b",), (Learner("c", 5, 500),))
BARE = Ring("a", 2, ("c",), (), (Learner("c", 5, 500),))


@pytest.mark.parametrize(("durable", "exclusive", "ring", "outcome", "leader"), [
    (True, False, MIRRORED, MOVES, "b"), (True, False, BARE, AT_RISK, None), (True, False, None, WAITS, None),
    (True, False, Ring("a"), WAITS, None), (False, False, None, ENDS, None), (False, False, MIRRORED, MOVES, "b"),
    (True, True, None, ENDS, None),
])  # fmt: skip
def test_the_outcome_follows_from_copies_in_sync(durable: bool, exclusive: bool, ring: Ring | None, outcome: str, leader: str):
    row = forecast(_Queue(durable=durable, exclusive=exclusive), ring, "a")  # type: ignore[arg-type]
    assert (row["outcome"], row["next_leader"]) == (outcome, leader)
    assert row["sentence"]


@pytest.mark.live
def test_the_node_and_the_command_line_tell_it(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("passing")
    channel.basic_publish("", "kept", b"x")
    rows = {row["name"]: row for row in node.api("GET", f"/api/nodes/{NODE}/stop-forecast") if row["vhost"] == vhost}
    assert (rows["kept"]["outcome"], rows["passing"]["outcome"]) == ("waits", "ends")
    line = f"{vhost}\tkept\t1\twaits\tit has no mirror: its 1 messages wait until {NODE} is back"
    assert line in node.ctl("stop_forecast").lines
    assert node.ask("GET", "/api/nodes/nobody@nowhere/stop-forecast").status == 404
