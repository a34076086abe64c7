"""What commands and pages say of a queue that nobody can lead: the truth, and nothing that nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.admin.metrics import _ring_values
from mirrormq.admin.mirrors import Learner, Ring
from mirrormq.admin.ring_office import _learner
from mirrormq.cli.ctl.progress import line_of

from .test_waiting import bereft, waiting
from .trio import QUEUE, until

WAITS = "waiting for a@localhost: only it holds everything that was confirmed, b@localhost not in sync"
IS_WAITING = f"queue 'q' in vhost '/' is {WAITS}"
LOST = "a@localhost has lost its copy, and no other node was in sync: restore its files, or delete the queue"
IS_LOST = f"queue 'q' in vhost '/' is not served: {LOST}"


async def test_the_command_that_deletes_it_does_not_tell_how_many_messages_it_had(tmp_path: Path) -> None:
    async with waiting(tmp_path) as nodes:
        done = await nodes.ctl("b", "delete_queue", QUEUE, "--if-empty")
        assert (done.code, done.err) == (64, "Error:\nQueue is not empty\n")
        done = await nodes.ctl("b", "delete_queue", QUEUE)
        assert (done.code, done.err) == (0, "")
        assert done.lines[-1] == "Queue was successfully deleted. How many messages it had is not known"
        await until(lambda: nodes.front("c") is None)
        done = await nodes.ctl("b", "delete_queue", QUEUE)
        assert (done.code, done.err) == (64, "Error:\nQueue not found\n")


@pytest.mark.parametrize("node", ["b", "c"])
async def test_commands_name_the_node_that_is_waited_for(tmp_path: Path, node: str) -> None:
    async with waiting(tmp_path) as nodes:
        for command in ("purge_queue", "sync_queue"):
            done = await nodes.ctl(node, command, QUEUE)
            assert (done.code, done.err) == (69, f"Error:\n{IS_WAITING}\n"), command
            assert (await nodes.ctl(node, command, "other")).err == "Error:\nnot_found\n"
        done = await nodes.ctl(node, "cancel_sync_queue", QUEUE)
        assert IS_WAITING in done.out
        assert IS_WAITING in (await nodes.api(node, "GET", "/messages"))[1]["reason"]


async def test_an_open_failover_is_the_first_of_the_list(tmp_path: Path) -> None:
    async with waiting(tmp_path) as nodes:
        status, [pending] = await nodes.api("c", "GET", "/failovers")
        assert (status, pending["sentence"]) == (200, WAITS)
        assert (pending["old_leader"], pending["new_leader"], pending["lost"]) == ("a@localhost", None, None)
        assert (pending["members"], pending["learners"]) == (["a@localhost"], ["b@localhost"])


async def test_what_nobody_tells_of_a_ring_is_null(tmp_path: Path) -> None:
    async with waiting(tmp_path) as nodes:
        _, ring = await nodes.api("c", "GET", "/ring")
        assert (ring["leader"], ring["end"], ring["stable"], ring["messages"]) == (None, None, None, None)
        [leader], [mirror] = ring["members"], ring["learners"]
        marks = ("is_linked", "received", "durable", "lag_entries")
        assert [leader[mark] for mark in marks] == [False, None, None, None]
        assert (mirror["is_linked"], mirror["lag_entries"], mirror["sync_total"]) == (True, None, None)
        assert isinstance(mirror["received"], int)


async def test_a_member_of_a_ring_that_does_not_answer_is_not_at_zero(tmp_path: Path) -> None:
    async with waiting(tmp_path) as nodes:
        await nodes.start("a")
        await until(lambda: nodes.ring() == ["a"])
        await nodes.stop("b")
        _, ring = await nodes.api("a", "GET", "/ring")
        assert (ring["leader"], ring["members"][0]["lag_entries"]) == ("a@localhost", 0)
        [mirror] = ring["learners"]
        assert (mirror["is_linked"], mirror["durable"], mirror["lag_entries"]) == (False, None, None)


def test_a_mirror_that_has_not_said_where_it_stands_is_not_said_to_lack_nothing() -> None:
    assert _learner("b@x", None).lag_entries is None
    assert "lag_entries" not in _ring_values(Ring("a@x", learners=(Learner("b@x"), Learner("c@x", 3))))
    assert _ring_values(Ring("a@x", learners=(Learner("c@x", 3),)))["lag_entries"] == 3
    assert _ring_values(Ring("a@x"))["lag_entries"] == 0
    unknown = {"node": "b@x", "lag_entries": None, "lag_bytes": 0, "synced": None}
    behind = {"node": "c@x", "lag_entries": 3, "lag_bytes": 0, "synced": None}
    assert line_of({"ring": {"learners": [behind, unknown, unknown]}}) == (
        "b@x: how far it is behind is not known  b@x: how far it is behind is not known  c@x: 3 entries behind")


@pytest.mark.parametrize("node", ["a", "b", "c"])
async def test_every_node_says_that_the_only_copy_is_lost(tmp_path: Path, node: str) -> None:
    async with bereft(tmp_path) as nodes:
        await until(lambda: (holding := nodes.holding("a")) is not None and "has lost its copy" in holding.sentence)
        _, row = await nodes.api(node, "GET", "")
        assert (row["state"], row["reason"], row["waits_for"]) == ("down", LOST, [])
        for order in ("", "&sort=messages", "&sort=state", "&page=1"):
            status, rows = await nodes.listed(node, f"columns=name,state,reason{order}")
            rows = rows["items"] if isinstance(rows, dict) else rows
            assert (status, rows) == (200, [{"name": QUEUE, "state": "down", "reason": LOST}]), order
        _, ring = await nodes.api(node, "GET", "/ring")
        assert (ring["sentence"], ring["leader"], ring["end"]) == (LOST, None, None)
        _, failovers = await nodes.api(node, "GET", "/failovers")
        assert failovers[0]["sentence"] == LOST
        done = await nodes.ctl(node, "list_queues", "name", "state", "waits_for", "reason")
        assert LOST in done.out
        assert "waiting for" not in done.out
        for command in ("purge_queue", "sync_queue"):
            assert (await nodes.ctl(node, command, QUEUE)).err == f"Error:\n{IS_LOST}\n", command
        assert (await nodes.api(node, "GET", "/messages"))[1]["reason"] == IS_LOST
        done = await nodes.ctl(node, "delete_queue", QUEUE)
        assert (done.code, done.err) == (0, "")
