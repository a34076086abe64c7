"""Whoever RabbitMQ refuses something is refused it here, with the same reason, and nobody else is.

`facts.json` has RabbitMQ's answers, which `record.py` writes; where it is installed it is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from admin.rabbitmq import RabbitMQ
from admin.support import Node
from mirrormq.admin.routes import ROUTES

from .matrix import TAGS, Matrix, Request
from .record import FACTS, LATER, OURS, is_of_the_page, shared

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
NOT_MONITOR, NOT_ADMINISTRATOR = "Not monitor user", "Not administrator user"
OWN_RULES = {
    "/api/nodes/{node}/stop-forecast": NOT_MONITOR,
    "/api/cluster": NOT_MONITOR, "/api/environment": NOT_ADMINISTRATOR, "/metrics": NOT_MONITOR,
    "/metrics/per-object": NOT_MONITOR, "/metrics/detailed": NOT_MONITOR, "/api/deprecated-features": NOT_ADMINISTRATOR,
    "/api/rebalance/queues": NOT_ADMINISTRATOR,
    "/api/deprecated-features/used": NOT_ADMINISTRATOR, "/api/connections/username/{user}": NOT_ADMINISTRATOR,
}  # fmt: skip
"""Routes that RabbitMQ 3.10 does not have: what those are told who may not use them."""
OPEN = ("/", "/api", "/api/index.html", "/api/auth", "/api/openapi.json")


@pytest.fixture(scope="module")
def asked(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("rights"), name="rights@localhost")
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="module")
def cells(asked: Node) -> dict[str, str]:
    matrix = Matrix(asked, asked.name)
    found = matrix.ask(shared())
    assert matrix.broken == []
    return found


def test_every_route_is_asked(cells: dict[str, str]):
    named = {" ".join(cell.split(" ")[:2]) for cell in cells}
    for method, path, *_ in ROUTES:
        if is_of_the_page(path):
            continue
        assert f"{method} {path}" in named or path in OURS or (method, path) in LATER, path
        assert f"{method} {path}" in named or path in OWN_RULES or path in OPEN, f"{path} has no rule"


def test_every_cell_is_rabbitmqs(cells: dict[str, str]):
    wanted = json.loads(FACTS.read_text(encoding="utf-8"))
    assert {name: reason for name, reason in cells.items() if wanted[name] != reason} == {}
    assert set(cells) == set(wanted)


@pytest.mark.parametrize("path", sorted(OWN_RULES))
def test_routes_of_our_own_have_a_rule_too(asked: Node, cells: dict[str, str], path: str):
    method = "DELETE" if path == "/api/connections/username/{user}" else "GET"
    found = Matrix(asked, asked.name).ask([Request(method, path)])
    for tag in TAGS:
        reason = found[f"{method} {path} mine {tag or 'none'}"]
        if tag == "":
            assert reason == "Not management user"
        elif tag == "administrator" or (tag == "monitoring" and OWN_RULES[path] == NOT_MONITOR):
            assert reason == ""
        else:
            assert reason == OWN_RULES[path]


@pytest.mark.chaos
def test_rabbitmq_still_refuses_so(rabbit: RabbitMQ):
    assert Matrix(rabbit, rabbit.name).ask(shared()) == json.loads(FACTS.read_text(encoding="utf-8"))
