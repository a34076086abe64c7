"""The ring of a queue, drawn from what its leader says; the cluster map, the forecast and the preview, on real nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from playwright.sync_api import Page, Route, expect

from admin.cluster.support import Members, running
from admin.support import Node, quote

from .conftest import Window
from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
AT = 1_700_000_000_000


def member(node: str, durable: int, **more: Any) -> dict[str, Any]:
    return {"node": node, "received": durable, "durable": durable, "is_linked": True, "lag_entries": 0, "lag_bytes": 0,
            "sync_done": None, "sync_total": None} | more


def ring(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"epoch": 3, "end": 100, "stable": 98, "is_mirrored": True, "wanted": 3, "sentence": "", "leader": members[0]["node"],
            "policy": "ha", "messages": 5, "members": list(members), "learners": [], "lakes": []} | more


FAILOVER = {"epoch": 4, "time_ms": AT, "old_leader": "a@x", "new_leader": "b@x", "lost": 0,
            "sentence": "b@x leads q in epoch 4 because a@x stopped answering for 2.1 s; nothing confirmed is lost"}
CUT = {"id": "cut-1", "node": "a@x", "epoch": 3, "first": 99, "last": 100, "time_ms": AT, "messages": 2,
       "reason": "epoch 4 never had them"}
PURGE = {"id": "undo-1", "name": "q", "what": "purge", "time_ms": AT, "until_ms": AT + 60_000, "messages": 7, "bytes": 70}


class Leader:
    """Stands for the leader of a mirrored queue: answers what the page asks about its ring, and notes what it is told to do."""

    def __init__(self, page: Page) -> None:
        self.answers: dict[str, Any] = {"failovers": [], "quarantine": [], "undo": []}
        self.told: list[tuple[str, Any]] = []
        page.route("**/api/queues/*/q/ring", lambda route: route.fulfill(json=self.answers["ring"]))
        for what in ("failovers", "quarantine"):
            page.route(f"**/api/queues/*/q/{what}", self._answer(what))
        page.route("**/api/undo/*?name=q", lambda route: route.fulfill(json=self.answers["undo"]))
        page.route("**/quarantine/*", self._note)
        page.route("**/api/undo/*/*", self._note)

    def _answer(self, what: str) -> Callable[[Route], None]:
        return lambda route: route.fulfill(json=self.answers[what])

    def _note(self, route: Route) -> None:
        sent = route.request.post_data
        self.told.append((route.request.url.rpartition("/")[2], json.loads(sent) if sent else None))
        self.answers["quarantine"] = self.answers["undo"] = []
        route.fulfill(json={"messages": 1})


def test_a_queue_alone_has_a_ring_of_one_and_says_why(reader: Reader, node: Node, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    reader.open("queues", vhost, "q", "ring")
    page = reader.page
    expect(page.locator(".ring g.leader")).to_have_count(1)
    expect(page.locator(".ring g.mirror")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("it has one copy, because no policy with ha-mode applies to it")
    for nothing in ("Its leader has never changed.", "Nothing was ever cut off", "There is nothing to take back."):
        expect(page.locator("main")).to_contain_text(nothing)


def test_a_ring_is_drawn_and_turns_when_its_leader_changes(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    page, leader = reader.page, Leader(reader.page)
    syncing = member("d@x", 40, lag_entries=60, lag_bytes=6000, sync_done=4, sync_total=10)
    lake = {"name": "lake", "acknowledged": 90, "lag_entries": 10, "lag_bytes": 100, "seen_ms": AT}
    leader.answers["ring"] = ring(member("a@x", 100), member("b@x", 99), member("c@x", 98), learners=[syncing], lakes=[lake])
    reader.open("queues", vhost, "q", "ring")
    picture = page.locator(".ring")
    expect(picture.locator("g.leader title")).to_have_text("a@x: leader, at 100")
    expect(picture.locator("g.mirror title")).to_have_text(["b@x: mirror, at 99", "c@x: mirror, at 98"])
    expect(picture.locator("g.learner title")).to_have_text("d@x: learner, syncing 40 %")
    expect(picture.locator("g.lake title")).to_have_text("lake: lake, 10 behind")
    expect(picture).to_contain_text("98")
    leader.answers["ring"] = ring(member("b@x", 120), member("c@x", 120), epoch=4, end=120, stable=120)
    leader.answers["failovers"] = [FAILOVER]
    expect(picture.locator("g.leader title")).to_have_text("b@x: leader, at 120")
    expect(page.locator("ol.story")).to_contain_text(FAILOVER["sentence"])


def test_quarantine_and_undo_have_buttons(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    page, leader = reader.page, Leader(reader.page)
    leader.answers |= {"ring": ring(member("a@x", 100)), "quarantine": [CUT], "undo": [PURGE]}
    reader.open("queues", vhost, "q", "ring")
    page.get_by_role("table", name="quarantine").get_by_role("button", name="Put back").click()
    page.get_by_role("dialog").get_by_role("button", name="Put them back").click()
    expect(page.get_by_role("table", name="quarantine")).to_have_count(0)
    leader.answers["undo"] = [PURGE]
    page.get_by_role("table", name="undo").get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.get_by_role("table", name="undo")).to_have_count(0)
    assert leader.told == [("cut-1", {"action": "requeue"}), ("undo-1", None)]


def test_what_is_not_there_cannot_be_settled_or_undone(node: Node, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    path = f"/api/queues/{quote(vhost)}/q/quarantine/none"
    assert node.ask("POST", path, {"action": "requeue"}).status == 404
    assert node.ask("POST", path, {"action": "eat"}).status == 400
    assert node.ask("POST", f"/api/undo/{quote(vhost)}/none").status == 404
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/none/ring").status == 404


# --- real nodes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def members(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with running(Members(tmp_path_factory.mktemp("cluster"), ["a@localhost", "b@localhost"])) as cluster:
        yield cluster


def test_a_cluster_is_shown_and_browsed_from_any_node_and_a_stopped_node_is_told(members: Members, window: Window):
    first, second = members
    for number in range(3):
        first.declare("/", f"q{number}", node="b@localhost")
    body = {"properties": {"delivery_mode": 2}, "routing_key": "q0", "payload": "over there", "payload_encoding": "string"}
    assert first.ask("POST", "/api/exchanges/%2F/amq.default/publish", body).body == {"routed": True}
    reader = window(first)
    reader.log_in()
    page = reader.page
    expect(page.locator(".frame")).to_be_visible()
    reader.open("queues", "/", "q0", "messages")
    page.get_by_role("button", name="Browse").click()
    expect(page.locator("article.message pre")).to_have_text("over there")
    page.get_by_role("link", name="Biography").click()
    expect(page.locator("ol.story")).to_contain_text("entered the queue")
    reader.open("queues", "/", "q0", "ring")
    expect(page.locator(".ring g.leader title")).to_contain_text("b@localhost")
    reader.open("cluster")
    expect(page.locator(".bars .row").filter(has_text="b@localhost")).to_contain_text("3 leaders")
    page.get_by_role("row").filter(has_text="b@localhost").get_by_role("button", name="Stop forecast").click()
    expect(page.locator("#forecast")).to_contain_text("3 cannot be used until it is back")
    expect(page.locator("#forecast tbody tr")).to_have_count(3)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("no queue has a mirror in sync")
    second.stop()
    expect(page.locator(".bars .row").filter(has_text="b@localhost")).to_contain_text("down")
    reply = first.ask("GET", "/api/queues/%2F/q0/messages")
    assert (reply.status, "b@localhost" in reply.body["reason"]) == (503, True)
