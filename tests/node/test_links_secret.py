"""The shared secret: where it comes from, how it is made, and when it is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mirrormq.node.secret import SecretError, default_path, shared_secret

NOTHING: dict[str, str] = {}

NODE = """
import sys, pathlib
from mirrormq.node.secret import shared_secret
sys.stdin.read(1)
print(shared_secret(pathlib.Path(sys.argv[1]), environment={}).decode())
"""


def test_a_missing_file_is_made_with_a_long_random_value_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "cookie"
    secret = shared_secret(file, environment=NOTHING)
    assert len(secret) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shared_secret(file, environment=NOTHING) == secret
    assert shared_secret(tmp_path / "other", environment=NOTHING) != secret
    assert [path.name for path in file.parent.iterdir()] == ["cookie"]


def test_it_is_private_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        shared_secret(tmp_path / "cookie", environment=NOTHING)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "cookie").stat().st_mode) == 0o600


def test_white_space_around_the_value_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "cookie"
    file.touch(0o600)
    file.write_text("  ABCDEFGHIJKLMNOPQRST\r\n")
    assert shared_secret(file, environment=NOTHING) == b"ABCDEFGHIJKLMNOPQRST"


def test_a_given_value_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cookie"
    environment = {"MIRRORMQ_COOKIE": "from the environment"}
    assert shared_secret(file, "from the configuration", environment) == b"from the configuration"
    assert shared_secret(file, "", environment) == b"from the environment"
    assert not file.exists()


def test_the_file_is_in_the_home_directory_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".mirrormq.cookie"
    shared_secret(environment=NOTHING)
    assert default_path().exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o660])
def test_a_file_that_others_can_use_is_refused_with_the_command_that_mends_it(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "cookie"
    file.write_text("ABCDEFGHIJKLMNOPQRST")
    file.chmod(mode)
    with pytest.raises(SecretError, match=f"mode {mode:04o}.*chmod 600 {file}"):
        shared_secret(file, environment=NOTHING)


@pytest.mark.parametrize("content", ["", "short", "x" * 5000])
def test_a_value_that_cannot_be_right_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "cookie"
    file.touch(0o600)
    file.write_text(content)
    with pytest.raises(SecretError, match=str(file)):
        shared_secret(file, environment=NOTHING)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", "."):
        with pytest.raises(SecretError):
            shared_secret(tmp_path / name, environment=NOTHING)


def test_a_place_where_nothing_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SecretError, match=str(tmp_path / "file")):
        shared_secret(tmp_path / "file" / "cookie", environment=NOTHING)


def test_no_sentence_holds_the_secret(tmp_path: Path) -> None:
    with pytest.raises(SecretError) as caught:
        shared_secret(tmp_path, "geheim", NOTHING)
    assert "geheim" not in str(caught.value)


def test_nodes_that_start_at_once_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NODE, str(tmp_path / "cookie")]
    nodes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for node in nodes:
        assert node.stdin is not None
        node.stdin.write("!")
        node.stdin.flush()
    values = {node.communicate(timeout=60)[0] for node in nodes}
    assert [node.returncode for node in nodes] == [0] * 6
    assert len(values) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cookie"]
