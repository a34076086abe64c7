"""Clients at work while Spark mirrors: publishers in transactions, consumers that acknowledge, while nodes die."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pika
import pika.exceptions

from compat.support import ServerProcess

from .support import KEPT

BROKEN = (pika.exceptions.AMQPError, OSError)


class Load:
    """Publishes into `queues` queues, in small transactions, and acknowledges a part: until it is told to end, and at least
    `count` messages; beyond those slowly. Whoever of the nodes answers is the one that it talks to.

    `published` are those whose transaction was committed; what was in doubt when the node died is in `doubtful` and sent no more.
    """

    def __init__(self, nodes: Sequence[ServerProcess], queues: int, count: int) -> None:
        self.nodes = list(nodes)
        self.names = [f"load.{number}" for number in range(queues)]
        self.published: dict[str, set[bytes]] = defaultdict(set)
        self.doubtful: dict[str, set[bytes]] = defaultdict(set)
        self.acknowledged: dict[str, set[bytes]] = defaultdict(set)
        self._run_size = 100 if count < 20_000 else 500
        self._left = count
        self._is_wanted = True
        self._acknowledging = threading.Lock()
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
        if self._thread.ident is not None:
            self._thread.join()

    @contextlib.contextmanager
    def without_acknowledging(self) -> Iterator[None]:
        """A leader that dies takes along what was said about its deliveries, as it should: then nobody could tell what counts."""
        with self._acknowledging:
            yield

    def _goes_on(self) -> bool:
        return self._left > 0 or self._is_wanted

    def _run(self) -> None:
        while self._goes_on():
            try:
                connection = pika.BlockingConnection(pika.URLParameters(self.nodes[0].url("/", query="?heartbeat=0")))
                with contextlib.closing(connection):
                    self._work(connection.channel())
            except BROKEN:
                self.nodes.append(self.nodes.pop(0))
                time.sleep(0.2)

    def _work(self, bulk: object) -> None:
        for name in self.names:
            bulk.queue_declare(name, durable=True)  # type: ignore[attr-defined]
        bulk.tx_select()  # type: ignore[attr-defined]
        while self._goes_on():
            self._publish(bulk, self._random.choice(self.names), self._run_size)
            if self._acknowledging.acquire(blocking=False):
                try:
                    self._consume(bulk, self._random.choice(self.names), 50)
                finally:
                    self._acknowledging.release()
            time.sleep(0.05 if self._left > 0 else 1.0)

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
