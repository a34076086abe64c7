"""The promises of the repository: what the documents say is there, and nothing is there that should not be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mirrormq

ROOT = Path(__file__).parent.parent
TARGETS = ("install", "up", "check", "test", "test-all", "lint", "type", "sim", "chaos", "bench", "docs", "clean")
LONGEST = 700

LONGER_FILES: dict[str, str] = {
    "LICENSE": "the text of the licence",
}
"""Files that may have more lines than LONGEST, with the reason."""

# Written in pieces, so that this file does not hold what it forbids.
FORBIDDEN = tuple(
    "".join(pieces)
    for pieces in (("/wo", "rk/"), ("/tmp/", "brief"), ("/opt/", "pypi"), ("../sha", "red"), ("python", "hosted"),
                   ("pypi", ".org"))
)


def tracked_files() -> list[Path]:
    """The files of the repository; in a copy without git, all that git would not ignore by name."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]
    skipped = {".git", ".venv", ".data", "build", "dist", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not skipped & set(path.relative_to(ROOT).parts) and "__pycache__" not in path.parts
        and ".egg-info" not in str(path)
    ]


FILES = tracked_files()
DOCUMENTS = sorted(path for path in FILES if path.suffix == ".md")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def recipe(target: str) -> list[str]:
    """The targets that a target makes, in order."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile(), re.MULTILINE)
    assert found, target
    return re.findall(r"^\t@\$\(MAKE\) (\S+)$", found[1], re.MULTILINE)


def test_the_two_commands_of_the_readme_are_make_targets() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("up", "test"):
        assert re.search(rf"^make {command}\b", readme, re.MULTILINE)
        assert re.search(rf"^{command}:", makefile(), re.MULTILINE)


def test_help_lists_every_task() -> None:
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in TARGETS:
        assert re.search(rf"^\s+make {target}\s+\S", shown, re.MULTILINE), target


def test_every_make_target_in_a_document_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile(), re.MULTILINE))
    for path in DOCUMENTS:
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text_of(path), re.MULTILINE))
        assert named <= targets, name_of(path)


def test_ci_runs_the_tests_and_nothing_less() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "MIRRORMQ_REQUIRE_ALL=1" in script
    assert re.findall(r"^make (\S+)$", script, re.MULTILINE) == ["test", "test-rest"]
    assert recipe("test-all") == ["test", "test-rest"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_no_file_names_a_place_outside_the_repository() -> None:
    found = [f"{name_of(path)}: {word}" for path in FILES for word in FORBIDDEN if word in text_of(path)]
    assert found == []


def test_no_file_is_too_long() -> None:
    lengths = {name_of(path): text_of(path).count("\n") for path in FILES if path.suffix != ".json"}
    long = {name: length for name, length in lengths.items() if name not in LONGER_FILES and length > LONGEST}
    assert long == {}


def test_every_source_file_begins_with_what_it_is_for() -> None:
    sources = [path for path in FILES if path.suffix == ".py" and name_of(path).startswith("src/")]
    assert [name_of(path) for path in sources if text_of(path).strip() and not text_of(path).startswith('"""')] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(document)):
        if not re.match(r"[a-z]+:", target):
            assert (document.parent / target).exists(), target


def anchors(document: Path) -> set[str]:
    """Its headings as links name them: small letters, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", text_of(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_anchor_in_a_link_of_a_document_is_a_heading(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s:]*\.md)?#([^)]+)\)", text_of(document)):
        assert anchor in anchors(document.parent / target if target else document), f"{target}#{anchor}"


def test_the_version_is_that_of_the_changelog() -> None:
    assert f"## {mirrormq.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_licence_is_apache() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += [line for lines in project["project"]["optional-dependencies"].values() for line in lines]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {normal(line.split("==")[0]) for line in pins.splitlines() if "==" in line}
    assert {normal(re.split(r"[<>=\[]", line)[0]) for line in wanted} - pinned == set()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.skipif("MIRRORMQ_VARIANT" not in os.environ, reason="only 'make test' says which variant this is")
def test_the_variant_under_test_is_the_one_that_was_asked_for() -> None:
    if os.environ["MIRRORMQ_VARIANT"] == "uncompiled":
        assert not mirrormq.is_compiled()
        assert Path(mirrormq.__file__).is_relative_to(ROOT / "src")
        return
    assert Path(mirrormq.__file__).is_relative_to(sys.prefix)
    assert mirrormq.is_compiled() or os.environ.get("MIRRORMQ_REQUIRE_ALL") != "1"
