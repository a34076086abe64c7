"""Paths and their handlers."""

from __future__ import annotations

from mirrormq.admin.router import Router, parts_of
from mirrormq.admin.routes import ROUTES


def place(path: str) -> dict[str, str] | None:
    found = Router(ROUTES).find(path)
    return None if found is None else found.args


def test_an_escaped_slash_belongs_to_a_name():
    assert place("/api/queues/%2F/a%2Fb") == {"vhost": "/", "name": "a/b"}


def test_a_trailing_slash_and_a_query_change_nothing():
    assert place("/api/queues/%2F/") == place("/api/queues/%2F?columns=name") == {"vhost": "/"}


def test_a_literal_part_wins_over_a_name():
    assert place("/api/users/without-permissions") == {}
    assert place("/api/connections/username/guest") == {"user": "guest"}
    assert place("/api/connections/username/channels") == {"user": "channels"}


def test_a_choice_takes_only_its_words():
    assert place("/api/bindings/v/e/x/q/y") == {"vhost": "v", "source": "x", "kind": "q", "destination": "y"}
    assert place("/api/bindings/v/e/x/z/y") is None


def test_an_unknown_path_leads_nowhere():
    assert place("/api/nope") is None
    assert place("/api/queues/a/b/c/d") is None


def test_a_name_that_is_not_utf_8_can_be_reached():
    assert parts_of("/api/%FF") == ["api", "\udcff"]


def test_a_prefix_is_taken_off():
    router = Router(ROUTES, "/mq")
    assert router.find("/api/overview") is None
    assert router.find("/mq/api/overview") is not None


def test_what_is_allowed_is_listed_in_order():
    found = Router(ROUTES).find("/api/queues/v/q")
    assert found is not None
    assert found.allowed == "HEAD, GET, PUT, DELETE, OPTIONS"
