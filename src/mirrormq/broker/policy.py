"""Policies: which one applies to a queue or exchange, and what it says.

At most one user policy and one operator policy apply: of those whose pattern matches the name, the one with the highest
priority (then the first by name). A policy with a key that the queue's type does not know applies to no such queue.
Both together are merged key by key: an operator's limits can only make the user's smaller, its mirroring only wider.
Patterns are RabbitMQ's (PCRE, searched anywhere in the name, classes of ASCII); `compile_pattern` translates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

APPLY_TO: Final = ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")
_QUEUE_SCOPES: Final[dict[str, str]] = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}
_UNKNOWN_TO: Final[dict[str, frozenset[str]]] = {
    "classic": frozenset((
        "max-age", "stream-max-segment-size-bytes", "queue-leader-locator", "initial-cluster-size", "delivery-limit",
        "dead-letter-strategy", "max-in-memory-length", "max-in-memory-bytes", "target-group-size",
    )),
}  # fmt: skip
_SMALLER: Final = frozenset((
    "message-ttl", "expires", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes",
    "delivery-limit",
))  # fmt: skip
_LARGER: Final = frozenset(("ha-min-in-sync", "target-group-size"))


# Patterns


class PatternError(ValueError):
    """Not a regular expression. `reason` and `position` are what RabbitMQ prints of it."""

    def __init__(self, pattern: str, reason: str, position: int) -> None:
        super().__init__(f"'{pattern}' is not a regular expression: {reason} at position {position}")
        self.pattern = pattern
        self.reason = reason
        self.position = position


_ESCAPES: Final[dict[str, str]] = {
    "z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t]", "H": r"[^ \t]", "N": r"[^\n]", "e": r"\x1b", "E": "",
    "R": r"(?:\r\n|[\n\r\f\v])",
}  # fmt: skip
_CLASS_ESCAPES: Final[dict[str, str]] = {"h": r" \t", "e": r"\x1b"}
_POSIX: Final[dict[str, str]] = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "ascii": r"\x00-\x7f", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-\x7e", "space": r"\s", "upper": "A-Z", "word": r"\w", "xdigit": "0-9a-fA-F",
}  # fmt: skip
_POSIX_CLASS: Final = re.compile(r"\[:([a-z]+):\]")
_NAMED_GROUP: Final = re.compile(r"\(\?(?:<([A-Za-z_]\w*)>|'([A-Za-z_]\w*)')")
_HEX: Final = re.compile(r"\\x\{([0-9a-fA-F]{1,6})\}")


class _Translator:
    """One pass over a PCRE pattern, writing what Python's `re` means by the same."""

    def __init__(self, pattern: str) -> None:
        self.pattern: str = pattern
        self.at: int = 0
        self.out: list[str] = []

    def run(self) -> str:
        while self.at < len(self.pattern):
            symbol = self.pattern[self.at]
            if symbol == "\\":
                self._escape(_ESCAPES)
            elif symbol == "[":
                self._bracket()
            elif symbol == "(":
                self._group()
            else:
                self._take(1, symbol)
        return "".join(self.out)

    def _take(self, length: int, text: str) -> None:
        self.at += length
        self.out.append(text)

    def _group(self) -> None:
        named = _NAMED_GROUP.match(self.pattern, self.at)
        if named is None:
            self._take(1, "(")
        else:
            self._take(len(named[0]), f"(?P<{named[1] or named[2]}>")

    def _escape(self, known: dict[str, str]) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        coded = _HEX.match(self.pattern, self.at)
        if coded is not None and int(coded[1], 16) < 0x110000:
            self._take(len(coded[0]), re.escape(chr(int(coded[1], 16))))
        elif following == "Q":
            self._quoted()
        else:
            self._take(2, known.get(following, "\\" + following))

    def _quoted(self) -> None:
        end = self.pattern.find("\\E", self.at)
        stop = len(self.pattern) if end < 0 else end
        self.out.append(re.escape(self.pattern[self.at + 2 : stop]))
        self.at = stop if end < 0 else stop + 2

    def _bracket(self) -> None:
        opening = "[^" if self.pattern.startswith("[^", self.at) else "["
        self._take(len(opening), opening)
        if self.pattern.startswith("]", self.at):
            self._take(1, "\\]")
        while self.at < len(self.pattern) and self.pattern[self.at] != "]":
            self._class_member()
        if self.at < len(self.pattern):
            self._take(1, "]")

    def _class_member(self) -> None:
        symbol = self.pattern[self.at]
        posix = _POSIX_CLASS.match(self.pattern, self.at)
        if posix is not None and posix[1] in _POSIX:
            self._take(len(posix[0]), _POSIX[posix[1]])
        elif symbol == "\\":
            self._escape(_CLASS_ESCAPES)
        else:
            self._take(1, "\\" + symbol if symbol in "[&|~" else symbol)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as Python's `re` understands it; PatternError if it is none."""
    try:
        return re.compile(_Translator(pattern).run(), re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        message = error.msg if isinstance(error, re.error) else "too complex"
        if message.startswith("missing )"):
            raise PatternError(pattern, "missing )", len(pattern)) from None
        position = error.pos if isinstance(error, re.error) and error.pos is not None else 0
        raise PatternError(pattern, message, position) from None


# Policies


class Policy:
    """Valid: made of what `policy_validation` let through."""

    def __init__(
        self, vhost: str, name: str, pattern: str, apply_to: str, definition: dict[str, object], priority: float = 0
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.pattern: str = pattern
        self.apply_to: str = apply_to
        self.definition: dict[str, object] = definition
        self.priority: float = priority
        self._matcher: re.Pattern[str] = compile_pattern(pattern)

    def applies(self, vhost: str, name: str, kind: str, queue_type: str = "classic") -> bool:
        return (
            self.vhost == vhost
            and self._covers(kind, queue_type)
            and self._matcher.search(name) is not None
            and (kind != "queue" or not self._is_foreign_to(queue_type))
        )

    def _covers(self, kind: str, queue_type: str) -> bool:
        if self.apply_to == "all":
            return True
        if kind == "exchange":
            return self.apply_to == "exchanges"
        return self.apply_to == "queues" or self.apply_to == _QUEUE_SCOPES.get(queue_type)

    def _is_foreign_to(self, queue_type: str) -> bool:
        return not _UNKNOWN_TO.get(queue_type, frozenset()).isdisjoint(self.definition)


def match(
    policies: Iterable[Policy], vhost: str, name: str, kind: str, queue_type: str = "classic"
) -> Policy | None:
    """The policy that applies to the queue or exchange (`kind`) of that name."""
    best: Policy | None = None
    for policy in policies:
        if policy.applies(vhost, name, kind, queue_type) and (best is None or _goes_before(policy, best)):
            best = policy
    return best


def _goes_before(policy: Policy, other: Policy) -> bool:
    if policy.priority != other.priority:
        return policy.priority > other.priority
    return policy.name < other.name


def merge(user: Policy | None, operator: Policy | None) -> dict[str, object]:
    """The effective definition."""
    mine = {} if user is None else user.definition
    theirs = {} if operator is None else operator.definition
    merged = {**mine, **theirs}
    for key in mine.keys() & theirs.keys():
        merged[key] = _merge_value(key, mine[key], theirs[key])
    return dict(sorted(merged.items()))


def _merge_value(key: str, mine: object, theirs: object) -> object:
    if key in _SMALLER and isinstance(mine, int) and isinstance(theirs, int):
        return min(mine, theirs)
    if key in _LARGER and isinstance(mine, int) and isinstance(theirs, int):
        return max(mine, theirs)
    if key == "ha-mode":
        return _wider_mode(mine, theirs)
    if key == "ha-params":
        return _wider_params(mine, theirs)
    return theirs


def _wider_mode(mine: object, theirs: object) -> object:
    for mode in ("all", "exactly"):
        if mode in (mine, theirs):
            return mode
    return theirs


def _wider_params(mine: object, theirs: object) -> object:
    if isinstance(mine, int) and isinstance(theirs, int):
        return max(mine, theirs)
    if isinstance(mine, list) and isinstance(theirs, list):
        return mine if len(mine) > len(theirs) else theirs
    return mine if isinstance(mine, int) else theirs
