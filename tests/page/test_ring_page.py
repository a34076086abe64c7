"""Three real nodes and what the page shows of them: a policy mirrors a queue, its ring is drawn, turns when its leader is killed.

The tests of this file are one story, and go on from each other: a node that is killed in the end is not started again.
MIRRORMQ_PICTURES=1 puts what is seen on the way into docs/pictures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import Page, expect

from admin.cluster.support import Member, Members, running
from admin.support import quote
from mirror.live.rings import eventually

from .conftest import Window
from .support import ROOT, Reader

A, B, C = "a@localhost", "b@localhost", "c@localhost"
EVIL = "orders.<img src=x onerror=alert(1)>"
KEPT = pika.BasicProperties(delivery_mode=2)
SOON = 60_000       # milliseconds in which a ring is whole, or has a new leader, on a busy machine


@pytest.fixture(scope="module")
def members(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with running(Members(tmp_path_factory.mktemp("cluster"), [A, B, C])) as cluster:
        for name in ("orders", EVIL):
            cluster[0].declare("/", name, node=C)
        for number in range(3):
            cluster[0].declare("/", f"q{number}", node=B)
        yield cluster


@pytest.fixture
def seat(members: Members, window: Window) -> Reader:
    """Logged in at the first node."""
    reader = window(members[0], height=1240)
    reader.log_in()
    expect(reader.page.locator(".frame")).to_be_visible()
    return reader


def publish(node: Member, queue: str, *bodies: bytes) -> None:
    connection = node.connect("/")
    channel = connection.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, KEPT)
    connection.close()


def photograph(page: Page, name: str) -> None:
    if os.environ.get("MIRRORMQ_PICTURES") == "1":
        page.screenshot(path=ROOT / "docs" / "pictures" / name)


def members_of(page: Page, kind: str) -> list[str]:
    return sorted(title.partition(":")[0] for title in page.locator(f".ring g.{kind} title").all_text_contents())


def test_a_policy_added_on_the_page_mirrors_a_queue_before_the_readers_eyes(seat: Reader, members: Members, window: Window):
    watcher = window(members[1])
    watcher.enter()
    watcher.open("queues", "/", "orders", "ring")
    expect(watcher.page.locator("main")).to_contain_text("it has one copy, because no policy with ha-mode applies to it")
    seat.open("policies")
    form = seat.page.locator("#policies form")
    form.get_by_label("Name").fill("ha")
    form.get_by_label("Pattern").fill("^orders")
    for key in ("ha-mode=all", "ha-sync-mode=automatic"):
        form.get_by_role("button", name=key).click()
    form.get_by_role("button", name="Add / update policy").click()
    expect(seat.page.locator("#policies tbody")).to_contain_text("ha-mode = all")
    picture = watcher.page.locator(".ring")
    expect(picture.locator("g.mirror")).to_have_count(2, timeout=SOON)
    expect(picture.locator("g.learner")).to_have_count(0, timeout=SOON)
    assert (members_of(watcher.page, "leader"), members_of(watcher.page, "mirror")) == ([C], [A, B])
    expect(watcher.page.locator("main")).to_contain_text("3 of 3 wanted")
    seat.open("queues")
    expect(seat.page.locator("tbody tr").filter(has_text="orders").first).to_contain_text("+2")


def test_a_mirrored_queue_is_browsed_without_consuming_and_comes_back_after_a_purge(seat: Reader, members: Members):
    publish(members[1], "orders", *(b"order %d" % number for number in range(5)))
    page = seat.page
    seat.open("queues", "/", "orders", "messages")
    page.get_by_role("button", name="Browse").click()
    expect(page.locator("article.message pre")).to_have_text([f"order {number}" for number in range(5)])
    expect(page.locator("article.message .badge")).to_have_count(0)
    seat.open("queues", "/", "orders")
    ready = page.locator("dl.facts dt:text-is('Ready') + dd")
    expect(ready).to_contain_text("5 (")
    page.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge it").click()
    expect(ready).to_contain_text("0 (")
    page.get_by_role("link", name="Ring").click()
    page.get_by_role("table", name="undo").get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    expect(page.locator("#toasts")).to_contain_text("The messages are back.")
    expect(page.locator("main")).to_contain_text("There is nothing to take back.")
    assert members[1].queue("/", "orders")["messages"] == 5
    eventually(lambda: [member.get("/api/overview")["queue_totals"]["messages"] for member in members] == [5, 5, 5])


def test_a_lake_mirror_stands_below_the_ring(seat: Reader, members: Members):
    assert members[0].ask("PUT", "/api/lake-mirrors/%2F/lakehouse", {"pattern": "^orders$"}).status == 201
    seat.open("queues", "/", "orders", "ring")
    expect(seat.page.locator(".ring g.lake title")).to_contain_text("lakehouse: lake,")
    photograph(seat.page, "ring.png")
    members[0].ask("DELETE", "/api/lake-mirrors/%2F/lakehouse")
    expect(seat.page.locator(".ring g.lake")).to_have_count(0)


def test_a_hostile_name_is_harmless_in_the_ring(seat: Reader):
    page = seat.page
    seat.open("queues", "/", EVIL, "ring")
    expect(page.locator("h1")).to_have_text(EVIL)
    expect(page.locator(".ring g.mirror")).to_have_count(2, timeout=SOON)
    assert page.locator("main img, main script, [onerror]").count() == 0


def test_the_cluster_is_shown_and_a_stop_is_forecast(seat: Reader, members: Members):
    publish(members[0], "q0", b"over there")
    page = seat.page
    seat.open("queues", "/", "q0", "messages")
    page.get_by_role("button", name="Browse").click()
    expect(page.locator("article.message pre")).to_have_text("over there")
    page.get_by_role("link", name="Biography").click()
    expect(page.locator("ol.story")).to_contain_text("entered the queue")
    seat.open("cluster")
    expect(page.locator(".bars .row").filter(has_text=B)).to_contain_text("3 leaders")
    forecast = page.locator("#forecast")
    for node, told in ((B, "3 cannot be used until it is back"), (C, "2 queues are taken over")):
        page.get_by_role("row").filter(has_text=node).get_by_role("button", name="Stop forecast").click()
        expect(forecast).to_contain_text(told)
    expect(forecast.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("orders")


def test_a_session_holds_on_every_node_and_ends_on_every_node(seat: Reader, members: Members):
    page = seat.page
    [cookie] = seat.context.cookies()
    old = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    page.goto(members[1].url)
    expect(page.locator(".foot")).to_contain_text(B)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    for member in members:
        assert member.ask("GET", "/api/overview", user=None, headers=old).status == 401


def test_when_the_leader_is_killed_the_ring_turns_and_the_audit_is_told_without_a_reload(seat: Reader, members: Members):
    page = seat.page
    seat.open("queues", "/", "orders", "ring")
    expect(page.locator(".ring g.leader title")).to_contain_text(C)
    expect(page.locator("main")).to_contain_text("Its leader has never changed.")
    page.evaluate("window.unreloaded = true")
    members[2].kill()
    expect(page.locator(".ring g.leader title")).not_to_contain_text(C, timeout=SOON)
    story = page.locator("ol.story li").first
    expect(story).to_contain_text(f"because {C} does not answer", timeout=SOON)
    expect(story).to_contain_text("0 confirmed messages lost")
    expect(page.locator(".ring g.learner title")).to_have_text(f"{C}: learner, does not answer", timeout=SOON)
    assert page.evaluate("window.unreloaded") is True
    seat.complaints[:] = [words for words in seat.complaints if "503" not in words]     # while nobody led, if that took long
    photograph(page, "failover.png")
    seat.open("cluster")
    expect(page.locator(".bars .row").filter(has_text=C)).to_contain_text("down")
    members[1].stop()
    expect(page.locator(".bars .row").filter(has_text=B)).to_contain_text("down", timeout=SOON)
    reply = members[0].ask("GET", f"/api/queues/%2F/{quote('q0')}/messages")
    assert (reply.status, B in reply.body["reason"]) == (503, True)
