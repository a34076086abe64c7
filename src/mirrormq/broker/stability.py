"""Waiting for stability: everything that answers (confirm, commit-ok) answers when its log entries are stable.

A barrier counts the chunks it still waits for. Chunks report in the order of the log, so a barrier costs one step for each
queue and turn, not for each message.
"""
from __future__ import annotations

from collections import deque

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Barrier:
    """Something that happens once `outstanding` chunks are stable."""

    def __init__(self) -> None:
        self.outstanding: i64 = 0
        self.is_lost: bool = False      # a log did not take what it waits for
        self.is_publish: bool = False   # it waits for messages, which are refused where too few mirrors are in sync

    def passed(self) -> None:
        raise NotImplementedError

    def mark(self) -> i64:
        """What tells the message that is published now from the others of this barrier."""
        return 0

    def refuse(self, mark: i64) -> None:
        """A queue on another node did not take the message with this mark. It is still waited for."""


class Unstable:
    """A stretch of a log that is not yet stable, and who waits for it."""

    def __init__(self, position: i64, waiters: list[Barrier]) -> None:
        self.position: i64 = position
        self.waiters: list[Barrier] = waiters


class StabilityQueue:
    """All stretches in the order of the log."""

    def __init__(self) -> None:
        self.pending: deque[Unstable] = deque()
        self.reached: i64 = 0

    def add(self, position: i64, waiters: list[Barrier]) -> None:
        if position <= self.reached:
            pass_all(waiters)
        else:
            self.pending.append(Unstable(position, waiters))

    def reach(self, position: i64) -> None:
        """Everything up to this position of the log is stable."""
        self.reached = position
        pending = self.pending
        while pending and pending[0].position <= position:
            pass_all(pending.popleft().waiters)


def pass_all(waiters: list[Barrier]) -> None:
    for barrier in waiters:
        barrier.outstanding -= 1
        if barrier.outstanding == 0:
            barrier.passed()


def lose_all(waiters: list[Barrier]) -> None:
    """What they wait for may never be stable."""
    for barrier in waiters:
        barrier.is_lost = True
    pass_all(waiters)
