"""What was cut off a queue's log has buttons; and what is rare in a ring: a learner far behind, as its leader tells it.

The first is real: three nodes, a leader that nobody can reach confirms alone, and what it confirmed is in quarantine when it is
back. For the second a stand-in answers for the leader: real nodes are in that state only for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import expect

from admin.support import Node, quote
from cluster.live.nodes import Node as Member
from cluster.live.nodes import Nodes, running
from mirror.live.rings import count, declare, eventually, leader_of, mirror, publish, until_in_sync

from .conftest import Window
from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
LONG = 60.0             # seconds in which a ring has a new leader, or is whole, on a busy machine
MARKS = {"is_linked": True, "lag_entries": 0, "lag_bytes": 0, "sync_done": None, "sync_total": None}
RING = {
    "epoch": 3, "end": 100, "stable": 98, "is_mirrored": True, "wanted": 2, "sentence": "", "leader": "a@x", "policy": "ha",
    "messages": 5, "members": [MARKS | {"node": "a@x", "received": 100, "durable": 100}], "lakes": [],
    "learners": [MARKS | {"node": "d@x", "received": 40, "durable": 40, "lag_entries": 60, "sync_done": 4, "sync_total": 10}],
}  # fmt: skip

WAITS = "waiting for a@x: only it holds everything that was confirmed, d@x not in sync"
UNKNOWN = {"received": None, "durable": None, "lag_entries": None}
UNLED = RING | {
    "epoch": 3, "end": None, "stable": None, "leader": None, "messages": None, "sentence": WAITS,
    "members": [MARKS | UNKNOWN | {"node": "a@x", "is_linked": False}],
    "learners": [MARKS | {"node": "d@x", "received": 40, "durable": 40, "lag_entries": None}],
}  # fmt: skip
PENDING = {
    "epoch": None, "time_ms": None, "old_leader": "a@x", "new_leader": None, "sentence": WAITS, "lost": None, "requeued": None,
    "elect_ms": None, "serve_ms": None, "end": None, "known_stable": {}, "members": ["a@x"], "learners": ["d@x"],
}  # fmt: skip


@pytest.fixture
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("quarantine")) as started:
        yield started


def confirm_alone(nodes: Nodes, queue: str, *bodies: bytes) -> None:
    """The last node leads the queue, and has confirmed these when it is cut off; another leads, and it is back without them."""
    last = nodes[2]
    mirror(last, queue, ha_replication="async")
    declare(last, queue)
    until_in_sync(nodes, queue)
    last.line.blackhole()
    publish(last, queue, *bodies)
    eventually(lambda: leader_of(nodes[0], queue) not in ("", last.name), within=LONG)
    last.line.heal()
    until_in_sync(nodes, queue)
    assert count(nodes[0], queue) == 0


def seat_at(window: Window, node: Member) -> Reader:
    """Logged in at a node of a cluster; the page asks for nothing but its address."""
    person = Node(node.directory, name=node.name)
    person.host, person.port, person.http_port = node.host, node.port, node.http_port
    reader = window(person)
    reader.enter()
    return reader


@pytest.mark.timeout(400)
def test_what_was_cut_off_is_put_back_with_a_button(nodes: Nodes, window: Window):
    confirm_alone(nodes, "loose", b"first", b"second")
    reader = seat_at(window, nodes[0])
    page, table = reader.page, reader.page.get_by_role("table", name="quarantine")
    reader.open("queues", "/", "loose", "ring")
    expect(table).to_contain_text(nodes[2].name, timeout=1000 * LONG)
    table.get_by_role("button", name="Put back").click()
    page.get_by_role("dialog").get_by_role("button", name="Put them back").click()
    expect(table).to_have_count(0)
    eventually(lambda: count(nodes[1], "loose") == 2, within=LONG)
    reader.open("queues", "/", "loose", "messages")
    page.get_by_role("button", name="Browse").click()
    expect(page.locator("article.message pre")).to_have_text(["first", "second"])


def test_a_learner_far_behind_is_drawn_with_its_progress(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    reader.page.route("**/api/queues/*/q/ring", lambda route: route.fulfill(json=RING))
    reader.open("queues", vhost, "q", "ring")
    expect(reader.page.locator(".ring g.learner title")).to_have_text("d@x: learner, syncing 40 %")


def test_of_a_queue_that_nobody_leads_the_page_shows_for_whom_it_waits(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    page = reader.page
    page.route("**/api/queues/*/q/ring", lambda route: route.fulfill(json=UNLED))
    page.route("**/api/queues/*/q/failovers", lambda route: route.fulfill(json=[PENDING]))
    reader.open("queues", vhost, "q", "ring")
    expect(page.locator(".note", has_text="waiting for")).to_have_class("note bad")
    state = page.locator("section.card", has_text="In words")
    expect(state).to_contain_text("nobody that can lead")
    expect(state).to_contain_text(f"Nobody leads: {WAITS}.")
    assert "a@x leads" not in state.inner_text()
    expect(page.locator(".ring g.leader")).to_have_count(0)
    expect(page.locator(".ring g.mirror title")).to_have_text("a@x: mirror, does not answer")
    expect(page.locator(".ring g.learner title")).to_have_text("d@x: learner, at 40, how far behind is not known")
    rows = page.get_by_role("table", name="members of the ring").locator("tbody tr")
    for words in ("last leader", "not known", "cut"):
        expect(rows.nth(0)).to_contain_text(words)
    expect(rows.nth(1)).to_contain_text("not known")
    story = page.locator("ol.story li")
    expect(story).to_have_class("bad")
    expect(story).to_contain_text("now · a@x → nobody")


def test_the_details_of_a_queue_that_nobody_leads_name_no_leader(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    row = {"name": "q", "vhost": vhost, "node": "a@x", "state": "down", "reason": WAITS, "waits_for": ["a@x"], "durable": True,
           "slave_nodes": ["d@x"], "arguments": {}, "policy": "ha"}
    reader.page.route(f"**/api/queues/{quote(vhost)}/q?*", lambda route: route.fulfill(json=row))
    reader.open("queues", vhost, "q")
    details = reader.page.locator("section.card", has_text="Effective definition")
    expect(details).to_contain_text(f"down: {WAITS}")
    expect(details).to_contain_text("nobody")
    assert "busy" not in details.inner_text()


def test_what_is_not_there_cannot_be_settled_or_undone(node: Node, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    path = f"/api/queues/{quote(vhost)}/q/quarantine/none"
    assert node.ask("POST", path, {"action": "requeue"}).status == 404
    assert node.ask("POST", path, {"action": "eat"}).status == 400
    assert node.ask("POST", f"/api/undo/{quote(vhost)}/none").status == 404
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/none/ring").status == 404
