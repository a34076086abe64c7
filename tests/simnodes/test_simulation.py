"""Whole nodes over simulated time: schedules in which nothing may go wrong, and each is the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .mutants import MUTANTS, SOURCES, Mutant

TESTS = Path(__file__).parent.parent
SEEDS = 30
MORE_SEEDS = int(os.environ.get("MIRRORMQ_SIMNODES_SEEDS", "250"))


def run(*options: str) -> str:
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(TESTS)]))
    done = subprocess.run([sys.executable, "-m", "simnodes.run", *options], capture_output=True, text=True, check=False,
                          timeout=1800, env=os.environ | {"PYTHONPATH": paths})
    assert not done.stderr, done.stderr
    return done.stdout


def violations(*options: str) -> list[str]:
    return [line for line in run(*options).splitlines() if line.startswith("seed ")]


@pytest.mark.timeout(900)
def test_random_schedules_break_no_promise() -> None:
    assert violations("--seeds", str(SEEDS)) == []


@pytest.mark.live
@pytest.mark.timeout(1800)
def test_more_random_schedules_break_no_promise() -> None:
    """Beside the tests with real processes, which leave a part of the machine idle."""
    assert violations("--first", str(SEEDS + 1), "--seeds", str(MORE_SEEDS), "--jobs", "1") == []


@pytest.mark.timeout(300)
def test_a_seed_is_the_same_each_time() -> None:
    first = run("--replay", "3")
    assert " is up" in first
    assert run("--replay", "3") == first


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_what_a_mutant_takes_out_is_there(mutant: Mutant) -> None:
    """Else nobody would notice that it takes out nothing any more. `python -m simnodes.mutants` looks whether it is found."""
    for change in mutant.changes:
        assert (SOURCES / change.file).read_text().count(change.old) == 1, f"{change.file}: {change.old}"
