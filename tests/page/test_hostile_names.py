"""Names and messages of strangers are shown as they are, and do nothing."""

from __future__ import annotations

import pika
from playwright.sync_api import expect

from admin.support import Node, quote
from compat.support import unique

from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
EVIL = "<img src=x onerror=alert(1)>"
NAMES = (EVIL, '"><script>alert(2)</script>', "'onmouseover='alert(3)", "javascript:alert(4)", "{{7*7}}${8*8}", "\u202egnp.exe",
         "../../x", "a%2Fb?c#d")


def injected(reader: Reader) -> int:
    what = "main img, main script, main iframe, [onerror], [onmouseover], a[href^='javascript:' i]"
    return reader.page.locator(what).count()


def test_a_queue_by_any_name_is_shown_opened_and_browsed(reader: Reader, vhost: str, channel: Channel):
    for name in NAMES:
        channel.queue_declare(name, durable=True)
        properties = pika.BasicProperties(delivery_mode=2, headers={EVIL: name}, message_id=EVIL)
        channel.basic_publish("", name, f"{EVIL}{name}".encode(), properties)
    reader.open("queues")
    reader.page.get_by_label("Virtual host", exact=True).select_option(vhost)
    for name in NAMES:
        look_through(reader, name)


def look_through(reader: Reader, name: str) -> None:
    page = reader.page
    reader.open("queues")
    page.locator("tbody a").get_by_text(name, exact=True).click()
    expect(page.locator("h1")).to_have_text(name)
    page.get_by_role("link", name="Messages").click()
    page.locator("#browse").get_by_label("Look for").fill(EVIL)
    page.get_by_role("button", name="Browse").click()
    expect(page.locator("article.message pre")).to_have_text(f"{EVIL}{name}")
    page.get_by_role("link", name="Biography").click()
    expect(page.locator("ol.story")).to_contain_text("entered the queue")
    assert injected(reader) == 0, name


def test_everything_else_may_have_an_evil_name_too(reader: Reader, node: Node, channel: Channel, vhost: str):
    evil = f"{EVIL}{unique()}"
    node.add_vhost(evil)
    node.add_user(evil, "p", "management")
    node.set_policy(vhost, evil, EVIL, {"max-length": 5, "dead-letter-exchange": EVIL})
    channel.exchange_declare(EVIL, "topic", arguments={"alternate-exchange": EVIL})
    channel.queue_declare(EVIL)
    channel.queue_bind(EVIL, EVIL, EVIL, {EVIL: EVIL})
    channel.basic_consume(EVIL, lambda *_: None, consumer_tag=EVIL)
    try:
        for view in (("exchanges",), ("exchanges", vhost, EVIL), ("queues", vhost, EVIL, "bindings"), ("policies",), ("users",),
                     ("queues", vhost, EVIL, "consumers"), ("users", evil), ("vhosts",), ("limits",), ("cluster",),
                     ("queues", vhost, EVIL, "ring")):
            reader.open(*view)
            assert injected(reader) == 0, view
            if view != ("cluster",):
                expect(reader.page.locator("#app")).to_contain_text("onerror=alert(1)")
    finally:
        node.ask("DELETE", f"/api/vhosts/{quote(evil)}")
        node.delete_user(evil)


def test_a_refusal_that_repeats_an_evil_name_is_text(reader: Reader, vhost: str):
    page = reader.page
    reader.open("queues")
    page.get_by_text("Add a queue").click()
    form = page.locator("details.fold form")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name").fill(EVIL)
    form.get_by_label("Arguments").fill(f"x-overflow = {EVIL}")
    form.get_by_role("button", name="Add queue").click()
    expect(form.get_by_role("alert")).to_contain_text("onerror")
    assert injected(reader) == 0
    assert all("400" in words for words in reader.complaints)
    reader.complaints.clear()
