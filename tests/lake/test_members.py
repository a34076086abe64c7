"""The feed from any member of a ring: same addresses, mirrors first, and nobody notices who leads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admin.support import ctl
from cluster.live.nodes import Node, Nodes, running
from mirror.live.rings import channel_at, declare, eventually, leader_of, mirror, named, others, publish, until_in_sync
from mirrormq.lake.client import LEADER, ONLY, Feed, FeedClient
from mirrormq.lake.members import compare, verify_members
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.ranges import range_of, read_range
from mirrormq.lake.schema import EVENTS
from mirrormq.lake.tables import Place
from mirrormq.lake.verify import findings, verify

from .support import KEPT, address_of, entries, fill, quiet, settle


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("ring"), 3) as made:
        mirror(made[0], "m")
        yield made


def ring(nodes: Nodes, queue: str, count: int) -> Feed:
    """A queue that all nodes hold, with so many messages of which a few are acknowledged."""
    with channel_at(nodes[0]) as channel:
        fill(channel, queue, count)
        until_in_sync(nodes, queue)
        settle(channel, queue, 5)
    [feed] = quiet(FeedClient(address_of(nodes[0])), f"^{queue}$")
    eventually(lambda: same_ends(nodes, feed))
    return feed


def same_ends(nodes: Nodes, feed: Feed) -> bool:
    [row] = FeedClient(address_of(nodes[0])).feeds(f"^{feed.name}$", with_copies=True)
    assert {(earliest, end) for _, earliest, end in row.copies} == {(feed.earliest, feed.end)}, row.copies
    return len(row.copies) == len(nodes.nodes)


def read_from(client: FeedClient, feed: Feed, which: str) -> list[dict[str, Any]]:
    part = range_of(feed, feed.earliest, feed.end, which)
    return [row for batch in read_range(client, part, EVENTS) for row in batch.to_pylist()]


def test_each_member_gives_the_same_entries_under_the_same_addresses(nodes: Nodes) -> None:
    feed = ring(nodes, "m.same", 300)
    client = FeedClient(address_of(nodes[0]))
    [feed] = client.feeds("^m.same$")
    assert {node for node, _ in feed.members} == set(nodes.names)
    wanted = entries(FeedClient(address_of(named(nodes, feed.node))), feed)
    for node in nodes.names:
        reader = FeedClient(address_of(nodes[0]))
        assert read_from(reader, feed, ONLY + node) == wanted
        assert set(reader.served_by) == {node}


def test_mirrors_are_asked_first_and_the_leader_where_that_is_wished(nodes: Nodes) -> None:
    ring(nodes, "m.wish", 50)
    client = FeedClient(address_of(nodes[0]))
    [feed] = client.feeds("^m.wish$")
    read_from(client, feed, "mirrors")
    assert feed.node not in client.served_by
    client = FeedClient(address_of(nodes[0]))
    read_from(client, feed, LEADER)
    assert set(client.served_by) == {feed.node}
    chosen = feed.members[-1][0]
    client = FeedClient(address_of(nodes[0]))
    read_from(client, feed, f"nobody@here,{chosen}")
    assert set(client.served_by) == {chosen}


def test_a_mirror_sends_who_asks_for_what_it_does_not_know_to_the_leader(nodes: Nodes) -> None:
    feed = ring(nodes, "m.ask", 20)
    client = FeedClient(address_of(others(nodes, feed.node)[0]))
    with pytest.raises(Exception, match="ends before index"):
        client.read("m.ask", feed.id, feed.end + 10, feed.end + 11)


def test_members_that_agree_have_no_findings_and_what_is_planted_is_named(nodes: Nodes, spark: Any) -> None:
    ring(nodes, "m.verify", 60)
    rows, found = verify_members(spark, address_of(nodes[0]), "^m.verify$")
    assert rows > 60
    assert [finding.sentence() for finding in found] == []
    log = spark.read.format("mirrormq").options(url=address_of(nodes[0]).urls[0], queue="m.verify").load().cache()
    planted = (
        log.where("index NOT IN (5)")
        .unionByName(log.where("index = 7"))
        .selectExpr(*[f"CASE WHEN index = 9 THEN 'other' ELSE {name} END AS {name}" if name == "routing_key" else name
                      for name in log.columns])
    )
    found = sorted((each.index, each.kind) for each in findings([compare(log, planted, "b")]))
    assert found == [(5, "missing on b"), (7, "doubled on b"), (9, "differs on b from its leader")]
    assert {each.kind for each in findings([compare(planted, log, "b")]) if each.index == 5} == {"only on b"}


def test_a_plan_is_carried_out_by_rebalance(nodes: Nodes, tmp_path: Path) -> None:
    feed = ring(nodes, "m.plan", 10)
    to = feed.members[-1][0]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"moves": [{"vhost": "/", "queue": "m.plan", "from": feed.node, "to": to, "entries": 10}]}))
    done = ctl("-n", nodes[0].name, "rebalance", "all", "--plan", str(plan))
    assert (done.code, "1 queues have moved" in done.out) == (0, True), done
    eventually(lambda: leader_of(nodes[0], "m.plan") == to)
    plan.write_text(json.dumps({"moves": [{"queue": "nothing", "to": to}]}))
    done = ctl("-n", nodes[0].name, "rebalance", "all", "--plan", str(plan))
    assert done.code != 0
    assert "there is no mirrored queue 'nothing' in vhost '/'" in done.err + done.out


@pytest.mark.chaos
def test_what_a_lake_mirror_has_not_read_is_kept_on_every_member(tmp_path: Path) -> None:
    with running(tmp_path, 3) as nodes:
        mirror(nodes[0], "churn", log_retention_bytes=1, log_retention="1s")
        client = FeedClient(address_of(nodes[0]))
        client.put_mirror("lake", pattern="^churn$")
        churn(nodes, 150)
        assert earliest_on(nodes) == {1}
        [feed] = client.feeds("^churn$")
        client.put_mirror("lake", queues={feed.id: feed.end})
        churn(nodes, 20)
        eventually(lambda: len(found := earliest_on(nodes)) and min(found) > 1, within=60, every=0.5)


def churn(nodes: Nodes, megabytes: int) -> None:
    """Publish, consume and acknowledge, so that the write-ahead log is given up several times."""
    with channel_at(nodes[0]) as channel:
        channel.queue_declare("churn", durable=True)
        until_in_sync(nodes, "churn")
        for _ in range(megabytes):
            channel.basic_publish("", "churn", b"x" * (1 << 20), KEPT)
            method, _, _ = channel.basic_get("churn")
            channel.basic_ack(method.delivery_tag)
    quiet(FeedClient(address_of(nodes[0])), "^churn$")


def earliest_on(nodes: Nodes) -> set[int]:
    [row] = FeedClient(address_of(nodes[0])).feeds("^churn$", with_copies=True)
    assert len(row.copies) == len(nodes.nodes)
    return {earliest for _, earliest, _ in row.copies}


@pytest.mark.timeout(600)
def test_a_reader_goes_on_when_the_leader_and_then_a_mirror_dies(tmp_path: Path, spark: Any) -> None:
    with running(tmp_path / "nodes", 3) as nodes:
        mirror(nodes[0], "q")
        feed = ring_of(nodes)
        client = FeedClient(address_of(nodes[0], nodes[1], nodes[2]))
        part = range_of(client.feeds("^q$")[0], 1, feed.end)
        whole = [row for batch in read_range(client, part, EVENTS) for row in batch.to_pylist()]
        lake = Mirror(spark, address_of(*nodes), Place.at(str(tmp_path / "lake")), task_rows=100)
        lake.start()
        leader = named(nodes, leader_of(nodes[0], "q"))
        leader.kill()
        assert read_slowly(client, part, nodes, leader) == whole
        eventually(lambda: lake.sync().lag == 0 and lake.events.next_indexes([feed.id])[feed.id] >= feed.end, within=60)
        found = verify(spark, lake.place, address_of(*others(nodes, leader.name)))[1]
        assert [finding.sentence() for finding in found] == []


def ring_of(nodes: Nodes) -> Feed:
    with channel_at(nodes[0]) as channel:
        fill(channel, "q", 400)
    until_in_sync(nodes, "q")
    [feed] = quiet(FeedClient(address_of(nodes[0])))
    eventually(lambda: same_ends(nodes, feed))
    return feed


def read_slowly(client: FeedClient, part: Any, nodes: Nodes, dead: Node) -> list[dict[str, Any]]:
    """One piece after the other; the mirror that gave the first is killed before the second."""
    rows: list[dict[str, Any]] = []
    for number, piece in enumerate(part.cut(100)):
        before = dict(client.served_by)
        rows += [row for batch in read_range(client, piece, EVENTS) for row in batch.to_pylist()]
        if number == 0:
            gave = next(node for node, size in client.served_by.items() if size != before.get(node, 0))
            assert gave != dead.name
            named(nodes, gave).kill()
    return rows


@pytest.mark.timeout(600)
def test_what_a_leader_lacks_that_came_late_is_read_from_who_has_it(tmp_path: Path, spark: Any) -> None:
    with running(tmp_path / "nodes", 2) as nodes:
        declare(nodes[0], "q")
        lake = Mirror(spark, address_of(*nodes), Place.at(str(tmp_path / "lake")))
        lake.start()
        with channel_at(nodes[0]) as channel:
            fill(channel, "q", 50)
            settle(channel, "q", 50)
        quiet(lake.client)
        mirror(nodes[0], "q")
        until_in_sync(nodes, "q")
        publish(nodes[0], "q", b"late")
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"moves": [{"vhost": "/", "queue": "q", "from": nodes[0].name, "to": nodes[1].name}]}))
        assert ctl("-n", nodes[0].name, "rebalance", "all", "--plan", str(plan)).code == 0
        eventually(lambda: leader_of(nodes[0], "q") == nodes[1].name)
        [feed] = quiet(lake.client)
        [told] = lake.client.feeds("^q$", with_copies=True)
        assert (min(earliest for _, earliest, _ in told.copies), feed.earliest > 1) == (1, True), told
        assert lake.sync().notes == []
        counts = spark.read.parquet(*lake.events.files()).selectExpr("sum(count)", "min(index)").collect()
        assert [tuple(row) for row in counts] == [(feed.end - 1, 1)]
        lake.client.close()
