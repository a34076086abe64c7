"""Restoring a queue as it was, and looking at a lake: verify, report, sql."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from compat.support import quote, unique
from mirrormq.lake import restore, views
from mirrormq.lake.errors import LakeError
from mirrormq.lake.mirror import Mirror
from mirrormq.lake.report import balance, write_report
from mirrormq.lake.show import show
from mirrormq.lake.tables import Place
from mirrormq.lake.verify import verify

from .job import run_lake
from .support import Node, fill, quiet, settle, start_node

ROWS = int(os.environ.get("MIRRORMQ_LAKE_ROWS", "2000"))


@pytest.fixture
def mirror(spark: Any, node: Node, vhost: str, tmp_path: Path) -> Mirror:
    made = Mirror(spark, node.address(vhost), Place.at(str(tmp_path / "lake")))
    made.start()
    return made


@pytest.fixture
def other(node: Node, tmp_path: Path) -> Iterator[tuple[Node, str]]:
    """A second cluster; for few messages, as far as a queue can tell: another virtual host."""
    if ROWS >= 50_000:
        (tmp_path / "other").mkdir()
        second = start_node(tmp_path / "other")
        yield second, "/"
        second.stop()
        return
    name = unique("other")
    node.add_vhost(name)
    yield node, name
    node.api("DELETE", f"/api/vhosts/{quote(name)}")


def everything(channel: Any, queue: str) -> list[tuple[bytes, Any, str, str]]:
    found = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((body, properties, method.exchange, method.routing_key))


@pytest.mark.long
def test_a_purged_queue_is_restored_as_it_was_just_before(
    mirror: Mirror, spark: Any, channel: Any, other: tuple[Node, str]
) -> None:
    second, vhost = other
    rich = pika.BasicProperties(
        delivery_mode=2,
        content_type="text/plain",
        headers={"n": 1, "deep": {"a": [True, None]}},
        priority=4,
        correlation_id="c",
        timestamp=1_700_000_000,
    )
    fill(channel, "orders", ROWS // 2)
    fill(channel, "orders", ROWS - ROWS // 2, rich, first=ROWS // 2)
    settle(channel, "orders", ROWS // 10)
    unacknowledged = [channel.basic_get("orders")[2] for _ in range(7)]
    quiet(mirror.client)
    moment = int(time.time() * 1000)
    while int(time.time() * 1000) <= moment + 1:
        pass
    channel.queue_purge("orders")
    fill(channel, "orders", 3, first=ROWS)
    quiet(mirror.client)
    mirror.sync()
    frame = restore.content(spark, mirror.place, "orders", mirror.client.address.vhost, moment)
    found = restore.preview(frame, "orders")
    assert found.count == ROWS - ROWS // 10
    assert f"held {found.count:,} messages" in found.sentence()
    assert "message" in found.first[0]
    run = restore.restore(frame, second.address(vhost), "orders")
    restore.restore(frame, second.address(vhost), "orders", run)  # broke off, and is resumed: nothing is doubled
    with second.channel(vhost) as target:
        restored = everything(target, "orders")
    wanted = [f"message {number}".encode() for number in range(ROWS // 10, ROWS)]
    assert [body for body, *_ in restored] == wanted
    assert restored[0][0] == unacknowledged[0]
    assert {(exchange, key) for *_, exchange, key in restored} == {("", "orders")}
    assert all(vars(properties) == vars(rich) for _, properties, *_ in restored[-(ROWS - ROWS // 2) :])


def test_a_queue_that_is_not_there_cannot_be_restored(mirror: Mirror, spark: Any) -> None:
    with pytest.raises(LakeError, match="the lake knows no queue 'nothing'"):
        restore.content(spark, mirror.place, "nothing", "/", None)


@pytest.mark.long
def test_verify_finds_what_is_planted_and_nothing_else(mirror: Mirror, spark: Any, node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "v", 50)
    settle(channel, "v", 5)
    [feed] = quiet(mirror.client)
    mirror.sync()
    clean = mirror.events.load().version()

    def findings(address: Any = None) -> set[tuple[str, int]]:
        return {(finding.kind, finding.index) for finding in verify(spark, mirror.place, address)[1]}

    def planted(*changes: Callable[[Any], None]) -> set[tuple[str, int]]:
        delta = mirror.events.load()
        delta.restore(clean) if delta.version() != clean else None
        for change in changes:
            change(mirror.events.load())
        return findings(node.address(vhost))

    def row(delta: Any, index: int) -> pa.Table:
        return delta.to_pyarrow_table(filters=[("index", "=", index)])

    def change_body(delta: Any) -> None:
        found = row(delta, 7)
        delta.delete("index = 7")
        at = found.schema.get_field_index("body")
        write_deltalake(
            delta, found.set_column(at, found.schema.field(at), pa.array([b"other"], found.schema.field(at).type)), mode="append"
        )

    def change_key(delta: Any) -> None:
        found = row(delta, 8)
        delta.delete("index = 8")
        at = found.schema.get_field_index("routing_key")
        write_deltalake(
            delta, found.set_column(at, found.schema.field(at), pa.array(["x"], found.schema.field(at).type)), mode="append"
        )

    def delete(where: str) -> Callable[[Any], None]:
        return lambda delta: delta.delete(where)

    def double(delta: Any) -> None:
        write_deltalake(delta, row(delta, 6), mode="append")

    faults: list[tuple[Callable[[Any], None], set[tuple[str, int]]]] = [
        (delete("index = 5"), {("hole", 5), ("missing in the lake", 5)}),
        (double, {("doubled", 6)}),
        (change_body, {("changed body", 7), ("differs from the log", 7)}),
        (change_key, {("differs from the log", 8)}),
        (delete("index >= 20 AND index < 30"), {("hole", 20), *(("missing in the lake", index) for index in range(20, 30))}),
    ]
    assert planted() == set()
    assert planted(*(fault for fault, _ in faults)) == set().union(*(named for _, named in faults))
    assert findings() == {("hole", 5), ("doubled", 6), ("changed body", 7), ("hole", 20)}
    for fault, named in faults if ROWS >= 50_000 else ():
        assert planted(fault) == named
    assert feed.end > 50


def test_the_report_is_one_page_with_plots(
    mirror: Mirror, spark: Any, node: Node, vhost: str, channel: Any, tmp_path: Path
) -> None:
    fill(channel, "hot", 300)
    fill(channel, "cold", 20)
    settle(channel, "hot", 100)
    method, _, _ = channel.basic_get("cold")
    channel.basic_reject(method.delivery_tag, requeue=False)
    quiet(mirror.client)
    mirror.sync()
    write_report(spark, mirror.place, tmp_path / "report.html", None, tmp_path / "plan.json", node.address(vhost))
    text = (tmp_path / "report.html").read_text()
    assert text.count("<svg") >= 3
    assert not re.search(r"(src|href)=", text)
    for word in ("hot", "cold", "rejected", "Failovers", "Rebalance plan", "p95"):
        assert word in text
    assert json.loads((tmp_path / "plan.json").read_text()) == {"moves": []}


def test_a_plan_moves_hot_queues_to_idle_nodes() -> None:
    class Past:
        hot = ({"queue": "a", "entries": 100}, {"queue": "b", "entries": 90}, {"queue": "c", "entries": 5})

    both = ("n1", "n2")
    moves = balance(Past(), {"a": both, "b": both, "c": both, "d": ("n2",)})  # type: ignore[arg-type]
    assert [(move["queue"], move["to"]) for move in moves] == [("b", "n2"), ("c", "n2")]
    assert balance(Past(), {"a": both, "b": ("n1",), "c": ("n1",)}) == []  # type: ignore[arg-type]


def test_sql_knows_events_messages_and_failovers(
    mirror: Mirror, spark: Any, channel: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(channel, "s", 20)
    settle(channel, "s", 5)
    quiet(mirror.client)
    mirror.sync()
    views.register(spark, mirror.place)
    query = "SELECT state, count(*) AS n FROM messages GROUP BY state ORDER BY state"
    show(spark.sql(query), 10, "json")
    assert capsys.readouterr().out.splitlines() == ['{"state": "acknowledged", "n": 5}', '{"state": "live", "n": 15}']
    show(spark.sql("SELECT queue, cast(body AS string) AS text FROM events WHERE index = 1"), 10, "csv")
    assert capsys.readouterr().out.splitlines() == ["queue,text", "s,message 0"]
    show(spark.sql("SELECT * FROM failovers"), 10, "table")
    assert "pause_seconds" in capsys.readouterr().out


@pytest.mark.chaos
def test_the_commands_do_a_nightly_backup_and_a_restore_into_an_empty_cluster(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    node, empty = start_node(tmp_path / "one"), start_node(tmp_path / "two")
    lake = str(tmp_path / "lake")
    try:
        with node.channel("/") as channel:
            bodies = fill(channel, "orders", 200)
        quiet(node.client("/"))
        assert "200 entries" in run_lake("mirror", "--once", "--lake", lake, "--url", node.lake_url())
        assert "nothing is wrong" in run_lake("verify", "--lake", lake, "--url", node.lake_url())
        preview = run_lake("restore", "--lake", lake, "--queue", "orders", "--preview")
        assert "held 200 messages" in preview
        told = run_lake("restore", "--lake", lake, "--queue", "orders", "--url", node.lake_url(), "--into-url", empty.lake_url())
        assert "restored 200 messages" in told
        with empty.channel("/") as channel:
            assert [body for body, *_ in everything(channel, "orders")] == bodies
        assert "200" in run_lake("sql", "--lake", lake, "SELECT count(*) FROM messages")
        assert "wrote" in run_lake("report", "--lake", lake, "--output", str(tmp_path / "report.html"))
    finally:
        node.stop()
        empty.stop()
