"""Every view opens, says nothing in the console, and fits on a phone; the page comes from this node alone."""

from __future__ import annotations

import re

import pika
import pytest
from playwright.sync_api import expect

from admin.support import Node, quote

from .conftest import Window
from .support import Reader

VIEWS: tuple[tuple[str, ...], ...] = (
    (), ("connections",), ("channels",), ("exchanges",), ("queues",), ("cluster",), ("policies",), ("limits",), ("users",),
    ("vhosts",), ("users", "guest"), ("exchanges", "/", "amq.topic"), ("exchanges", "/", "amq.default"),
)  # fmt: skip
PARTS = ((), ("ring",), ("messages",), ("bindings",), ("consumers",))
Channel = pika.adapters.blocking_connection.BlockingChannel


@pytest.mark.parametrize("width", [1280, 360])
def test_every_view_opens_without_a_complaint_and_without_sideways_scrolling(
        window: Window, node: Node, vhost: str, channel: Channel, width: int):
    name = "a.queue.with-a-rather-long-name." + "x" * 60
    channel.queue_declare(name, durable=True)
    for number in range(3):
        channel.basic_publish("", name, b"word " * 100 * number, pika.BasicProperties(delivery_mode=2, headers={"key": "v" * 90}))
    channel.basic_consume(name, lambda *_: None)
    reader = window(width=width, height=740)
    reader.log_in()
    expect(reader.page.locator(".frame")).to_be_visible()
    [connection] = node.api("GET", f"/api/vhosts/{quote(vhost)}/connections")
    views = [*VIEWS, ("connections", connection["name"]), ("channels", f"{connection['name']} (1)")]
    views += [("queues", vhost, name, *part) for part in PARTS] + [("queues", vhost, name, "messages", "1")]
    for view in views:
        reader.open(*view)
        assert reader.overflow() <= 0, view
    assert all(request.url.startswith((node.url, "data:")) for request in reader.requests)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_or_dark_as_the_system_is_until_the_reader_chooses(window: Window, scheme: str):
    reader = window(color_scheme=scheme)
    reader.log_in()
    root = reader.page.locator("html")
    expect(reader.page.locator(".frame")).to_be_visible()
    assert root.get_attribute("data-theme") == scheme
    reader.page.get_by_role("button", name="Light or dark").click()
    other = "dark" if scheme == "light" else "light"
    assert root.get_attribute("data-theme") == other
    reader.page.reload()
    expect(reader.page.locator(".frame")).to_be_visible()
    assert root.get_attribute("data-theme") == other


def test_the_page_is_small(reader: Reader, node: Node):
    """The figures of docs/web-page.md: requests and bytes until the overview is there."""
    expect(reader.page.locator(".frame[data-shown]")).to_be_visible()
    files = [request for request in reader.requests if "/api/" not in request.url]
    weight = sum(request.sizes()["responseBodySize"] for request in files)
    print(f"{len(files)} files of {weight} bytes, {len(reader.requests) - len(files)} requests to the API")
    assert len(files) <= 20
    assert weight < 40_000


def test_files_are_asked_for_again_and_not_sent_again(node: Node):
    first = node.ask("GET", "/static/app.js", user=None)
    again = node.ask("GET", "/static/app.js", user=None, headers={"If-None-Match": first.headers["etag"]})
    assert (first.status, again.status, again.body) == (200, 304, None)


@pytest.mark.parametrize("path", [
    "/static/../app.py", "/static/%2e%2e/app.py", "/static/index.html", "/static/views", "/static/none.js"])
def test_nothing_but_the_pages_files_is_served(node: Node, path: str):
    assert node.ask("GET", path, user=None).status == 404


def test_scripts_and_styles_from_elsewhere_are_forbidden(node: Node, reader: Reader):
    for path in ("/", "/static/app.js", "/api/index.html"):
        headers = node.ask("GET", path, user=None).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert "unsafe" not in node.ask("GET", "/api/overview").headers["content-security-policy"]
    with reader.page.expect_console_message():
        ran = reader.page.evaluate("""() => {
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.body.append(script);
            return window.injected === true;
        }""")
    assert ran is False
    assert re.search("Content Security Policy", reader.complaints.pop(), re.IGNORECASE)


def test_a_name_of_a_view_that_does_not_exist_is_told(reader: Reader):
    for address in ("#/nonsense", "#/%E0%A4%A"):
        reader.page.goto(f"{reader.node.url}/{address}")
        expect(reader.page.locator("main")).to_contain_text(re.compile("no such page|Overview"))


def test_a_thousand_queues_come_in_pages_and_are_filtered_by_the_node(reader: Reader, vhost: str, channel: Channel):
    for number in range(1000):
        channel.queue_declare(f"many.{number:04}")
    page = reader.page
    reader.open("queues")
    page.get_by_label("Virtual host", exact=True).select_option(vhost)
    expect(page.locator(".pager")).to_contain_text("page 1 of 10")
    expect(page.locator("tbody tr")).to_have_count(100)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr").first).to_contain_text("many.0100")
    page.get_by_label("filter queues").fill("many.099")
    expect(page.locator("tbody tr")).to_have_count(10)
    expect(page.locator(".tools")).to_contain_text("10 of 1,000")
