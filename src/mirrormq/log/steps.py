"""Steps: how long work is cut into short pieces, whoever drives it. Compiled.

A generator of steps hands out what may take long as a job and pauses often. Between two steps queues change: chunks are
appended, messages end, queues are dropped. keeper.py drives such generators from the event loop, run_steps() in a test.
"""

from __future__ import annotations

from mirrormq.log.helper import Job


class Step:
    """What must happen before the generator goes on: a job done, a position durable, or (neither) a turn of the loop."""

    __slots__ = ("job", "position")

    def __init__(self, job: Job | None, position: int) -> None:
        self.job: Job | None = job
        self.position: int = position


def pause() -> Step:
    return Step(None, 0)
