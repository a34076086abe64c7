"""Random walks of a mirror's log. MIRRORMQ_WALKS=5000 walks further."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .mirror_machine import Mirror

WALKS = int(os.environ.get("MIRRORMQ_WALKS", "60"))
STEPS = 150
FOUND = (612, 3173, 3514, 3593)
ACTIONS: tuple[Callable[[Mirror], None], ...] = (
    *(Mirror.lead,) * 12, *(Mirror.follow,) * 12, *(Mirror.go_astray,) * 4, *(Mirror.cut,) * 3, Mirror.begin_anew,
    *(Mirror.fill,) * 8, Mirror.restore, *(Mirror.retain,) * 3, *(Mirror.trim,) * 2, Mirror.restart, Mirror.crash,
    Mirror.power_failure, Mirror.power_failure, Mirror.crash_in_a_job,
    *(lambda mirror: mirror.tidy(mirror.random.randrange(1, 40)),) * 8,
    *(lambda mirror: mirror.commit(sync=mirror.random.random() < 0.5, roll=mirror.random.random() < 0.2),) * 8,
)


def walk(seed: int, steps: int = STEPS) -> None:
    mirror = Mirror(seed)
    random = Random(seed)
    try:
        for _ in range(steps):
            random.choice(ACTIONS)(mirror)
            mirror.check()
    finally:
        mirror.close()


@pytest.mark.parametrize("start", range(0, WALKS, 10))
def test_a_mirrors_log_is_always_one_that_it_was(start: int) -> None:
    for seed in range(start, start + 10):
        try:
            walk(seed)
        except BaseException as problem:
            problem.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", FOUND)
def test_a_walk_that_once_failed(seed: int) -> None:
    walk(seed)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(ACTIONS), max_size=60))
def test_whatever_is_done_to_a_mirrors_log_in_whatever_order(seed: int, actions: list[Callable[[Mirror], None]]) -> None:
    mirror = Mirror(seed)
    try:
        for action in actions:
            action(mirror)
            mirror.check()
    finally:
        mirror.close()
