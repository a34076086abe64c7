"""Queues through the page: add, publish, browse without consuming, search, biography, get, purge, delete, live figures."""

from __future__ import annotations

import pika
from playwright.sync_api import expect

from admin.support import Node, quote

from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
KEPT = pika.BasicProperties(delivery_mode=2)


def fill(channel: Channel, name: str, *bodies: str, **arguments: object) -> None:
    channel.queue_declare(name, durable=True, arguments=arguments or None)
    for body in bodies:
        channel.basic_publish("", name, body.encode(), KEPT)


def test_a_queue_is_added_with_the_form_and_deleted(reader: Reader, node: Node, vhost: str):
    page = reader.page
    reader.open("queues")
    page.get_by_text("Add a queue").click()
    form = page.locator("details.fold form")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name").fill("made here")
    form.get_by_role("button", name="x-max-priority=").click()
    form.get_by_label("Arguments").press_sequentially("5")
    form.get_by_role("button", name="Add queue").click()
    expect(page.locator("tbody")).to_contain_text("made here")
    row = node.api("GET", f"/api/queues/{quote(vhost)}/made%20here")
    assert (row["durable"], row["arguments"]) == (True, {"x-max-priority": 5})
    reader.open("queues", vhost, "made here")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.locator("h1")).to_have_text("Queues")
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/made%20here").status == 404


def test_a_message_is_published_with_the_form(reader: Reader, vhost: str, channel: Channel):
    fill(channel, "q")
    page = reader.page
    reader.open("queues", vhost, "q", "messages")
    page.get_by_text("Publish a message").click()
    form = page.locator("details.fold").first.locator("form")
    form.get_by_label("Payload", exact=True).fill("from the page")
    form.get_by_label("Headers").fill("colour = blue\nnumber = 7")
    form.get_by_label("Properties").fill("content_type = text/plain\npriority = 3")
    form.get_by_role("button", name="Publish").click()
    expect(page.locator("#toasts")).to_contain_text("stable")
    _, properties, body = channel.basic_get("q")
    assert body == b"from the page"
    assert properties.headers == {"colour": "blue", "number": 7}
    assert (properties.content_type, properties.priority, properties.delivery_mode) == ("text/plain", 3, 2)


def test_browsing_consumes_nothing_and_marks_nothing(reader: Reader, node: Node, vhost: str, channel: Channel):
    fill(channel, "q", *(f"body {number}" for number in range(60)))
    page = reader.page
    reader.open("queues", vhost, "q", "messages")
    page.get_by_role("button", name="Browse").click()
    expect(page.locator("article.message")).to_have_count(20)
    for shown in (40, 60):
        page.get_by_role("button", name="Go on").click()
        expect(page.locator("article.message")).to_have_count(shown)
    expect(page.locator("article.message pre").last).to_have_text("body 59")
    assert node.api("GET", f"/api/queues/{quote(vhost)}/q")["messages_ready"] == 60
    method, _, body = channel.basic_get("q")
    assert (body, method.redelivered) == (b"body 0", False)


def test_a_search_finds_and_marks_what_was_looked_for(reader: Reader, vhost: str, channel: Channel):
    fill(channel, "q", *(f"order {number}" for number in range(40)), "a needle, The NEEDLE")
    page = reader.page
    reader.open("queues", vhost, "q", "messages")
    page.locator("#browse").get_by_label("Look for").fill("needle")
    page.keyboard.press("Enter")
    expect(page.locator("article.message")).to_have_count(1)
    expect(page.locator("mark")).to_have_text(["needle", "NEEDLE"])
    expect(page.locator("#browse")).to_contain_text("1 message shown, 41 looked at")


def test_the_biography_of_a_message_tells_its_whole_life(reader: Reader, vhost: str, channel: Channel):
    fill(channel, "q", "the one")
    page = reader.page
    reader.open("queues", vhost, "q", "messages")
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("link", name="Biography").click()
    expect(page.locator("ol.story li")).to_have_count(1)
    expect(page.locator("main")).to_contain_text("ready")
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    page.reload()
    expect(page.locator("ol.story li")).to_have_count(3)
    expect(page.locator("ol.story li").first).to_contain_text("published: a persistent message of 7 bytes entered the queue")
    expect(page.locator("ol.story li").last).to_contain_text("acknowledged: the message has ended")
    expect(page.locator("main .badge").filter(has_text="gone")).to_be_visible()


def test_messages_are_got_and_acknowledged(reader: Reader, node: Node, vhost: str, channel: Channel):
    fill(channel, "q", "one", "two")
    page = reader.page
    reader.open("queues", vhost, "q", "messages")
    page.get_by_text("Get messages (takes them from the queue)").click()
    form = page.locator("details.fold").last.locator("form")
    form.get_by_label("Then").select_option("ack_requeue_false")
    form.get_by_role("button", name="Get messages").click()
    expect(page.locator("details.fold").last.locator("article pre")).to_have_text("one")
    assert node.api("GET", f"/api/queues/{quote(vhost)}/q")["messages"] == 1


def test_figures_are_live(reader: Reader, vhost: str, channel: Channel):
    fill(channel, "q")
    page = reader.page
    reader.open("queues", vhost, "q")
    ready = page.locator("dl.facts dt:text-is('Ready') + dd")
    expect(ready).to_have_text("0 (0 B)")
    fill(channel, "q", "x" * 100, "y" * 100)
    expect(ready).to_have_text("2 (200 B)")
    expect(page.get_by_label("Messages in the queue over time").locator("path.line").first).to_be_visible()
    page.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge it").click()
    expect(ready).to_have_text("0 (0 B)")


def test_a_paused_page_asks_nothing(reader: Reader, vhost: str, channel: Channel):
    fill(channel, "q")
    page = reader.page
    reader.open("queues", vhost, "q")
    page.get_by_label("How often to look again").select_option("paused")
    expect(page.locator(".live-dot.paused")).to_be_visible()
    before = len(reader.requests)
    fill(channel, "q", "unseen")
    page.wait_for_timeout(2500)                 # longer than the rhythm before
    assert len(reader.requests) == before
    page.keyboard.press("r")
    expect(page.locator("dl.facts dt:text-is('Ready') + dd")).to_have_text("1 (6 B)")


def test_a_queue_is_bound_and_unbound(reader: Reader, node: Node, vhost: str, channel: Channel):
    fill(channel, "q")
    page = reader.page
    reader.open("queues", vhost, "q", "bindings")
    page.get_by_label("From exchange").fill("amq.topic")
    page.get_by_label("Routing key").fill("a.#")
    page.get_by_role("button", name="Bind", exact=True).click()
    row = page.locator("tbody tr").filter(has_text="amq.topic")
    expect(row).to_contain_text("a.#")
    row.get_by_role("button", name="Unbind").click()
    page.get_by_role("dialog").get_by_role("button", name="Unbind").click()
    expect(row).to_have_count(0)


def test_a_queue_that_goes_away_is_told(reader: Reader, vhost: str, channel: Channel):
    fill(channel, "q")
    reader.open("queues", vhost, "q")
    channel.queue_delete("q")
    expect(reader.page.locator("main")).to_contain_text("not there")
    assert all("404" in words for words in reader.complaints)
    reader.complaints.clear()
