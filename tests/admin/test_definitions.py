"""Definitions that RabbitMQ 3.10.8 exported, as they are: everything comes in, and passwords still open.

`rabbitmq-definitions.json` and `rabbitmq-vhost-definitions.json` are such exports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .support import Node

pytestmark = pytest.mark.live
WHOLE = Path(__file__).with_name("rabbitmq-definitions.json")
ONE_VHOST = Path(__file__).with_name("rabbitmq-vhost-definitions.json")
PASSWORDS = {"anna": "anna-secret", "long": "long-secret"}


@pytest.fixture(scope="module")
def moved(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that has imported the whole."""
    node = Node(tmp_path_factory.mktemp("moved"), name="moved@localhost")
    node.start()
    assert node.ask("POST", "/api/definitions", raw=WHOLE.read_bytes()).status == 204
    yield node
    node.stop()


def wanted() -> Any:
    return json.loads(WHOLE.read_text())


@pytest.mark.parametrize("user", sorted(PASSWORDS))
def test_passwords_of_rabbitmq_still_open(moved: Node, user: str):
    assert moved.ask("GET", "/api/whoami", user=user, password=PASSWORDS[user]).body["name"] == user
    assert moved.ask("GET", "/api/whoami", user=user, password="wrong").status == 401


def test_a_user_without_a_password_stays_without(moved: Node):
    assert moved.ask("GET", "/api/whoami", user="nopass", password="x").status == 401
    assert moved.api("GET", "/api/users/nopass")["password_hash"] == ""


@pytest.mark.parametrize("section", ["users", "permissions", "topic_permissions", "policies", "queues", "exchanges", "bindings"])
def test_what_comes_out_is_what_went_in(moved: Node, section: str):
    def rows(document: Any) -> set[str]:
        return {json.dumps(row, sort_keys=True) for row in document[section]}

    assert rows(wanted()) <= rows(moved.api("GET", "/api/definitions"))


def test_limits_and_parameters_hold(moved: Node):
    assert moved.api("GET", "/api/vhost-limits/sales")[0]["value"] == {"max-queues": 77}
    assert moved.api("GET", "/api/user-limits/anna")[0]["value"] == {"max-connections": 7}
    assert moved.api("GET", "/api/global-parameters/note")["value"] == {"a": [1, 2]}
    queue = moved.api("GET", "/api/queues/sales/ha-all")
    assert (queue["policy"], queue["operator_policy"]) == ("ha", "cap")
    assert queue["effective_policy_definition"] == {
        "ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "max-length": 100_000}


def test_the_command_line_imports_it_too(moved: Node):
    assert moved.ctl("import_definitions", str(WHOLE)).code == 0


def test_definitions_of_one_virtual_host_go_into_another(moved: Node):
    moved.add_vhost("copy")
    assert moved.ask("POST", "/api/definitions/copy", raw=ONE_VHOST.read_bytes()).status == 204
    assert {row["name"] for row in moved.api("GET", "/api/queues/copy")} == {"orders", "ha-all"}
    assert moved.api("GET", "/api/queues/copy/ha-all")["policy"] == "ha"
    assert [row["name"] for row in moved.api("GET", "/api/policies/copy")] == ["ha"]
