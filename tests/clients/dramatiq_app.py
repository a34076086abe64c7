"""The Dramatiq actors of the tests: imported by the tests to send messages, and by the worker process to run them.

The environment says where the brokers are (`CLIENTS_BROKER_URL`, with semicolons) and which queue is ours (`CLIENTS_QUEUE`).
"""

from __future__ import annotations

import os
from pathlib import Path

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

QUEUE = os.environ.get("CLIENTS_QUEUE", "dramatiq")

broker = RabbitmqBroker(url=os.environ.get("CLIENTS_BROKER_URL", "amqp://").split(";"), confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=QUEUE, max_retries=20, min_backoff=100, max_backoff=1000)
def record(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(line + "\n")
