"""What `make install` says when it cannot go on, with a Python that only pretends."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PRETEND = """#!/bin/bash
case "$*" in
  *"-m venv"*) {venv} ;;
  *"-m virtualenv"*) exit 1 ;;
  *"-m pip"*) echo "ERROR: no network" >&2; exit 1 ;;
esac
"""
MAKES_ONE = 'mkdir -p .venv/bin && cp "$0" .venv/bin/python'
IS_INTERRUPTED = "trap 'exit 1' INT; kill -INT 0; sleep 60 & wait"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """In a folder with a space in its name."""
    folder = tmp_path / "my clone"
    for name in ("src", ".ci"):
        (folder / name).mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    packages = folder / ".ci" / "packages"
    packages.write_text("#!/bin/bash\ntouch asked-for-packages\nexit 1\n")
    packages.chmod(0o755)
    return folder


def install(clone: Path, venv: str) -> subprocess.CompletedProcess[str]:
    python = clone / "python"
    python.write_text(PRETEND.format(venv=venv))
    python.chmod(0o755)
    return subprocess.run(["make", "install", "PYTHON=./python"], cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, start_new_session=True, timeout=120, check=False)


def test_where_pip_fails_it_is_told_what_to_do(clone: Path) -> None:
    done = install(clone, MAKES_ONE)
    assert done.returncode != 0
    assert "It fetches from the Python Package Index, or from the mirror of it that PIP_INDEX_URL names." in done.stdout


def test_an_interrupt_is_no_reason_to_install_packages(clone: Path) -> None:
    done = install(clone, IS_INTERRUPTED)
    assert done.returncode != 0
    assert not (clone / "asked-for-packages").exists()
    assert "Install Debian's package" not in done.stdout


def test_a_python_without_virtual_environments_is_told(clone: Path) -> None:
    done = install(clone, "exit 1")
    assert (clone / "asked-for-packages").exists()
    assert "Install Debian's package python3-venv" in done.stdout
