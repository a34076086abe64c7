"""A thread that owns a connection and works through jobs, as many at once as have gathered.

The event loop never waits for the disk: it hands in a job and awaits its future, for a limited time. A job whose caller has given
up before the work began is not begun (`abandon` and `claim` exclude each other), so the caller knows that nothing happened.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

Given = TypeVar("Given")
Result = TypeVar("Result")


class Late(Exception):
    """The worker did not answer in time."""

    def __init__(self, *, begun: bool) -> None:
        super().__init__()
        self.begun = begun


class Job(Generic[Given, Result]):
    """Work on what the worker owns; its outcome is kept until the worker publishes it."""

    def __init__(self, work: Callable[[Given], Result], weight: int, future: asyncio.Future[Result]) -> None:
        self.weight = weight
        self._work = work
        self.future = future
        self._token = [None]  # whoever pops it decides: popping is atomic between threads
        self.is_begun = False
        self._result: list[Result] = []
        self._fault: Exception | None = None

    def claim(self) -> bool:
        """For the thread: whether the work may begin."""
        self.is_begun = self.abandon()
        return self.is_begun

    def abandon(self) -> bool:
        """For the caller: whether the work has not begun, and will not."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def run(self, given: Given, expected: type[Exception]) -> None:
        try:
            self._result = [self._work(given)]
        except expected as fault:
            self._fault = fault

    def fail(self, fault: Exception) -> None:
        self._fault = fault

    def publish(self) -> None:
        """For the event loop: tell the caller, if it still waits."""
        if self.future.done():
            return
        if self._fault is not None:
            self.future.set_exception(self._fault)
        else:
            self.future.set_result(self._result[0])


class Worker(Generic[Given]):
    def __init__(self, name: str, handle: Callable[[list[Job[Given, Any]]], None], most: int) -> None:
        """`handle` gets jobs of a weight of about `most` at once, in order, in the thread."""
        self._handle = handle
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Job[Given, Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    async def call(self, work: Callable[[Given], Result], deadline: float, weight: int = 1) -> Result:
        """Have the work done and return its result; raises Late."""
        job: Job[Given, Result] = Job(work, weight, self._loop.create_future())
        self._jobs.put(job)
        try:
            async with asyncio.timeout(deadline):
                return await job.future
        except TimeoutError as fault:
            raise Late(begun=not job.abandon()) from fault
        except asyncio.CancelledError:
            job.abandon()
            raise

    def tell(self, callback: Callable[[], None]) -> None:
        """For the thread: run this in the event loop, unless that has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    async def close(self, deadline: float) -> None:
        """End after all jobs that were handed in; a thread that hangs is left behind."""
        self._jobs.put(None)
        await asyncio.wait([self._ended], timeout=deadline)

    def _run(self) -> None:
        while jobs := self._take():
            try:
                self._handle(jobs)
            except Exception as fault:
                log.exception("A fault of our own in the coordination store")
                self._fail(jobs, fault)
        self.tell(lambda: self._ended.set_result(None))

    def _fail(self, jobs: list[Job[Given, Any]], fault: Exception) -> None:
        """Whoever waits hears of it; the thread goes on."""
        for job in jobs:
            job.fail(fault)
            self.tell(job.publish)

    def _take(self) -> list[Job[Given, Any]]:
        jobs: list[Job[Given, Any]] = []
        weight = 0
        try:
            while weight < self._most:
                job = self._jobs.get(block=not jobs)
                if job is None:
                    if jobs:
                        self._jobs.put(None)
                    break
                jobs.append(job)
                weight += job.weight
        except Empty:
            pass
        return jobs
