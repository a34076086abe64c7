"""Long random walks of the same machine: what takes hundreds of steps to come about, such as compaction under way in a
power failure. MIRRORMQ_WALKS=5000 walks further."""

from __future__ import annotations

import os
from random import Random

import pytest

from .test_store_model import StoreMachine

WALKS = int(os.environ.get("MIRRORMQ_WALKS", "40"))
STEPS = 150
ACTIONS = (
    *("publish",) * 30, *("end",) * 15, *("commit",) * 15, *("tidy",) * 15, "tidy_all", "tidy_all", "skip", "trim", "trim",
    "delete", "restart", "crash", "power_failure", "power_failure", "power_failure",
    "crash_in_a_job", "crash_in_a_job",
)


def act(machine: StoreMachine, action: str, random: Random) -> None:
    slot = random.choice((0, 0, 0, 1, 1, 2, 3))
    if action == "publish":
        machine.publish(slot, [random.randrange(300) for _ in range(random.randrange(1, 30))], random.random() < 0.2)
    elif action == "end":
        machine.end(slot, random.choice((0.1, 0.5, 0.9, 0.98)), random.random() < 0.5, random.random() < 0.2)
    elif action == "commit":
        machine.commit(random.random() < 0.5, random.random() < 0.2)
    elif action == "tidy":
        machine.tidy(random.randrange(1, 40))
    elif action == "skip":
        machine.skip_and_reserve(slot, random.randrange(1, 50))
    elif action in ("trim", "delete"):
        getattr(machine, action)(slot)
    elif action == "power_failure":
        machine.power_failure(random.randrange(5), random.random() < 0.5)
    else:
        getattr(machine, action)()


def walk(seed: int) -> None:
    random = Random(seed)
    machine = StoreMachine()
    machine.start(seed, random.choice((2048, 8192, 50_000)), random.choice((1024, 4096, 20_000)))
    try:
        for _ in range(STEPS):
            act(machine, random.choice(ACTIONS), random)
            machine.every_live_message_can_be_read()
    finally:
        machine.teardown()


@pytest.mark.parametrize("start", range(0, WALKS, 10))
def test_a_long_random_walk_loses_nothing_durable(start: int) -> None:
    for seed in range(start, start + 10):
        try:
            walk(seed)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise
