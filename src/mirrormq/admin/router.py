"""From a path to its handlers.

A path is cut at its slashes before it is decoded, so that `%2F` is part of a name. Literal parts win over names, and a
trailing slash changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from mirrormq.admin.call import Handler
from mirrormq.admin.routes import Access, Route

METHODS: Final = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")


class Place:
    """What a path leads to: handlers by method, and the names in the path."""

    def __init__(self, handlers: dict[str, tuple[Access, Handler]], args: dict[str, str]) -> None:
        self.handlers = handlers
        self.args = args

    @property
    def allowed(self) -> str:
        offered = {*self.handlers, "OPTIONS"}
        if "GET" in offered:
            offered.add("HEAD")
        return ", ".join(method for method in METHODS if method in offered)


class _Node:
    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.named: dict[str, _Node] = {}
        self.handlers: dict[str, tuple[Access, Handler]] = {}


class Router:
    def __init__(self, routes: Iterable[Route], prefix: str = "") -> None:
        self._root = _Node()
        self._prefix = parts_of(prefix)
        for method, path, access, handler in routes:
            node = self._root
            for part in parts_of(path):
                branch = node.named if part.startswith("{") else node.literal
                node = branch.setdefault(part, _Node())
            node.handlers[method] = (access, handler)

    def find(self, path: str) -> Place | None:
        parts = parts_of(path)
        if parts[:len(self._prefix)] != self._prefix:
            return None
        return _walk(self._root, parts[len(self._prefix):], {})


def parts_of(path: str) -> list[str]:
    parts = [unquote(part, errors="surrogateescape") for part in path.partition("?")[0].split("/")[1:]]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _walk(node: _Node, parts: list[str], args: dict[str, str]) -> Place | None:
    if not parts:
        return Place(node.handlers, args) if node.handlers else None
    first, rest = parts[0], parts[1:]
    literal = node.literal.get(first)
    found = None if literal is None else _walk(literal, rest, args)
    for name, branch in node.named.items():
        if found is None:
            word, _, choices = name[1:-1].partition(":")
            if not choices or first in choices.split("|"):
                found = _walk(branch, rest, args | {word: first})
    return found
