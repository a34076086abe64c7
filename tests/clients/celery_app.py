"""The Celery application of the tests: imported by the tests to call tasks and by the worker process to run them.

The environment says where the broker is (`CLIENTS_BROKER_URL`) and which queue is ours (`CLIENTS_QUEUE`).
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task
from celery.exceptions import Reject
from kombu import Exchange, Queue

PRIORITIES = 10


def build(url: str, queue: str) -> Celery:
    made = Celery("clients", broker=url, backend="rpc://")
    made.conf.update(
        task_default_queue=queue,
        task_queues=[
            Queue(queue, Exchange(queue), routing_key=queue),
            Queue(f"{queue}.urgent", Exchange(queue), routing_key="urgent", max_priority=PRIORITIES),
        ],
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_track_started=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=True,
        task_send_sent_event=True,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True},
        result_expires=60,
        event_queue_expires=30.0,
    )
    return made


app = build(os.environ.get("CLIENTS_BROKER_URL", "amqp://"), os.environ.get("CLIENTS_QUEUE", "celery"))


def note(path: str, line: str) -> int:
    """Adds a line to a file the test reads, and tells how many are in it now."""
    with Path(path).open("a") as file:
        file.write(line + "\n")
    return len(Path(path).read_text().splitlines())


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def echo(value: Any) -> Any:
    return value


@app.task
def fail(words: str) -> None:
    raise ValueError(words)


@app.task
def record(path: str, line: str) -> int:
    return note(path, line)


@app.task(bind=True, max_retries=5)
def flaky(self: Task, path: str, successes_after: int) -> int:
    tries = note(path, f"try {self.request.retries}")
    if tries <= successes_after:
        raise self.retry(countdown=0.2 * 2**self.request.retries)
    return tries


@app.task(autoretry_for=(ValueError,), retry_backoff=True, retry_backoff_max=1, retry_jitter=False, max_retries=2)
def always_failing(path: str) -> None:
    note(path, "try")
    raise ValueError("still broken")


@app.task(bind=True)
def rejected_once(self: Task, path: str) -> str:
    if note(path, f"redelivered {self.request.delivery_info['redelivered']}") == 1:
        raise Reject("not now", requeue=True)
    return "taken"


@app.task(bind=True)
def killed_once(self: Task, path: str) -> str:
    """Kills the pool process that runs it, the first time."""
    if note(path, f"redelivered {self.request.delivery_info['redelivered']}") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@app.task(bind=True)
def wait_for(self: Task, path: str, gate: str) -> str:
    """Notes that it runs, then waits until a file named `gate` exists."""
    note(path, f"redelivered {self.request.delivery_info['redelivered']}")
    while not Path(gate).exists():
        time.sleep(0.05)
    return "through"
