"""The OpenAPI document says what the routes say, and no request that it allows breaks the node."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrormq.admin.openapi import TAGS, document
from mirrormq.admin.openapi_bodies import BODIES, NO_BODY
from mirrormq.admin.routes import ROUTES

from .support import Node, quote

DOCUMENT = document()
NEVER = ("/api/reset", "/api/users/{user}", "/api/vhosts/{vhost}", "/api/cluster-name", "/api/definitions",
         "/api/definitions/{vhost}", "/api/users/bulk-delete", "/api/permissions/{vhost}/{user}")
"""Not for random requests: they would take the ground from under the test."""


def plain(path: str) -> str:
    return re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)


def test_every_route_is_in_the_document_and_nothing_else():
    routes = {(plain(path), method.lower()) for method, path, *_ in ROUTES}
    assert {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods} == routes


def test_every_operation_is_complete():
    identifiers = []
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            identifiers.append(operation["operationId"])
            named = {item["name"] for item in operation["parameters"] if item["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path)), path
            assert operation["summary"]
            assert operation["responses"], (path, method)
    assert len(identifiers) == len(set(identifiers))


def test_every_body_belongs_to_a_route_and_every_put_has_one():
    routes = {f"{method} {path}" for method, path, *_ in ROUTES}
    assert set(BODIES) | set(NO_BODY) <= routes
    changing = {route for route in routes if route.startswith(("PUT ", "POST "))}
    assert changing == set(BODIES) | set(NO_BODY)


def test_every_kind_of_access_has_words():
    assert {access.__name__ for _, _, access, _ in ROUTES} <= set(TAGS)


@pytest.mark.live
def test_the_node_serves_it(node: Node):
    reply = node.ask("GET", "/api/openapi.json", user=None)
    assert (reply.status, reply.body) == (200, json.loads(json.dumps(DOCUMENT)))


# --- random requests ---------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["q", "x", "amq.topic", "amq.default", "nope", "%", "é", "a/b", "x" * 300, "\n", "\x00", "~", ".."])
NUMBERS = st.sampled_from(["0", "1", "-1", "500", "501", "x", "9" * 30])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats(-1e9, 1e9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6)


def body_of(operation: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly the right keys, with values right and wrong."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"] if "requestBody" in operation else None
    if schema is None:
        return st.none()
    fields = {name: st.sampled_from(kind["enum"]) | VALUES if "enum" in kind else VALUES | _right(kind)
              for name, kind in schema["properties"].items()}
    needed = schema.get("required", [])
    return st.fixed_dictionaries({name: fields[name] for name in needed},
                                 optional={name: field for name, field in fields.items() if name not in needed}) | VALUES


def _right(kind: dict[str, Any]) -> st.SearchStrategy[Any]:
    known = {"string": st.text(max_size=20), "integer": st.integers(0, 10), "boolean": st.booleans(),
             "object": st.dictionaries(st.text(max_size=5), st.integers(0, 5), max_size=2)}
    name = kind.get("type")
    return known.get(name, VALUES) if isinstance(name, str) else VALUES


OPERATIONS = sorted((path, method) for path, methods in DOCUMENT["paths"].items() for method in methods
                    if path not in NEVER or method == "get")


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Any]:
    path, method = draw(st.sampled_from(OPERATIONS))
    operation = DOCUMENT["paths"][path][method]
    address, query = path, []
    for item in operation["parameters"]:
        if item["in"] == "path":
            value = draw(st.sampled_from(item["schema"]["enum"]) if "enum" in item["schema"] else NAMES)
            if item["name"] == "vhost":
                value = draw(st.sampled_from(["VHOST", "VHOST", "nope"]))
            address = address.replace("{" + item["name"] + "}", quote(value))
        elif draw(st.integers(0, 3)) == 0:
            words = NAMES | st.sampled_from(["true", "name", "messages"])
            value = draw(NUMBERS if item["schema"]["type"] == "integer" else words)
            query.append(f"{item['name']}={quote(value)}")
    return method.upper(), address + ("?" + "&".join(query) if query else ""), draw(body_of(operation))


@pytest.mark.live
def test_no_request_breaks_the_node(node: Node, vhost: str):
    """Whatever is asked, the answer is never a fault of the node's own."""
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    node.api("PUT", f"/api/exchanges/{vhost}/x", {"type": "topic"})

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(requests())
    def search(request: tuple[str, str, Any]) -> None:
        method, address, body = request
        reply = node.ask(method, address.replace("VHOST", vhost), body)
        assert reply.status < 500 or reply.status == 503, reply.body

    search()
