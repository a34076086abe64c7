"""A node that takes over without all that was stable gives addresses a second time: whoever has read the first ones notices."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from cluster.live.nodes import Nodes, running
from mirror.live.rings import declare, eventually, leader_of, look, mirror, publish
from mirrormq.lake.client import Feed, FeedClient
from mirrormq.lake.errors import Forked, LakeError
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.ranges import range_of, read_range
from mirrormq.lake.schema import EVENTS
from mirrormq.lake.tables import Place

from .support import address_of, entries, patiently, quiet


def feed_with(*lineage: tuple[int, int], end: int) -> Feed:
    return Feed("q", "/", "a", "n", "running", 1, end, lineage[-1][0], lineage=lineage)


def test_a_log_that_goes_on_what_was_read_is_no_fork() -> None:
    feed_with((3, 1), (5, 11), end=20).check_branch(11, 3)
    feed_with((3, 1), (5, 11), end=20).check_branch(15, 5)
    feed_with((3, 1), end=5).check_branch(11, 5)            # a mirror that has heard of less, or a leader that wrote nothing yet
    feed_with((5, 11), end=20).check_branch(8, 3)           # so far back it does not know
    feed_with((3, 1), end=20).check_branch(11, 0)           # read by a version that did not note it


def test_a_log_of_another_epoch_at_the_same_address_is_a_fork() -> None:
    for feed in (feed_with((3, 1), (5, 8), end=20), feed_with((3, 1), (5, 8), end=9), feed_with((3, 1), (5, 8), (6, 30), end=40)):
        with pytest.raises(Forked, match=r"queue 'q' has another log than before from entry 8 on: it is led, since epoch 5"):
            feed.check_branch(11, 3)


def led_alone(nodes: Nodes, client: FeedClient) -> Feed:
    """A queue whose mirror, cut off from its leader, has less than that."""
    declare(nodes[1], "q")
    publish(nodes[1], "q", b"old 0")
    mirror(nodes[1], "q", ha_sync_mode="manual")
    eventually(lambda: len(look(nodes[0], "q").get("slave_nodes", [])) == 1)
    for node in nodes:
        node.line.cut()
    publish(nodes[1], "q", *[b"old %d" % number for number in range(1, 10)])
    [feed] = quiet(client)
    return feed


def take_over(nodes: Nodes, client: FeedClient) -> Feed:
    """The leader dies, and the mirror is promoted by force and given more messages than there were."""
    nodes[1].kill()
    nodes[0].line.heal()
    mirror(nodes[0], "q", ha_sync_mode="manual", ha_promote_on_failure="always")
    eventually(lambda: leader_of(nodes[0], "q") == nodes[0].name)
    eventually(lambda: client.feeds()[0].state == "running")
    publish(nodes[0], "q", *[b"new %d" % number for number in range(22)])
    [feed] = quiet(client)
    return feed


@pytest.mark.timeout(600)
def test_a_lake_ends_with_a_sentence_and_goes_on_only_if_told_to(tmp_path: Path, spark: Any) -> None:
    with running(tmp_path / "nodes", 2) as nodes, ExitStack() as stack:
        place = Place.at(str(tmp_path / "lake"))
        lake = Mirror(spark, address_of(nodes[1], nodes[0]), place)
        stack.enter_context(closing(lake.client))
        lake.start()
        before = led_alone(nodes, lake.client)
        assert lake.sync().lag == 0
        after = take_over(nodes, lake.client)
        assert after.id == before.id
        with pytest.raises(LakeError, match=r"queue 'q' has another log than before from entry \d+ on.* --allow-data-loss"):
            lake.sync()
        with pytest.raises(Forked, match="has another log than before"):
            list(read_range(lake.client, range_of(before, after.earliest, before.end), EVENTS))
        bold = Mirror(spark, address_of(nodes[1], nodes[0]), place, allow_loss=True)
        stack.enter_context(closing(bold.client))
        assert any("has another log" in note for note in bold.sync().notes)
        assert bold.sync().notes == []
        rows = spark.read.parquet(*bold.events.files()).select("index", "count", "body").orderBy("index").toArrow().to_pylist()
        assert sum(row["count"] for row in rows) == after.end - 1
        assert [row["index"] for row in rows] == sorted({row["index"] for row in rows})
        bodies = [row["body"] for row in rows if row["body"]]
        assert bodies[:10] == [b"old %d" % number for number in range(10)]
        assert bodies[10:] == [row["body"] for row in entries(lake.client, after, before.end) if row["body"]]


@pytest.mark.timeout(600)
def test_a_stream_ends_with_that_sentence(tmp_path: Path, spark: Any) -> None:
    with running(tmp_path / "nodes", 2) as nodes, ExitStack() as stack:
        client = stack.enter_context(closing(FeedClient(address_of(nodes[1], nodes[0]))))
        url = ",".join(f"http://guest:guest@{node.host}:{node.http_port}" for node in (nodes[1], nodes[0]))

        def run() -> None:
            source = spark.readStream.format("mirrormq").options(url=url, queue="q").load()
            sink = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            sink.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination()

        led_alone(nodes, client)
        patiently(run)
        take_over(nodes, client)
        with pytest.raises(StreamingQueryException, match="queue 'q' has another log than before"):
            patiently(run)
