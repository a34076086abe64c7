"""`mirrormq lake mirror`: each entry exactly once, whatever is killed."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.live.nodes import Nodes, running
from mirror.live.rings import eventually, leader_of, named, others, until_in_sync
from mirror.live.rings import mirror as mirror_queues
from mirrormq.lake import views
from mirrormq.lake.command import lake
from mirrormq.lake.errors import LakeError
from mirrormq.lake.members import verify_members
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.tables import Overtaken, Place, Table
from mirrormq.lake.verify import verify

from .job import kill_group, running_job
from .load import Load
from .support import Node, address_of, fill, quiet, settle

MESSAGES = int(os.environ.get("MIRRORMQ_LAKE_MESSAGES", "5000"))
KILLS = int(os.environ.get("MIRRORMQ_LAKE_KILLS", "1"))
CRASHES = int(os.environ.get("MIRRORMQ_LAKE_CRASHES", "1"))


@pytest.fixture
def mirror(spark: Any, node: Node, vhost: str, tmp_path: Path) -> Mirror:
    made = Mirror(spark, node.address(vhost), Place.at(str(tmp_path / "lake")), task_rows=100)
    made.start()
    return made


def addresses(spark: Any, place: Place) -> list[tuple[str, int]]:
    rows = views.events(spark, place).select("queue", "index").collect()
    return sorted((row["queue"], row["index"]) for row in rows)


def test_a_full_sync_and_then_only_what_is_new(mirror: Mirror, spark: Any, node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "a", 250)
    fill(channel, "b", 50)
    settle(channel, "a", 10)
    quiet(mirror.client)
    first = mirror.sync()
    fill(channel, "a", 25, first=250)
    fill(channel, "c", 5)
    feeds = quiet(mirror.client)
    second = mirror.sync()
    assert (first.queues, first.lag, second.lag) == (2, 0, 0)
    assert second.rows < first.rows
    assert first.rows + second.rows == len(addresses(spark, mirror.place)) == len(set(addresses(spark, mirror.place)))
    assert mirror.events.next_indexes(feed.id for feed in feeds) == {feed.id: feed.end for feed in feeds}
    [shown] = [queue for queue in node.api("GET", f"/api/queues/{vhost}") if queue["name"] == "a"]
    assert shown["lake_mirrors"][0]["lag"] == 0


def test_messages_tell_their_lives(mirror: Mirror, spark: Any, channel: Any) -> None:
    fill(channel, "lives", 30)
    acknowledged = settle(channel, "lives", 10)
    method, _, rejected = channel.basic_get("lives")
    channel.basic_reject(method.delivery_tag, requeue=False)
    quiet(mirror.client)
    mirror.sync()
    rows = views.messages(views.events(spark, mirror.place)).orderBy("index").collect()
    states = {bytes(row["body"]): row["state"] for row in rows}
    assert [body for body, state in states.items() if state == "acknowledged"] == acknowledged
    assert states[rejected] == "rejected"
    assert sum(state == "live" for state in states.values()) == 19
    assert all(row["seconds"] >= 0 for row in rows if row["state"] != "live")
    channel.queue_purge("lives")
    quiet(mirror.client)
    mirror.sync()
    assert views.refresh(spark, mirror.place) == {"messages": 30, "failovers": 0}
    assert spark.read.parquet(*Table(mirror.place, "messages").files()).where("state = 'purged'").count() == 19


def test_what_a_dead_job_left_behind_is_not_in_the_table(mirror: Mirror, spark: Any, channel: Any) -> None:
    fill(channel, "q", 100)
    [feed] = quiet(mirror.client)
    plan = mirror._plan([feed], {feed.id: 1})
    orphans = mirror.write(plan)
    mirror.sync()
    with pytest.raises(Overtaken, match="another job mirrors into"):
        mirror.events.add(orphans, {feed.id: (1, feed.end)})
    assert addresses(spark, mirror.place) == [("q", index) for index in range(1, feed.end)]
    stale = Table(mirror.place, "events")
    stale.load()
    fill(channel, "q", 10)
    [feed] = quiet(mirror.client)
    late = mirror.write(mirror._plan([feed], stale.next_indexes([feed.id])))
    mirror.sync()
    with pytest.raises(Overtaken):
        stale.add(late, {feed.id: (101, feed.end)})
    assert addresses(spark, mirror.place) == [("q", index) for index in range(1, feed.end)]


def test_many_small_files_become_few_and_nothing_changes(mirror: Mirror, spark: Any, channel: Any) -> None:
    for part in range(3):
        fill(channel, "q", 120, first=part * 120)
        quiet(mirror.client)
        mirror.sync()
    before = addresses(spark, mirror.place)
    told = mirror.events.tidy()
    assert told["into"] == 1
    assert told["compacted"] >= 6
    assert addresses(spark, mirror.place) == before
    assert mirror.sync().rows == 0


def test_entries_that_are_gone_before_they_were_read_are_an_error(mirror: Mirror, spark: Any, channel: Any) -> None:
    fill(channel, "q", 10)
    [feed] = quiet(mirror.client)
    mirror.sync()
    gone = type(feed)(**{**vars(feed), "earliest": feed.end + 5, "end": feed.end + 5})
    with pytest.raises(LakeError, match=rf"entries {feed.end} to {feed.end + 4} of queue 'q' are gone"):
        mirror._places([gone], None)  # type: ignore[arg-type]


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_each_entry_is_in_the_table_once_whatever_is_killed(spark: Any, tmp_path: Path) -> None:
    """The job is killed KILLS times and the leader CRASHES times, and then a node is restarted, while clients publish, consume
    and acknowledge."""
    dice = random.Random(11)
    place = Place.at(str(tmp_path / "lake"))
    table = Table(place, "events")
    with running(tmp_path / "nodes", 3) as nodes:
        mirror_queues(nodes[0], "load")
        load = Load(nodes.nodes, queues=10, count=MESSAGES)
        url = ",".join(address_of(*nodes).urls)
        words = ("mirror", "--lake", place.uri, "--url", url, "--sync-interval", "0.2", "--refresh-minutes", "0")
        try:
            load.start()
            eventually(lambda: len(load.published) == len(load.names), within=120)
            until_in_sync(nodes, *load.names)
            for kill in range(KILLS):
                with running_job(tmp_path / "job.log", *words) as job:
                    seen = table.load().version() if table.exists() else 0
                    eventually(lambda seen=seen: table.exists() and table.load().version() > seen + dice.randrange(3), within=200)
                    if kill < CRASHES:
                        change_leader(nodes, load)
                    time.sleep(dice.random())
                    kill_group(job)
            load.join()
            if CRASHES > 1:
                nodes[2].restart()
                until_in_sync(nodes, *load.names, within=120)
            check_lake(spark, nodes, place, load)
        finally:
            load.join(now=True)


def change_leader(nodes: Nodes, load: Load) -> None:
    """Kill who leads most queues, wait until others lead them, and have it back."""
    rows = nodes[0].api("GET", "/api/queues/%2F")
    name = Counter(row["node"] for row in rows).most_common(1)[0][0]
    victim = named(nodes, name)
    watcher = others(nodes, name)[0]
    with load.without_acknowledging():
        victim.kill()
        eventually(lambda: all(leader_of(watcher, queue) not in ("", name) for queue in load.names), within=120, every=0.2)
    victim.start()
    until_in_sync(nodes, *load.names, within=240)


def check_lake(spark: Any, nodes: Nodes, place: Place, load: Load) -> None:
    """The last sync by a job of another process, then every address and every message is compared."""
    mirror = Mirror(spark, address_of(*nodes), place)
    mirror.start()
    feeds = quiet(mirror.client)
    mirror.sync()
    assert mirror.sync().lag == 0
    rows, found = verify(spark, place, address_of(*nodes))
    held, unlike = verify_members(spark, address_of(*nodes))
    assert [finding.sentence() for finding in found + unlike] == []
    frame = views.events(spark, place)
    total = frame.selectExpr("sum(count)").collect()[0][0]
    assert total == sum(feed.end - 1 for feed in feeds)
    lives = views.messages(frame).select("queue", "body", "state").toArrow().to_pylist()
    states: dict[str, dict[bytes, str]] = {name: {} for name in load.names}
    for row in lives:
        states[row["queue"]][row["body"]] = row["state"]
    assert len(lives) == sum(len(bodies) for bodies in states.values())
    for name, bodies in states.items():
        assert load.published[name] <= set(bodies) <= load.published[name] | load.doubtful[name]
        assert load.acknowledged[name] <= {body for body, state in bodies.items() if state == "acknowledged"}
        live = sum(state == "live" for state in bodies.values())
        assert live == nodes[0].api("GET", f"/api/queues/%2F/{name}")["messages"]
    print(f"{rows} entries in the lake, {held} compared on mirrors, {len(lives)} messages, {KILLS} kills of the job, "
          f"{CRASHES} of the leader, {len(views.failovers(frame).collect())} changes of epoch")


def test_the_command_mirrors_once_and_says_what_it_did(
    spark: Any, node: Node, vhost: str, channel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, with the session that is there; with a Spark of its own it runs in 'make test-all'."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    fill(channel, "q", 40)
    quiet(node.client(vhost))
    words = ["mirror", "--once", "--lake", str(tmp_path / "lake"), "--url", node.lake_url(), "--vhost", vhost, "--unregister"]
    told = CliRunner().invoke(lake, words, catch_exceptions=False)
    assert told.exit_code == 0, told.output
    assert "40 entries of 1 queues" in told.output
    assert "40 messages, 0 failovers" in told.output
    assert node.api("GET", f"/api/lake-mirrors/{vhost}") == []
