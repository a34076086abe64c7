"""The Celery workers of a test: real processes, with an application that talks to them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kombu.pools

from compat.support import eventually, unique

from . import TESTS
from .celery_app import build

WAIT = 90.0


class Fleet:
    """The workers of one test, and the application that talks to them."""

    def __init__(self, url: str, directory: Path) -> None:
        self.queue = unique("celery")
        self.environment = dict(
            os.environ,
            CLIENTS_BROKER_URL=url,
            CLIENTS_QUEUE=self.queue,
            PYTHONPATH=os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]),
        )
        self.directory = directory
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.app = build(url, self.queue)

    def start(self, *options: str, pool: str = "solo") -> str:
        """Starts a worker and waits until it says that it is ready; its node name."""
        name = f"{unique('w')}@test"
        command = [sys.executable, "-m", "celery", "-A", "clients.celery_app", "worker", "-n", name]
        with self.log_of(name).open("wb") as log:
            self.workers[name] = subprocess.Popen(
                [*command, "-P", pool, "-l", "INFO", *options],
                env=self.environment,
                cwd=self.directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        eventually(lambda: self.is_ready(name), within=WAIT)
        return name

    def is_ready(self, name: str) -> bool:
        text = self.log_of(name).read_text()
        if self.workers[name].poll() is not None:
            raise RuntimeError(f"the worker ended\n{text}")
        return "ready." in text

    def log_of(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def kill(self, name: str) -> None:
        """kill -9 of the worker and its pool."""
        worker = self.workers.pop(name)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(30)
        for name in list(self.workers):
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)

    def close(self) -> None:
        """Stops the workers and closes every connection of the application, pooled or not."""
        self.stop()
        results = self.app.backend.result_consumer
        if results._connection is not None:
            results.stop()
        kombu.pools.reset()
        self.app.close()

    def call(self, task: str, *args: Any, **options: Any) -> Any:
        return self.app.send_task(f"clients.celery_app.{task}", args, **options)

    def path(self, word: str) -> str:
        return str(self.directory / unique(word))
