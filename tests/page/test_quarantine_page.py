"""What was cut off a queue's log has buttons; and what is rare in a ring: a learner far behind, as its leader tells it.

A stand-in answers for the leader: real nodes come to such a state only for a moment, or by a broken disk.
"""

from __future__ import annotations

from typing import Any

import pika
from playwright.sync_api import Route, expect

from admin.support import Node, quote

from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
MARKS = {"is_linked": True, "lag_entries": 0, "lag_bytes": 0, "sync_done": None, "sync_total": None}
RING = {
    "epoch": 3, "end": 100, "stable": 98, "is_mirrored": True, "wanted": 2, "sentence": "", "leader": "a@x", "policy": "ha",
    "messages": 5, "members": [MARKS | {"node": "a@x", "received": 100, "durable": 100}], "lakes": [],
    "learners": [MARKS | {"node": "d@x", "received": 40, "durable": 40, "lag_entries": 60, "sync_done": 4, "sync_total": 10}],
}  # fmt: skip
CUT = {"id": "cut-1", "node": "a@x", "epoch": 3, "first": 99, "last": 100, "time_ms": 1_700_000_000_000, "messages": 2,
       "reason": "epoch 4 never had them"}


def test_what_was_cut_off_is_put_back_with_a_button(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    cut: list[dict[str, Any]] = [CUT]
    told: list[Any] = []

    def settle(route: Route) -> None:
        told.append(route.request.post_data_json)
        cut.clear()
        route.fulfill(json={"messages": 2})

    page = reader.page
    page.route("**/api/queues/*/q/ring", lambda route: route.fulfill(json=RING))
    page.route("**/api/queues/*/q/quarantine", lambda route: route.fulfill(json=cut))
    page.route("**/quarantine/cut-1", settle)
    reader.open("queues", vhost, "q", "ring")
    expect(page.locator(".ring g.learner title")).to_have_text("d@x: learner, syncing 40 %")
    page.get_by_role("table", name="quarantine").get_by_role("button", name="Put back").click()
    page.get_by_role("dialog").get_by_role("button", name="Put them back").click()
    expect(page.get_by_role("table", name="quarantine")).to_have_count(0)
    assert told == [{"action": "requeue"}]


def test_what_is_not_there_cannot_be_settled_or_undone(node: Node, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    path = f"/api/queues/{quote(vhost)}/q/quarantine/none"
    assert node.ask("POST", path, {"action": "requeue"}).status == 404
    assert node.ask("POST", path, {"action": "eat"}).status == 400
    assert node.ask("POST", f"/api/undo/{quote(vhost)}/none").status == 404
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/none/ring").status == 404
