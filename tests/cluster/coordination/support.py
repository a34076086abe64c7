"""What the tests of coordination share: child processes, and waiting for what a watch tells."""

from __future__ import annotations

import asyncio
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mirrormq.cluster.coordination import (
    Changes,
    Coordination,
    CoordinationError,
    Outcome,
    Put,
    Reset,
    Transaction,
    Watch,
)

CHILD = Path(__file__).parent / "child.py"
PATIENCE = 60.0


class Child:
    """Another process with a client of its own: see child.py for what it can do. It speaks in lines of JSON."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, word: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(word) + "\n")
        self._process.stdin.flush()

    def hear(self, timeout: float = PATIENCE) -> Any:
        line = self._lines.get(timeout=timeout)
        assert line, f"the child has ended with status {self._process.wait()}"
        return json.loads(line)

    async def heard(self, timeout: float = PATIENCE) -> Any:
        return await asyncio.to_thread(self.hear, timeout)

    def expect(self, word: object) -> None:
        assert self.hear() == word

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self.kill()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


async def put(store: Coordination, key: str, value: str = "", lease: int = 0) -> int:
    outcome = await store.transact([], [Put(key, value, lease)])
    assert outcome.succeeded
    return outcome.revision


def all_held(outcomes: Sequence[Outcome | CoordinationError]) -> bool:
    return all(not isinstance(outcome, CoordinationError) and outcome.succeeded for outcome in outcomes)


async def put_many(store: Coordination, prefix: str, count: int, value: str = "") -> int:
    """So many keys, in transactions of their own."""
    outcomes = await store.transact_many([Transaction([], [Put(f"{prefix}{n:06}", value)]) for n in range(count)])
    problems = [outcome for outcome in outcomes if isinstance(outcome, CoordinationError)]
    assert not problems, problems[0]
    return max(outcome.revision for outcome in outcomes if not isinstance(outcome, CoordinationError))


async def eventually(condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110 - conditions of the world outside set no event
            await asyncio.sleep(0.01)


async def following(watch: Watch, timeout: float = PATIENCE) -> Changes | Reset:
    return await asyncio.wait_for(anext(watch), timeout)


async def changed(watch: Watch, timeout: float = PATIENCE) -> Changes:
    news = await following(watch, timeout)
    assert isinstance(news, Changes)
    return news


def values(news: Changes) -> list[tuple[str, str | None]]:
    return [(change.key, change.item.value if change.item else None) for change in news.changes]


class Copy:
    """What a node keeps: a prefix as a watch tells of it. It notices holes in a counted sequence."""

    def __init__(self) -> None:
        self.revision = 0
        self.values: dict[str, str] = {}
        self.told: list[tuple[str, str | None]] = []
        self.resets = 0

    def take(self, news: Changes | Reset) -> None:
        if isinstance(news, Reset):
            self.resets += 1
            self.revision = news.snapshot.revision
            self.values = {key: item.value for key, item in news.snapshot.items.items()}
            return
        assert news.changes, "empty news"
        assert news.revision > self.revision, "revisions went back"
        self.revision = news.revision
        for key, value in values(news):
            self.told.append((key, value))
            if value is None:
                del self.values[key]
            else:
                self.values[key] = value

    async def follow(self, watch: Watch) -> None:
        async for news in watch:
            self.take(news)

    async def until(self, watch: Watch, key: str, value: str | None = None) -> None:
        """Follow until a key is there, with a value if one is given."""
        async with asyncio.timeout(PATIENCE):
            while key not in self.values or (value is not None and self.values[key] != value):
                self.take(await anext(watch))
