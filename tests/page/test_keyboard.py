"""Everything can be reached without a mouse."""

from __future__ import annotations

import pika
import pytest
from playwright.sync_api import expect

from admin.support import Node, quote

from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
WAYS = (("o", "Overview"), ("c", "Connections"), ("h", "Channels"), ("e", "Exchanges"), ("q", "Queues"), ("n", "Cluster"),
        ("p", "Policies"), ("l", "Limits"), ("u", "Users"), ("v", "Virtual hosts"))


@pytest.mark.parametrize(("key", "title"), WAYS)
def test_two_keys_lead_to_each_view(reader: Reader, key: str, title: str):
    expect(reader.page.locator("h1")).to_have_text("Overview")
    reader.page.keyboard.type(f"g{key}")        # without a pause in which the first would be forgotten
    expect(reader.page.locator("h1")).to_have_text(title)
    expect(reader.page.locator("nav [aria-current=page]")).to_have_text(title)


def test_the_first_stop_of_the_tab_key_skips_to_the_content(reader: Reader):
    page = reader.page
    expect(page.locator("h1")).to_have_text("Overview")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_slash_goes_to_the_filter_and_what_is_typed_there_is_no_command(reader: Reader):
    page = reader.page
    reader.open("queues")
    page.keyboard.press("/")
    expect(page.get_by_label("filter queues")).to_be_focused()
    page.keyboard.type("gp?/")
    expect(page.get_by_label("filter queues")).to_have_value("gp?/")
    expect(page.locator("h1")).to_have_text("Queues")


def test_a_question_mark_shows_the_keys_and_escape_closes_them(reader: Reader):
    page = reader.page
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_list_is_sorted_by_pressing_enter_on_a_head(reader: Reader, vhost: str, channel: Channel):
    for name in ("a", "b", "c"):
        channel.queue_declare(name)
    page = reader.page
    reader.open("queues")
    page.get_by_label("Virtual host", exact=True).select_option(vhost)
    head = page.get_by_role("columnheader", name="Name").get_by_role("button")
    head.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr td:first-child")).to_have_text(["c", "b", "a"])
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")


def test_a_question_before_deleting_can_be_left_with_escape(reader: Reader, node: Node, vhost: str, channel: Channel):
    channel.queue_declare("kept")
    page = reader.page
    reader.open("queues", vhost, "kept")
    remove = page.get_by_role("button", name="Delete", exact=True)
    remove.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Delete kept?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/kept").status == 200
    expect(remove).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Queues")
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/kept").status == 404


def test_everything_that_can_be_operated_has_a_name(reader: Reader, vhost: str, channel: Channel):
    channel.queue_declare("q", durable=True)
    for view in ((), ("queues",), ("policies",), ("users", "guest"), ("queues", vhost, "q"), ("queues", vhost, "q", "messages"),
                 ("cluster",)):
        reader.open(*view)
        nameless = reader.page.evaluate("""[...document.querySelectorAll("button, a, input, select, textarea")].filter(
            (one) => !(one.textContent.trim() || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
                       || one.labels?.length))
            .map((one) => one.outerHTML)""")
        assert nameless == [], view
