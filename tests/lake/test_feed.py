"""The feed of a queue's log: by index, stable, non-destructive, for those who may read."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from cluster.live.nodes import running
from compat.support import quote, unique
from mirror.live.rings import eventually
from mirrormq.lake.client import Address, FeedClient
from mirrormq.lake.errors import LakeError, Refused, Trimmed

from .support import KEPT, Node, entries, fill, quiet, settle, start_node


def test_a_queue_is_read_as_it_was_written_and_nothing_is_consumed(node: Node, vhost: str, channel: Any) -> None:
    bodies = fill(channel, "orders", 300)
    settled = settle(channel, "orders", 40)
    client = node.client(vhost)
    [feed] = quiet(client)
    rows = entries(client, feed)
    assert [row["body"] for row in rows if row["kind"] == "enqueue"] == bodies
    acked = [
        index for row in rows if row["kind"] == "ack" for part in row["ranges"] for index in range(part["low"], part["high"] + 1)
    ]
    assert [row["body"] for row in rows if row["index"] in acked] == settled
    assert channel.queue_declare("orders", passive=True).method.message_count == 260


def test_indexes_have_no_hole(node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "mixed", 50)
    fill(channel, "mixed", 50, pika.BasicProperties())
    fill(channel, "mixed", 50)
    client = node.client(vhost)
    [feed] = quiet(client)
    at = feed.earliest
    for row in entries(client, feed):
        assert row["index"] == at
        at += row["count"]
    assert at == feed.end


def test_a_range_is_the_same_however_it_is_cut(node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "cut", 200)
    client = node.client(vhost)
    [feed] = quiet(client)
    whole = entries(client, feed)
    pieces = [row for first in range(1, feed.end, 7) for row in entries(client, feed, first, min(first + 7, feed.end))]
    assert pieces == whole


def test_properties_headers_and_bodies_come_as_they_were_sent(node: Node, vhost: str, channel: Any) -> None:
    channel.queue_declare("rich", durable=True)
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="gzip",
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="600000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="k",
        headers={"text": "grün", "number": 7, "deep": {"list": [1, "zwei"]}, "flag": True, "raw": b"\xff"},
    )
    channel.basic_publish("", "rich", b"\x00" * 300_000, sent)
    client = node.client(vhost)
    [feed] = quiet(client)
    [row] = [row for row in entries(client, feed) if row["kind"] == "enqueue"]
    properties = row["properties"]
    assert (row["exchange"], row["routing_key"], row["message_id"], row["persistent"]) == ("", "rich", "m-1", True)
    assert row["body"] == b"\x00" * 300_000
    assert properties.pop("timestamp").timestamp() == 1_700_000_000
    assert properties == {name: getattr(sent, name) for name in properties}
    headers = dict(row["headers"])
    assert (headers["text"], headers["number"], headers["flag"]) == ("grün", "7", "true")
    assert headers["deep"] == '{"list": [1, "zwei"]}'


def test_a_reader_waits_for_what_is_not_there_yet(node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "slow", 1)
    client = node.client(vhost)
    [feed] = quiet(client)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(client.read("slow", feed.id, feed.end, 1 << 62, wait=25)))
    reader.start()
    time.sleep(0.3)
    channel.basic_publish("", "slow", b"late", KEPT)
    reader.join(60)
    assert b"late" in got[0]


def test_acknowledgements_alone_become_readable(node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "acks", 5)
    settle(channel, "acks", 5)
    client = node.client(vhost)
    eventually(lambda: [row["kind"] for row in entries(client, client.feeds()[0])].count("ack") == 5)


def test_a_moment_is_found_in_the_log(node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "when", 10)
    client = node.client(vhost)
    [feed] = quiet(client)
    moment = int(time.time() * 1000) + 1
    eventually(lambda: time.time() * 1000 > moment + 5)
    fill(channel, "when", 10, first=10)
    quiet(client)
    found = client.index_at("when", moment)
    assert feed.end <= found
    assert entries(client, client.feeds()[0], found)[0]["body"] == b"message 10"
    assert client.index_at("when", 0) == 1


def test_only_queues_that_match_and_that_the_user_may_read_are_shown(node: Node, vhost: str, channel: Any) -> None:
    for name in ("a.one", "a.two", "b.one"):
        fill(channel, name, 1)
    user = unique("reader")
    node.add_user(user, user)
    node.grant(vhost, user, "^$", "^$", r"^a\.")
    client = node.client(vhost, user)
    assert [feed.name for feed in client.feeds()] == ["a.one", "a.two"]
    assert [feed.name for feed in node.client(vhost).feeds("one$")] == ["a.one", "b.one"]
    secret = node.client(vhost).feeds("b.one")[0]
    with pytest.raises(Refused, match=r"read access to queue 'b.one' .* refused"):
        client.read("b.one", secret.id, 1, 2)
    node.delete_user(user)


def test_refusals_are_sentences(node: Node, vhost: str, channel: Any) -> None:
    fill(channel, "q", 1)
    client = node.client(vhost)
    [feed] = quiet(client)
    with pytest.raises(Refused, match="user 'guest' cannot log in"):
        node.client(vhost, "guest", "wrong").feeds()
    with pytest.raises(LakeError, match="no queue 'nothing' in vhost"):
        client.read("nothing", "1", 1, 2)
    with pytest.raises(LakeError, match="ends before index"):
        client.read("q", feed.id, 10_000, 10_001)
    with pytest.raises(Trimmed, match="deleted and declared anew"):
        client.read("q", "1", 1, 2)
    with pytest.raises(LakeError, match="there is no vhost 'nowhere'"):
        node.client("nowhere").feeds()
    with pytest.raises(LakeError, match="no regular expression"):
        client.feeds("(")
    with pytest.raises(LakeError, match="no node of the cluster can answer"):
        FeedClient(Address.parse("http://127.0.0.1:1", patience=0.5)).feeds()


def test_any_node_answers_for_every_queue(tmp_path: Path) -> None:
    with running(tmp_path, 2) as nodes:
        for place, each in enumerate(nodes):
            body = {"durable": True, "node": each.name}
            each.api("PUT", f"/api/queues/{quote('/')}/q{place}", body)
            each.api(
                "POST",
                f"/api/exchanges/{quote('/')}/amq.default/publish",
                {
                    "routing_key": f"q{place}",
                    "payload": f"on {place}",
                    "payload_encoding": "string",
                    "properties": {"delivery_mode": 2},
                },
            )
        for each in nodes:
            client = FeedClient(Address.parse(f"http://guest:guest@127.0.0.1:{each.http_port}"))
            feeds = eventually(
                lambda client=client: [f for f in client.feeds() if f.end > 1 and f.state == "running"][1:] and client.feeds()
            )
            assert [feed.node for feed in feeds] == [node.name for node in nodes]
            assert [entries(client, feed)[0]["body"] for feed in feeds] == [b"on 0", b"on 1"]


def test_a_lake_mirror_outlives_a_restart_and_shows_its_lag(tmp_path: Path) -> None:
    node = start_node(tmp_path)
    try:
        with node.channel("/") as channel:
            fill(channel, "held", 100)
        client = node.client("/")
        [feed] = quiet(client)
        client.put_mirror("lake", pattern="^held$", lease=3_600_000, queues={feed.id: 40})
        client.put_mirror("lake", queues={feed.id: 30})
        node.restart()
        [shown] = node.api("GET", "/api/queues")
        assert shown["lake_mirrors"] == [{"name": "lake", "acknowledged": 39, "lag": feed.end - 40, "state": "active"}]
        assert node.api("GET", "/api/definitions")["parameters"] == node.api("GET", "/api/parameters") == []
        client.put_mirror("lake", lease=0)
        eventually(lambda: node.api("GET", "/api/queues")[0]["lake_mirrors"][0]["state"] == "expired")
        client.delete_mirror("lake")
        assert "lake_mirrors" not in node.api("GET", "/api/queues")[0]
    finally:
        node.stop()


def churn(node: Node, megabytes: int) -> None:
    """Publish, consume and acknowledge so much that the write-ahead log is given up several times."""
    with node.channel("/") as channel:
        channel.queue_declare("churn", durable=True)
        body = b"x" * (1 << 20)
        for _ in range(megabytes):
            channel.basic_publish("", "churn", body, KEPT)
            method, _, _ = channel.basic_get("churn")
            channel.basic_ack(method.delivery_tag)


def test_what_a_lake_mirror_has_not_read_is_kept_and_what_nobody_wants_is_trimmed(tmp_path: Path) -> None:
    node = start_node(tmp_path)
    try:
        client = node.client("/")
        client.put_mirror("lake", pattern="^churn$")
        churn(node, 150)
        [feed] = quiet(client)
        assert feed.earliest == 1
        assert entries(client, feed, 1, 3)[0]["body_size"] == 1 << 20
        node.api("PUT", "/api/policies/%2F/short", {"pattern": "churn", "definition": {"lake-retention-bytes": 1 << 20}})
        churn(node, 150)
        feed = eventually(lambda: next(iter(feed for feed in client.feeds() if feed.earliest > 1), None))
        with pytest.raises(Trimmed, match=r"entries 1 to \d+ of queue 'churn' are gone") as loss:
            client.read("churn", feed.id, 1, 2)
        assert 1 < loss.value.earliest <= client.feeds()[0].end
    finally:
        node.stop()


def test_the_rate_of_a_node_can_be_limited(node: Node, vhost: str, channel: Any) -> None:
    channel.queue_declare("big", durable=True)
    channel.basic_publish("", "big", b"x" * 300_000, KEPT)
    client = node.client(vhost)
    [feed] = quiet(client)
    node.api("PUT", "/api/global-parameters/lake-feed-rate", {"value": 1_000_000})
    try:
        began = time.monotonic()
        for _ in range(3):
            client.read("big", feed.id, 1, feed.end)
        assert time.monotonic() - began > 0.8
    finally:
        node.api("DELETE", "/api/global-parameters/lake-feed-rate")
