"""Logging in and out with a browser, and what the session is good for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from admin.support import Node, quote
from mirrormq.admin.attempts import FREE

from .conftest import Window
from .support import Reader

PAGE = {"X-MirrorMQ-Page": "1"}


def session(node: Node, user: str = "guest", password: str | None = None) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers of a logged-in browser, and what the node said."""
    reply = node.ask("POST", "/api/session", {"username": user, "password": password or user}, user=None, headers=PAGE)
    assert reply.status == 200, reply
    return {"Cookie": reply.headers["set-cookie"].partition(";")[0]}, reply.body


def test_a_reader_logs_in_stays_in_after_a_reload_and_logs_out(window: Window, node: Node):
    reader = window()
    reader.log_in()
    page = reader.page
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.reload()
    expect(page.locator(".frame")).to_be_visible()
    [cookie] = reader.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    assert reader.context.cookies() == []
    old = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    assert node.ask("GET", "/api/overview", user=None, headers=old).status == 401


def test_a_wrong_password_is_told_and_opens_nothing(window: Window):
    reader = window()
    with reader.page.expect_console_message():
        reader.log_in("guest", "wrong")
    expect(reader.page.get_by_role("alert")).to_contain_text("wrong")
    assert reader.context.cookies() == []
    assert len(reader.complaints) == 1      # the browser's own line about the status 401
    reader.complaints.clear()


def test_an_expired_session_leads_back_to_the_login(reader: Reader):
    reader.context.clear_cookies()
    expect(reader.page.get_by_label("Password")).to_be_visible()
    assert all("401" in words for words in reader.complaints)
    reader.complaints.clear()


def test_a_user_without_a_tag_does_not_get_in(node: Node, user: Callable[..., str]):
    name = user("")
    reply = node.ask("POST", "/api/session", {"username": name, "password": name}, user=None, headers=PAGE)
    assert (reply.status, reply.body["reason"]) == (401, "Not management user")


def test_the_cookie_alone_reads_and_does_not_change_anything(node: Node, vhost: str):
    cookie, told = session(node)
    path = f"/api/queues/{quote(vhost)}/q"
    assert node.ask("GET", "/api/overview", user=None, headers=cookie).status == 200
    assert node.ask("PUT", path, {}, user=None, headers=cookie).status == 401
    assert node.ask("PUT", path, {}, user=None, headers=cookie | {"X-MirrorMQ-Token": "guessed"}).status == 401
    assert node.ask("PUT", path, {}, user=None, headers=cookie | {"X-MirrorMQ-Token": told["token"]}).status == 201


def test_other_sites_cannot_use_the_cookie(node: Node):
    cookie, told = session(node)
    for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}):
        headers = cookie | {"X-MirrorMQ-Token": told["token"]} | foreign
        assert node.ask("GET", "/api/overview", user=None, headers=headers).status == 401
        assert node.ask("GET", "/api/session", user=None, headers=headers).body == {"name": None}
        reply = node.ask("POST", "/api/session", {"username": "guest", "password": "guest"}, user=None, headers=PAGE | foreign)
        assert reply.status == 401
    body = {"username": "guest", "password": "guest"}
    assert node.ask("POST", "/api/session", body, user=None).status == 401       # as a form of another site would send it


def test_a_session_ends_with_its_user_and_with_the_password(node: Node, user: Callable[..., str]):
    name = user("management")
    cookie, _ = session(node, name)
    assert node.ask("GET", "/api/overview", user=None, headers=cookie).status == 200
    node.add_user(name, "another", "management")
    assert node.ask("GET", "/api/overview", user=None, headers=cookie).status == 401
    cookie, _ = session(node, name, "another")
    node.delete_user(name)
    assert node.ask("GET", "/api/overview", user=None, headers=cookie).status == 401


def test_tags_hold_at_once(node: Node, user: Callable[..., str]):
    name = user("administrator")
    cookie, _ = session(node, name)
    assert node.ask("GET", "/api/users", user=None, headers=cookie).status == 200
    node.add_user(name, name, "management")
    assert node.ask("GET", "/api/users", user=None, headers=cookie).status == 401


def test_who_guesses_passwords_is_counted_and_who_knows_them_gets_in(node: Node, user: Callable[..., str]):
    name = user("management")
    wrong = {"username": name, "password": "no"}
    replies = [node.ask("POST", "/api/session", wrong, user=None, headers=PAGE) for _ in range(FREE["user"] + 2)]
    assert [reply.status for reply in replies] == [401] * len(replies)
    assert session(node, name)[1]["name"] == name


@pytest.mark.parametrize("value", ["", ".", "x", "x.y", "é.é", "W10=.00", "a" * 4000])
def test_a_cookie_that_the_cluster_has_not_signed_is_none(node: Node, value: str):
    cookie, _ = session(node)
    name = cookie["Cookie"].partition("=")[0]
    sent = {"Cookie": f"{name}={value}".encode().decode("latin-1")}
    assert node.ask("GET", "/api/session", user=None, headers=sent).body == {"name": None}


def test_a_stranger_may_not_send_a_large_body(node: Node):
    large = json.dumps({"username": "x" * 100_000, "password": "y"}).encode()
    assert node.ask("POST", "/api/session", user=None, headers=PAGE, raw=large).status == 413


def test_the_browsers_own_window_for_passwords_stays_away(node: Node):
    assert "www-authenticate" in node.ask("GET", "/api/overview", user=None).headers
    assert "www-authenticate" not in node.ask("GET", "/api/overview", user=None, headers=PAGE).headers
