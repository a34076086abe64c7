"""Admin through the page: policies that take effect, users, virtual hosts, limits; and who may see what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from playwright.sync_api import expect

from admin.support import Node, quote
from compat.support import unique

from .conftest import Window
from .support import Reader

Channel = pika.adapters.blocking_connection.BlockingChannel
EVERYWHERE = ["Overview", "Connections", "Channels", "Exchanges", "Queues"]


def test_a_policy_added_with_the_form_takes_effect_is_edited_and_deleted(
        reader: Reader, node: Node, vhost: str, channel: Channel):
    channel.queue_declare("orders.eu", durable=True)
    page, queue = reader.page, f"/api/queues/{quote(vhost)}/orders.eu"
    reader.open("policies")
    form = page.locator("#policies form")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name").fill("short")
    form.get_by_label("Pattern").fill("^orders\\.")
    form.get_by_label("Apply to").select_option("queues")
    form.get_by_role("button", name="max-length=").click()
    form.get_by_label("Definition").press_sequentially("2")
    form.get_by_role("button", name="Add / update policy").click()
    row = page.locator("#policies tbody tr").filter(has_text="short")
    expect(row).to_contain_text("max-length = 2")
    assert node.api("GET", queue)["effective_policy_definition"] == {"max-length": 2}
    for number in range(3):
        channel.basic_publish("", "orders.eu", str(number).encode(), pika.BasicProperties(delivery_mode=2))
    assert node.api("GET", queue)["messages"] == 2
    row.get_by_role("button", name="Edit").click()
    form.get_by_label("Definition").fill("max-length = 9")
    form.get_by_role("button", name="Add / update policy").click()
    expect(row).to_contain_text("max-length = 9")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(row).to_have_count(0)
    assert node.api("GET", queue)["effective_policy_definition"] == {}


def test_a_mirroring_policy_can_be_clicked_together(reader: Reader, node: Node, vhost: str, channel: Channel):
    channel.queue_declare("orders", durable=True)
    page = reader.page
    reader.open("policies")
    form = page.locator("#policies form")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name").fill("ha")
    form.get_by_label("Pattern").fill("^orders")
    for key in ("ha-mode=exactly", "ha-params=2", "ha-sync-mode=automatic"):
        form.get_by_role("button", name=key).click()
    form.get_by_role("button", name="Add / update policy").click()
    expect(page.locator("#policies tbody")).to_contain_text("ha-mode = exactly")
    definition = node.api("GET", f"/api/policies/{quote(vhost)}/ha")["definition"]
    assert definition == {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}
    reader.open("queues", vhost, "orders")
    expect(page.locator(".title .badge").filter(has_text="ha")).to_be_visible()


def test_what_is_wrong_with_a_policy_is_told_beside_the_button(reader: Reader, vhost: str):
    page = reader.page
    reader.open("policies")
    form = page.locator("#policies form")
    form.get_by_label("Virtual host").select_option(vhost)
    form.get_by_label("Name").fill("bad")
    form.get_by_label("Pattern").fill(".*")
    for definition, words in (("", "at least one key"), ("nonsense", "key = value"), ("ha-mode = exactly", "takes an integer")):
        form.get_by_label("Definition").fill(definition)
        form.get_by_role("button", name="Add / update policy").click()
        expect(form.get_by_role("alert")).to_contain_text(words)
    assert all("400" in words for words in reader.complaints)
    reader.complaints.clear()


def test_a_user_is_added_gets_a_permission_and_is_deleted(reader: Reader, node: Node, vhost: str):
    page, name = reader.page, unique("user")
    reader.open("users")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill("secret")
    page.get_by_label("Again", exact=True).fill("secret")
    page.get_by_role("button", name="monitoring").click()
    page.get_by_role("button", name="Add user").click()
    page.get_by_role("link", name=name).click()
    expect(page.locator("h1")).to_have_text(name)
    page.locator("main").get_by_role("combobox", name="Virtual host").first.select_option(vhost)
    page.get_by_label("Read").first.fill("^q")
    page.get_by_role("button", name="Set permission", exact=True).click()
    expect(page.get_by_role("table", name="permissions")).to_contain_text("^q")
    assert node.ask("GET", "/api/nodes", user=name, password="secret").status == 200
    page.get_by_role("button", name="Delete the user").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("h1")).to_have_text("Users")
    assert node.ask("GET", "/api/whoami", user=name, password="secret").status == 401


def test_a_virtual_host_with_a_limit(reader: Reader, node: Node):
    page, name = reader.page, unique("made")
    reader.open("vhosts")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add virtual host").click()
    row = page.locator("tbody tr").filter(has_text=name)
    expect(row).to_contain_text("guest")
    reader.open("limits")
    page.locator("main").get_by_role("combobox", name="Virtual host").select_option(name)
    page.get_by_role("combobox", name="Limit").first.select_option("max-queues")
    page.get_by_label("Value").first.fill("1")
    page.get_by_role("button", name="Set limit").first.click()
    expect(page.get_by_role("table", name="vhost-limits")).to_contain_text(name)
    assert node.ask("PUT", f"/api/queues/{name}/one", {}).status == 201
    assert node.ask("PUT", f"/api/queues/{name}/two", {}).status == 400
    reader.open("vhosts")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(row).to_have_count(0)


@pytest.mark.parametrize(("tag", "more"), [
    ("management", ["Policies", "Limits"]), ("policymaker", ["Policies", "Limits"]),
    ("monitoring", ["Cluster", "Policies", "Limits"]),
    ("administrator", ["Cluster", "Policies", "Limits", "Users", "Virtual hosts"])])
def test_readers_see_what_their_tag_allows_and_the_api_refuses_the_rest(
        window: Window, node: Node, vhost: str, user: Callable[..., str], tag: str, more: list[str]):
    name = user(tag, vhost)
    reader = window()
    reader.log_in(name)
    page = reader.page
    expect(page.locator("nav a")).to_have_text(EVERYWHERE + more)
    reader.open("policies")
    expect(page.locator("#policies form")).to_have_count(1 if tag in ("policymaker", "administrator") else 0)
    expect(page.locator("#operator-policies form")).to_have_count(1 if tag == "administrator" else 0)
    reader.open("limits")
    expect(page.get_by_role("button", name="Set limit")).to_have_count(2 if tag == "administrator" else 0)
    allowed = {"/api/users": "administrator", "/api/rebalance/queues": "administrator",
               "/api/cluster-map": "monitoring administrator"}
    for path, tags in allowed.items():
        assert node.ask("GET", path, user=name).status == (200 if tag in tags.split() else 401), path


def test_where_a_reader_has_no_permissions_nothing_can_be_done(
        window: Window, node: Node, vhost: str, channel: Channel, user: Callable[..., str]):
    channel.queue_declare("q", durable=True)
    name = user("administrator")
    reader = window()
    reader.log_in(name)
    expect(reader.page.locator(".frame")).to_be_visible()
    reader.open("queues", vhost, "q", "messages")
    expect(reader.page.locator("main")).to_contain_text("no permissions in this virtual host")
    reader.open("queues", vhost, "q")
    expect(reader.page.get_by_role("button", name="Purge")).to_have_count(0)
    for path in ("messages", "messages/1"):
        assert node.ask("GET", f"/api/queues/{quote(vhost)}/q/{path}", user=name).status == 401


def test_definitions_are_exported_and_imported(reader: Reader, node: Node, vhost: str, channel: Channel, tmp_path: Path):
    channel.queue_declare("kept", durable=True)
    page = reader.page
    reader.open()
    page.get_by_text("Definitions", exact=True).click()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Export").click()
    saving.value.save_as(tmp_path / "definitions.json")
    channel.queue_delete("kept")
    page.get_by_label("Definitions to import").set_input_files(tmp_path / "definitions.json")
    page.get_by_role("dialog").get_by_role("button", name="Import").click()
    expect(page.locator("#toasts")).to_contain_text("imported")
    assert node.ask("GET", f"/api/queues/{quote(vhost)}/kept").status == 200
    (tmp_path / "bad.json").write_text("no")
    page.get_by_label("Definitions to import").set_input_files(tmp_path / "bad.json")
    page.get_by_role("dialog").get_by_role("button", name="Import").click()
    expect(page.locator("#toasts")).to_contain_text("bad.json is not JSON")


def test_on_a_phone_the_menu_opens_and_leads_on(window: Window):
    reader = window(width=360, height=740)
    reader.log_in()
    page = reader.page
    expect(page.locator(".frame")).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Exchanges").click()
    expect(page.locator("h1")).to_have_text("Exchanges")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()
