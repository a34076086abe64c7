"""Schemathesis reads the OpenAPI document and asks the node whatever it allows, and what it does not allow: never a 500.

Few requests for each operation here; MIRRORMQ_SCHEMA_EXAMPLES says how many (`make long` asks more).
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from compat.support import PATIENCE
from mirrormq.admin.openapi import document

from .support import Node

if TYPE_CHECKING:
    from schemathesis import APIOperation, Case

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(1800)]
EXAMPLES = int(os.environ.get("MIRRORMQ_SCHEMA_EXAMPLES", "2"))
KNOWN: dict[str, list[str]] = {
    "vhost": ["/", "nope"], "name": ["q", "x", "amq.topic"], "user": ["other"], "node": ["schema@localhost"],
    "source": ["amq.topic", "x"], "destination": ["q", "x"], "component": ["policy", "lake-mirror"], "index": ["1"],
    "properties": ["~", "key"],
}  # fmt: skip
"""Words that lead somewhere: a random name is hardly ever that of a queue."""


def grounded() -> dict[str, Any]:
    """The document, with these words among what a part of a path may be."""
    found: dict[str, Any] = copy.deepcopy(document())
    for methods in found["paths"].values():
        for operation in methods.values():
            for item in operation["parameters"]:
                if item["in"] == "path" and item["name"] in KNOWN:
                    known = {"type": "string", "enum": KNOWN[item["name"]]}
                    item["schema"] = known if item["name"] in ("vhost", "user") else {"anyOf": [known, item["schema"]]}
    return found


@pytest.fixture(scope="module")
def asked(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node of its own: strange things are declared in it."""
    node = Node(tmp_path_factory.mktemp("schema"), name="schema@localhost")
    node.start()
    yield node
    node.stop()


def prepare(node: Node) -> None:
    node.add_vhost("/")
    node.add_user("other", "other", "management")
    node.ask("PUT", "/api/queues/%2F/q", {})
    node.ask("PUT", "/api/exchanges/%2F/x", {"type": "topic"})


def wishes(operation: APIOperation[Any, Any, Any]) -> SearchStrategy[Case]:
    """Requests that the document allows, and others."""
    from schemathesis import GenerationMode

    right, wrong = (operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE))
    return right | wrong if operation.body or list(operation.iter_parameters()) else right


def test_no_request_of_the_document_is_answered_with_a_fault(asked: Node):
    import requests
    import schemathesis  # here, because every run that collects tests would pay for it

    faults: dict[str, str] = {}
    prepare(asked)
    with requests.Session() as session:
        session.auth = ("guest", "guest")
        for found in schemathesis.openapi.from_dict(grounded()).get_all_operations():
            operation = found.ok()

            @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None,
                      derandomize="MIRRORMQ_SCHEMA_EXAMPLES" not in os.environ, phases=[Phase.explicit, Phase.generate])
            @given(wishes(operation))
            def ask(case: Case) -> None:
                answer = case.call(base_url=asked.url, session=session, timeout=PATIENCE)
                if answer.status_code >= 500 and answer.status_code != 503:
                    faults[f"{case.method} {case.formatted_path}"] = f"{case.query} {case.body} {answer.text}"

            ask()
            if operation.method.upper() != "GET":
                prepare(asked)
    assert faults == {}
