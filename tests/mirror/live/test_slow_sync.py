"""A full sync that is slow on purpose, so that things happen in its middle; and replication that is asynchronous.

`mirroring_sync_max_throughput` of all nodes is low: a queue of LOAD messages takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from typing import Any

import pytest

from cluster.live.nodes import Nodes, running
from compat.support import ApiError, quote
from live.load import drain

from .probe import Report, Witness
from .probe import count as account
from .rings import count, declare, eventually, leader_of, look, mirror, publish, standing, until_in_sync
from .test_sync import act, fill

LOAD = 1500             # messages of 1 KiB
CRITICAL = "/api/health/checks/node-is-mirror-sync-critical"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    limit = "mirroring_sync_max_throughput = 256KiB\n"
    with running(tmp_path_factory.mktemp("slow"), configuration=limit) as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster: Nodes) -> Iterator[Nodes]:
    """Afterwards all are up, and no policy is left."""
    yield cluster
    cluster.mend()
    for row in cluster[0].api("GET", "/api/policies/%2F"):
        cluster[0].clear_policy("/", row["name"])


def syncing(nodes: Nodes, queue: str) -> None:
    """Led by the first node, and its new mirrors are in the middle of a full sync that somebody asked for."""
    declare(nodes[0], queue)
    fill(nodes, queue, LOAD)
    begin_sync(nodes, queue)


def begin_sync(nodes: Nodes, queue: str) -> None:
    mirror(nodes[0], queue, ha_sync_mode="manual")
    eventually(lambda: len(standing(nodes[0], queue)[1]) == 2)
    assert look(nodes[0], queue)["state"] == "running"
    assert "sync_messages" not in look(nodes[0], queue)
    act(nodes, queue, "sync")
    eventually(lambda: is_in_the_middle(look(nodes[1], queue)))


def is_in_the_middle(row: dict[str, Any]) -> bool:
    assert row.get("state") == "syncing", row
    assert 0 < row["sync_messages"] < LOAD, row
    return True


def test_a_limited_sync_comes_in_pieces(nodes: Nodes) -> None:
    """120, 121: of 256 KiB each, one a second; all mirrors have them, and the last one ends it."""
    syncing(nodes, "pieces")
    seen: set[int] = set()

    def is_done() -> bool:
        row = look(nodes[0], "pieces")
        if row["state"] == "syncing":
            seen.add(row["sync_messages"])
        return len(row["synchronised_slave_nodes"]) == 2

    eventually(is_done)
    steps = [after - before for before, after in pairwise([0, *sorted(seen), LOAD])]
    assert len(steps) > 2, steps
    assert max(steps) < 2 * 256, steps
    nodes[0].api("DELETE", "/api/queues/%2F/pieces")


def test_a_sync_is_cancelled_in_its_middle_and_begun_again_while_publishers_see_nothing(nodes: Nodes) -> None:
    syncing(nodes, "half")
    witness = Witness(1, nodes[1].port, "half", 20)
    witness.start()
    try:
        eventually(lambda: len(witness.stamps) > 5)
        since = witness.stamps[-1]
        act(nodes, "half", "cancel_sync")
        eventually(lambda: look(nodes[0], "half")["state"] == "running")
        before = len(witness.stamps)
        eventually(lambda: len(witness.stamps) > before + 20)
        assert standing(nodes[0], "half")[2] == [], "nobody goes on with it"
        with pytest.raises(ApiError, match="without online synchronised mirrors"):
            nodes[0].api("GET", CRITICAL)
        act(nodes, "half", "sync")
        until_in_sync(nodes, "half")
        assert nodes[0].api("GET", CRITICAL)["status"] == "ok"
    finally:
        witness.finish()
    print(f"\nlongest pause {witness.longest_pause(since):.2f} s")
    nodes[0].kill()
    eventually(lambda: leader_of(nodes[1], "half") not in ("", nodes[0].name))
    got = drain(nodes[1].port, "half")
    assert [number for number, _ in got if number <= LOAD] == list(range(1, LOAD + 1))
    account(Report(), [witness], [each for each in got if each[0] > LOAD], "half").must_be_clean()


@pytest.mark.parametrize("is_alarmed", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["", "alarm"])
def test_orders_are_obeyed_in_the_middle_of_a_sync(nodes: Nodes, is_alarmed: bool) -> None:
    """137: nothing waits for the sync, nor for memory."""
    for queue in ("purged", "unwanted", "deleted"):
        declare(nodes[0], queue)
        fill(nodes, queue, LOAD)
    with alarm(nodes) if is_alarmed else nullcontext():
        begin_sync(nodes, "purged")
        act(nodes, "purged", "cancel_sync")
        eventually(lambda: look(nodes[0], "purged")["state"] == "running")
        nodes[2].api("DELETE", "/api/queues/%2F/purged/contents")
        assert count(nodes[1], "purged") == 0
        begin_sync(nodes, "unwanted")
        nodes[1].clear_policy("/", "unwanted")
        eventually(lambda: "slave_nodes" not in look(nodes[2], "unwanted"))
        assert count(nodes[2], "unwanted") == LOAD
        begin_sync(nodes, "deleted")
        nodes[2].api("DELETE", "/api/queues/%2F/deleted")
        eventually(lambda: look(nodes[1], "deleted") == {})
    for queue in ("purged", "unwanted"):
        nodes[0].api("DELETE", f"/api/queues/%2F/{queue}")


@contextmanager
def alarm(nodes: Nodes) -> Iterator[None]:
    """The third node has less memory than it uses."""
    configuration = nodes[2].directory / "node.conf"
    text = configuration.read_text()
    configuration.write_text(text + "vm_memory_high_watermark.absolute = 1MB\n")
    nodes[2].restart()
    nodes.until_whole()
    try:
        eventually(lambda: nodes[0].api("GET", f"/api/nodes/{quote(nodes[2].name)}").get("mem_alarm") is True)
        yield
    finally:
        configuration.write_text(text)
        nodes[2].restart()


def test_expiry_brings_a_mirror_in_sync_that_lacks_what_expired(nodes: Nodes) -> None:
    """59, 60, 61: it lacks the first, has the second; when the first has expired it lacks nothing."""
    declare(nodes[0], "morgue")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
    declare(nodes[0], "short", {"x-message-ttl": 3000, **letters})
    publish(nodes[0], "short", b"lacked")
    mirror(nodes[0], "short", ha_sync_mode="manual")
    eventually(lambda: len(standing(nodes[1], "short")[1]) == 2)
    if standing(nodes[1], "short")[2]:
        eventually(lambda: count(nodes[0], "morgue") > 0)
    publish(nodes[0], "short", b"seen")
    until_in_sync(nodes, "short")
    eventually(lambda: count(nodes[1], "morgue") == 2)
    publish(nodes[0], "short", b"later")
    assert len(standing(nodes[1], "short")[2]) == 2


def failovers(nodes: Nodes, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = nodes[0].api("GET", f"/api/queues/%2F/{quote(queue)}/failovers")
    return found


def test_asynchronous_replication_confirms_alone_and_the_record_of_a_failover_says_so(nodes: Nodes) -> None:
    """What the leader confirmed and had not passed on is not with the next one; when it is back it is in quarantine."""
    mirror(nodes[2], "loose", ha_replication="async")
    declare(nodes[2], "loose")
    until_in_sync(nodes, "loose")
    publish(nodes[2], "loose", *[b"%d" % number for number in range(20)])
    eventually(lambda: {member["lag_entries"] for member in ring(nodes, "loose")["members"]} == {0})
    nodes[2].line.blackhole()
    publish(nodes[2], "loose", b"alone")
    eventually(lambda: leader_of(nodes[0], "loose") not in ("", nodes[2].name))
    assert count(nodes[0], "loose") == 20
    record = eventually(lambda: failovers(nodes, "loose"))[0]
    assert record["old_leader"] == nodes[2].name
    assert "asynchronous" in record["sentence"]
    assert record["lost"] is None
    nodes[2].line.heal()
    until_in_sync(nodes, "loose")
    assert count(nodes[2], "loose") == 20
    kept = eventually(lambda: nodes[0].api("GET", "/api/queues/%2F/loose/quarantine"))
    assert [(item["node"], item["messages"]) for item in kept] == [(nodes[2].name, 1)]
    nodes[1].api("POST", f"/api/queues/%2F/loose/quarantine/{quote(kept[0]['id'])}", {"action": "requeue"})
    eventually(lambda: count(nodes[1], "loose") == 21)


def lags(nodes: Nodes, queue: str) -> list[int]:
    """How many entries each mirror lacks."""
    return [member["lag_entries"] for member in ring(nodes, queue)["members"][1:]]


def test_an_asynchronous_policy_keeps_entries_back_for_its_interval_and_the_lag_is_shown(nodes: Nodes) -> None:
    mirror(nodes[0], "gather", ha_replication="async", sync_interval="1h")
    declare(nodes[0], "gather")
    until_in_sync(nodes, "gather")
    publish(nodes[0], "gather", b"1", b"2", b"3")
    assert min(lags(nodes, "gather")) >= 3
    mirror(nodes[0], "gather", ha_replication="async", sync_interval=0)
    eventually(lambda: lags(nodes, "gather") == [0, 0])
    assert count(nodes[1], "gather") == 3


def ring(nodes: Nodes, queue: str) -> dict[str, Any]:
    found: dict[str, Any] = nodes[0].api("GET", f"/api/queues/%2F/{quote(queue)}/ring")
    return found
