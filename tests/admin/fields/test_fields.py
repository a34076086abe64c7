"""Every field that RabbitMQ answers is there, with the same type, but for a few that have a reason.

`facts.json` has RabbitMQ's fields, which `record.py` writes; where it is installed it is asked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from admin.rabbitmq import RabbitMQ
from admin.support import Node

from .record import FACTS, shapes
from .scene import played, shape

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
EXCEPTIONS = {
    r"backing_queue_status\.avg_\w+_rate$": "averages of RabbitMQ's paging to disk, which is not done here",
    r"backing_queue_status\.mirror_(seen|senders)$": "of RabbitMQ's multicast; what the ring does is in `ring`",
    r"reductions_details\.(avg|avg_rate|samples.*)$": "reductions are Erlang's, and always zero",
    r"listeners\[\]\.socket_opts$": "an empty table is always an object",
}
"""Fields that are missing or have another type, and why."""


def excused(field: str) -> bool:
    return any(re.search(pattern, field) for pattern in EXCEPTIONS)


@pytest.fixture(scope="module")
def stage(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("stage"), name="stage@localhost")
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="module")
def answers(stage: Node) -> Iterator[dict[str, dict[str, str]]]:
    with played(stage) as found:
        yield {name: shape(answer) for name, answer in found.items()}


WANTED: dict[str, dict[str, str]] = json.loads(FACTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list(WANTED))
def test_every_field_of_rabbitmq_is_there_with_its_type(answers: dict[str, dict[str, str]], name: str):
    found = answers[name]
    missing = [field for field in WANTED[name] if field not in found and not excused(field)]
    assert missing == []
    other = {field: (kind, found[field]) for field, kind in WANTED[name].items()
             if field in found and "null" not in (kind, found[field]) and kind != found[field] and not excused(field)}
    assert other == {}


def test_every_exception_is_needed(answers: dict[str, dict[str, str]]):
    used = {pattern for pattern in EXCEPTIONS for name, fields in WANTED.items() for field, kind in fields.items()
            if re.search(pattern, field) and answers[name].get(field) != kind}
    assert used == set(EXCEPTIONS)


@pytest.mark.chaos
def test_rabbitmq_still_has_these_fields(rabbit: RabbitMQ):
    found = shapes(rabbit)
    for name, fields in WANTED.items():
        kept = {field: kind for field, kind in fields.items() if "idle_since" not in field}
        assert set(kept) <= set(found[name]), name
