"""Every command of the list answers as RabbitMQ's did, but for differences that have a reason.

The answers of RabbitMQ 3.10.8 are in `facts.json`; `record.py` writes it. Where RabbitMQ is installed it is asked again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin.rabbitmq import ROOT, RabbitMQ, require_rabbitmq
from admin.support import Node

from .differences import DIFFERENCES, NOT_HERE
from .normal import Answer, normal
from .record import FACTS, record, shape
from .scenario import SHAPES, STEPS, Step, prepare

pytestmark = pytest.mark.live
LEAST = 60


@pytest.fixture(scope="module")
def told() -> dict[int, Answer]:
    """By the number of the step: some are given twice."""
    return {at: Answer(code, out, err) for at, (_, code, out, err) in enumerate(json.loads(FACTS.read_text(encoding="utf-8")))}


@pytest.fixture(scope="module")
def ours(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node of its own: the commands change much."""
    node = Node(tmp_path_factory.mktemp("commands"), name="compared@localhost")
    node.start()
    prepare(node)
    yield node
    node.stop()


def give(node: Node, step: Step) -> Answer:
    words = [word.replace("{port}", str(node.port)) for word in step.words]
    done = node.ctl(*words, stdin=step.stdin)
    return normal(step, node.name, node.port, Answer(*done))


@pytest.mark.parametrize(("at", "step"), list(enumerate(STEPS)), ids=[f"{at}: {step.title}" for at, step in enumerate(STEPS)])
def test_the_answer_is_rabbitmqs(ours: Node, told: dict[int, Answer], at: int, step: Step):
    answer = give(ours, step)
    if step.title in NOT_HERE:
        assert answer.code == 64
    elif step.title in DIFFERENCES:
        difference = DIFFERENCES[step.title]
        assert answer != told[at], "there is no difference any more"
        assert answer.code == (told[at].code if difference.code is None else difference.code)
    else:
        assert answer == told[at]


@pytest.mark.parametrize(("at", "step"), list(enumerate(SHAPES)), ids=[step.title for step in SHAPES])
def test_what_is_about_the_node_itself_begins_and_ends_alike(ours: Node, told: dict[int, Answer], at: int, step: Step):
    answer = give(ours, step)
    if step.title in NOT_HERE:
        assert answer.code == 64
        return
    wanted = told[len(STEPS) + at]
    assert answer.code == wanted.code or step.title in DIFFERENCES
    if step.title not in DIFFERENCES:
        assert shape(answer.out) == wanted.out


def test_the_list_is_long_enough_and_every_difference_is_explained():
    titles = [step.title for step in (*STEPS, *SHAPES)]
    assert len({step.words[0] for step in STEPS}) >= LEAST
    assert set(DIFFERENCES) | set(NOT_HERE) <= set(titles)
    page = (ROOT / "docs" / "mirrormqctl.md").read_text(encoding="utf-8")
    for title, reason in [*((title, difference.reason) for title, difference in DIFFERENCES.items()), *NOT_HERE.items()]:
        assert reason in page, title


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_rabbitmq_still_answers_so(tmp_path: Path):
    """Asked again, where it is installed. Its tools are slow, so this takes minutes."""
    require_rabbitmq()
    rabbit = RabbitMQ(tmp_path)
    rabbit.start()
    try:
        found = record(rabbit)
    finally:
        rabbit.stop()
    version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "rabbitmq-server"], capture_output=True, text=True,
                             check=False)
    if not version.stdout.startswith("3.10.8"):
        pytest.skip(f"the facts are of RabbitMQ 3.10.8, and {version.stdout} is installed")
    wanted = json.loads(FACTS.read_text(encoding="utf-8"))
    changing = ("memory_breakdown", "list_network_interfaces", "list_node_auth_attempt_stats", "check_port", "listeners",
                "log_location", "set_log_level", "check_protocol_listener")
    pairs = [(was, now) for was, now in zip(wanted, found, strict=True) if not any(word in was[0] for word in changing)]
    assert [was for was, now in pairs if was != now] == [], sys.version
