"""Steps: how long work is cut into short pieces, whoever drives it. Compiled.

A generator of steps hands out what may take long as a job and pauses often. Between two steps queues change: chunks are
appended, messages end, queues are dropped. keeper.py drives such generators from the event loop, run_steps() in a test.
"""

from __future__ import annotations

from mirrormq.log.helper import Job


class Step:
    """What must happen before the generator goes on: a job done, a position durable, or (neither) a turn of the loop. A job that
    the disk refuses is repeated, unless it is an attempt: then the generator finds the refusal here, and knows what to do."""

    __slots__ = ("is_attempt", "job", "position", "refusal")

    def __init__(self, job: Job | None, position: int, *, is_attempt: bool = False, refusal: OSError | None = None) -> None:
        self.job: Job | None = job
        self.position: int = position
        self.is_attempt: bool = is_attempt
        self.refusal: OSError | None = refusal


def pause() -> Step:
    return Step(None, 0)


def wait_out(refusal: OSError) -> Step:
    """Tell of it, and let some time pass."""
    return Step(None, 0, refusal=refusal)
