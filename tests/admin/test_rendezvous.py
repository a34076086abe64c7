"""The file by which tools find a node."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mirrormq.admin import rendezvous
from mirrormq.admin.rendezvous import Place

GONE = 2**22 + 1        # no process has this number


def place(**changes: object) -> Place:
    return Place("a@host", "http://127.0.0.1:15672", "secret", os.getpid(), "/data")._replace(**changes)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"MIRRORMQ_RUN_DIR": str(tmp_path / "run")}


def test_a_node_is_found_by_its_name(env: dict[str, str]):
    rendezvous.publish(place(), env)
    assert rendezvous.read("a@host", env) == place()
    assert rendezvous.read("b@host", env) is None


def test_only_the_owner_can_read_the_token(env: dict[str, str]):
    path = rendezvous.publish(place(), env)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_stopped_node_takes_its_file_away(env: dict[str, str]):
    path = rendezvous.publish(place(), env)
    rendezvous.withdraw(path)
    assert rendezvous.read_all(env) == []


def test_a_file_that_another_process_has_replaced_stays(env: dict[str, str]):
    path = rendezvous.publish(place(), env)
    rendezvous.publish(place(pid=GONE), env)
    rendezvous.withdraw(path)
    assert rendezvous.read("a@host", env) == place(pid=GONE)


def test_the_file_of_a_killed_node_says_that_it_is_gone(env: dict[str, str]):
    rendezvous.publish(place(pid=GONE), env)
    found = rendezvous.read("a@host", env)
    assert found is not None
    assert not found.is_alive()


def test_a_directory_that_others_may_write_to_is_not_used(env: dict[str, str], tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o777)
    assert rendezvous.publish(place(), env) is None


def test_a_linked_directory_is_not_used(env: dict[str, str], tmp_path: Path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    assert rendezvous.publish(place(), env) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 99, "node": "a@host"}'])
def test_a_file_that_makes_no_sense_is_passed_over(env: dict[str, str], tmp_path: Path, text: str):
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "run" / "a@host.json").write_text(text)
    assert rendezvous.read("a@host", env) is None


def test_a_name_cannot_leave_the_directory():
    assert rendezvous.file_name("../../etc/x@y") == ".._.._etc_x@y.json"
