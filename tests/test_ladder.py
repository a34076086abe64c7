"""The import ladder: a package imports only from itself and from those to its left, and the pure ones do no I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mirrormq"
LADDER = ("wire", "log", "broker", "mirror", "cluster", "node", "admin", "cli", "lake")

PURE = ("wire", "broker", "mirror/machine", "cluster/link")
"""No sockets, no files, no clock, no chance: bytes, time and randomness are arguments."""

IMPURE_MODULES = {
    "asyncio", "concurrent", "ctypes", "fcntl", "glob", "http", "io", "logging", "mmap", "multiprocessing", "os",
    "pathlib", "queue", "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver",
    "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uvloop", "aiohttp",
}  # fmt: skip
IMPURE_CALLS = {"open", "input", "print", "exec", "eval", "__import__"}
IMPURE_METHODS = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("uuid", "uuid4")}
PURE_PARTS = ("urllib.parse",)

EXCEPTIONS: dict[str, tuple[str, ...]] = {}
"""Files that may import what their package may not, each with the reason beside it."""


class Import(NamedTuple):
    file: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE.parent)}:{self.line} imports {self.module}"


def trees(*below: str) -> Iterator[tuple[Path, ast.Module]]:
    for name in below:
        folder = SOURCE / name
        for path in sorted(folder.rglob("*.py")) or [folder.with_suffix(".py")]:
            if path.exists():
                yield path, ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path, tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(path, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(("mirrormq", *path.relative_to(SOURCE).parts[: -node.level])) + "." if node.level else ""
            for alias in node.names:
                yield Import(path, node.lineno, f"{base}{node.module or ''}.{alias.name}")


def packages() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.rglob("*.py")))


def test_every_package_stands_on_the_ladder() -> None:
    assert set(packages()) <= set(LADDER)


@pytest.mark.parametrize("package", packages())
def test_a_package_imports_only_from_itself_and_its_left(package: str) -> None:
    allowed = set(LADDER[: LADDER.index(package) + 1])
    wrong = [
        str(found)
        for path, tree in trees(package)
        for found in imports(path, tree)
        if found.module.startswith("mirrormq.")
        and (rung := found.module.split(".")[1]) in LADDER
        and rung not in allowed
    ]
    assert wrong == []


def impurities(path: Path, tree: ast.Module) -> Iterator[str]:
    allowed = EXCEPTIONS.get(str(path.relative_to(SOURCE)), ())
    for found in imports(path, tree):
        if found.module.split(".")[0] in IMPURE_MODULES - set(allowed) and not found.module.startswith(PURE_PARTS):
            yield str(found)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := called(node.func)):
            yield f"{path.relative_to(SOURCE.parent)}:{node.lineno} calls {name}"
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield f"{path.relative_to(SOURCE.parent)}:{node.lineno} is asynchronous"


def called(function: ast.expr) -> str:
    """The name of a call that touches the world, or nothing."""
    match function:
        case ast.Name(name) if name in IMPURE_CALLS:
            return name
        case ast.Attribute(ast.Name(owner), method) if (owner, method) in IMPURE_METHODS:
            return f"{owner}.{method}"
    return ""


@pytest.mark.parametrize("package", PURE)
def test_the_pure_packages_touch_nothing(package: str) -> None:
    assert [sentence for path, tree in trees(package) for sentence in impurities(path, tree)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "from os import path",
        "import time as clock",
        "def f():\n    from random import choice",
        "open('x')",
        "datetime.now()",
        "async def f(): pass",
    ],
)
def test_an_impurity_would_be_found(source: str) -> None:
    assert list(impurities(SOURCE / "wire" / "example.py", ast.parse(source)))
