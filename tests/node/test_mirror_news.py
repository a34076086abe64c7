"""What operators hear of mirror nodes: in the log, with these words, and as events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.copies import until
from inprocess import config
from mirrormq.broker import registry, rules
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.events import EVENT
from mirrormq.broker.policy import Policy
from mirrormq.mirror.convert import view_record
from mirrormq.mirror.machine.records import View
from mirrormq.node.runtime import Runtime

ME, OTHER = "a@localhost", "b@localhost"


@pytest_asyncio.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    """One node with the mirrored queue q, and a queue that hears what becomes of mirrors."""
    runtime = Runtime(config(tmp_path, node_name=ME))
    await runtime.start()
    broker = runtime.broker
    vhost = broker.vhosts["/"]
    rules.put_policy(broker, Policy("/", "all", "^q$", "queues", {"ha-mode": "all"}, 0), operator=False)
    await runtime.agreed(0)
    for name in ("q", "heard"):
        registry.create_queue(broker, vhost, name, QueueArguments({}), durable=True, auto_delete=False, owner=None)
    await runtime.agreed(0)
    registry.bind(broker, vhost, vhost.exchanges[EVENT], vhost.queues["heard"], "queue.mirror.#", {})
    await runtime.agreed(0)
    await until(lambda: len(runtime.mirroring.rings.by_id) == 1)
    yield runtime
    await runtime.abandon()


def told(runtime: Runtime, caplog: pytest.LogCaptureFixture, *views: View) -> list[str]:
    """The words of the log after these views, each of which follows on the one before it."""
    [holding] = runtime.mirroring.rings.by_id.values()
    for view in views:
        caplog.clear()
        runtime.mirroring.view_seen(holding.front, view_record(view), holding.revision + 1)
    return [record.getMessage() for record in caplog.records if "mirror node" in record.getMessage()]


async def test_the_leader_tells_who_joins_is_in_sync_and_leaves(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    views = [View(2, (ME,), (OTHER,), "one"), View(3, (ME, OTHER), (), "two"), View(4, (ME,), (OTHER,), "three"),
             View(5, (ME,), (), "four")]
    words = [told(runtime, caplog, view) for view in views]
    place = f"queue 'q' in vhost '/': mirror node {OTHER}"
    assert words == [[f"{place} joins, not in sync yet: one"], [f"{place} is in sync: two"],
                     [f"{place} is not in sync any more: three"], [f"{place} leaves: four"]]
    assert told(runtime, caplog, views[-1]) == [], "the store tells it once more"
    await until(lambda: runtime.broker.vhosts["/"].queues["heard"].backlog.count == 4)


async def test_who_does_not_lead_leaves_it_to_the_leader(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert told(runtime, caplog, View(2, (OTHER, ME), (), ""), View(3, (OTHER, ME), ("c@localhost",), "")) == []


async def test_a_mirror_tells_when_it_copies_and_how_that_ended(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    [holding] = runtime.mirroring.rings.by_id.values()
    news, place = runtime.mirroring.news, f"queue 'q' in vhost '/': mirror node {ME}"

    def words(base: int, view: View) -> list[str]:
        caplog.clear()
        news.copies(holding.front, View(2, (OTHER,), (ME,)), base)
        news.copies(holding.front, View(2, (OTHER,), (ME,)), base)
        news.view_changes(holding.front, View(2, (OTHER,), (ME,)), view)
        return [record.getMessage() for record in caplog.records]

    begins = f"{place} begins its synchronisation: it copies the messages that it lacks"
    assert words(7, View(3, (OTHER,), (ME, "c@localhost"))) == [begins]
    assert words(7, View(4, (OTHER, ME))) == [f"{place} has ended its synchronisation and is in sync"]
    assert words(9, View(5, (OTHER,))) == [
        begins, f"{place} has given up its synchronisation: it holds the queue no longer"]
    caplog.clear()
    news.view_changes(holding.front, View(5, (OTHER,), (ME,)), View(6, (OTHER, ME)))
    news.view_changes(holding.front, View(6, (OTHER,), (ME,)), View(7, (OTHER,)))
    news.view_changes(holding.front, View(7, (OTHER,), (ME,)), View(8, (ME,), (OTHER,), forced=True))
    assert [record.getMessage() for record in caplog.records] == [
        f"{place} has ended its synchronisation, from the log alone, and is in sync",
        f"queue 'q' in vhost '/': mirror node {OTHER} is not in sync any more",
        f"{place} has given up its synchronisation: it leads with what it has"]


async def test_the_mirrors_of_a_new_queue_join_at_once(runtime: Runtime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    [holding] = runtime.mirroring.rings.by_id.values()
    runtime.mirroring.news.born(holding.front, View(1, (ME, OTHER)))
    assert [record.getMessage() for record in caplog.records] == [f"queue 'q' in vhost '/': mirror node {OTHER} joins"]
