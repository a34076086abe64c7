"""Clients at work while Spark mirrors: publishers in transactions, consumers that acknowledge, crashes of the node."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict

import pika
import pika.exceptions

from .support import KEPT, Node

BROKEN = (pika.exceptions.AMQPError, OSError)


class Load:
    """Publishes into `queues` queues, in small transactions, and acknowledges about half: until it is told to end, and at least
    `count` messages.

    `published` are those whose transaction was committed; what was in doubt when the node died is in `doubtful` and sent no more.
    """

    def __init__(self, node: Node, queues: int, count: int, pause: float = 0.0) -> None:
        self.node = node
        self.names = [f"load.{number}" for number in range(queues)]
        self.published: dict[str, set[bytes]] = defaultdict(set)
        self.doubtful: dict[str, set[bytes]] = defaultdict(set)
        self.acknowledged: dict[str, set[bytes]] = defaultdict(set)
        self._left = count
        self._is_wanted = True
        self._pause = pause
        self._number = 0
        self._random = random.Random(5)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def join(self, *, now: bool = False) -> None:
        """Wait for the last message; `now` for the next."""
        self._is_wanted = False
        if now:
            self._left = 0
        self._thread.join()

    def _goes_on(self) -> bool:
        return self._left > 0 or self._is_wanted

    def _run(self) -> None:
        while self._goes_on():
            try:
                with self.node.channel("/") as channel:
                    self._work(channel)
            except BROKEN:
                time.sleep(0.2)

    def _work(self, channel: object) -> None:
        for name in self.names:
            channel.queue_declare(name, durable=True)  # type: ignore[attr-defined]
        with channel.connection.channel() as bulk:  # type: ignore[attr-defined]
            bulk.tx_select()
            while self._goes_on():
                self._publish(bulk, self._random.choice(self.names), 100)
                self._consume(bulk, self._random.choice(self.names), 50)
                time.sleep(self._pause)

    def _publish(self, bulk: object, name: str, count: int) -> None:
        bodies = {f"{name} {self._number + each}".encode() for each in range(count)}
        self._number += count
        self._left -= count
        self.doubtful[name] |= bodies
        for body in sorted(bodies):
            bulk.basic_publish("", name, body, KEPT)  # type: ignore[attr-defined]
        bulk.tx_commit()  # type: ignore[attr-defined]
        self.doubtful[name] -= bodies
        self.published[name] |= bodies

    def _consume(self, bulk: object, name: str, count: int) -> None:
        got: set[bytes] = set()
        for _ in range(count):
            method, _, body = bulk.basic_get(name)  # type: ignore[attr-defined]
            if method is None:
                break
            bulk.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]
            got.add(body)
        bulk.tx_commit()  # type: ignore[attr-defined]
        self.acknowledged[name] |= got
