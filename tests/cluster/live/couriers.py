"""Load on a cluster under faults: couriers publish numbered messages to several queues and remember what was confirmed; takers
consume, reconnect when they must, and remember what they got.

A courier never publishes a number twice, so every second receipt is the broker's doing and must say `redelivered`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress

from live.load import PERSISTENT, Client, Gone
from mirrormq.wire.frames import content_frames, method_frame
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    decode_method,
)

STEP = 10 ** 12         # numbers of different couriers do not meet
PAUSE = 0.05
ROUNDS = 20             # pauses of a taker in which nothing came although the queue has some, until that is a finding


class Courier(threading.Thread):
    """Publishes to its queues in turn, at most `window` unconfirmed."""

    def __init__(self, number: int, port: int, queues: list[str], window: int = 200) -> None:
        super().__init__(name=f"courier {number}")
        self.port = port
        self.queues = queues
        self.window = window
        self.next = number * STEP + 1
        self.confirmed: dict[str, set[int]] = {queue: set() for queue in queues}
        self.refused = 0
        self.reconnects = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            with suppress(Gone, OSError, AssertionError):
                self._session()
            self.reconnects += 1
            self.stopping.wait(PAUSE)

    def _session(self) -> None:
        client = Client(self.port)
        pending: dict[int, tuple[str, int]] = {}
        try:
            client.call(ConfirmSelect(), "confirm.select-ok")
            sequence = 0
            while not self.stopping.is_set() or pending:
                while len(pending) < self.window and not self.stopping.is_set():
                    sequence += 1
                    queue = self.queues[sequence % len(self.queues)]
                    pending[sequence] = (queue, self.next)
                    client.send(method_frame(1, BasicPublish("", queue))
                                + content_frames(1, PERSISTENT, b"%019d" % self.next, 131072))
                    self.next += 1
                if client.has_input(0.05):
                    self._hear(client, pending)
        finally:
            client.close()

    def _hear(self, client: Client, pending: dict[int, tuple[str, int]]) -> None:
        if not client.waiting:
            client.read()
        while client.waiting:
            method = decode_method(client.waiting.pop(0).payload)
            assert isinstance(method, BasicAck | BasicNack), method
            tags = [tag for tag in pending if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
            for tag in tags:
                queue, number = pending.pop(tag)
                if isinstance(method, BasicAck):
                    self.confirmed[queue].add(number)
                else:
                    self.refused += 1


class Taker(threading.Thread):
    """Consumes one queue until told to stop and nothing more comes."""

    def __init__(self, port: int, queue: str, idle: float = 2.0) -> None:
        super().__init__(name=f"taker of {queue}")
        self.port = port
        self.queue = queue
        self.idle = idle
        self.got: list[tuple[int, bool]] = []
        self.left = 0                   # that the queue still had when nothing more came
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self._is_done():
            self.stopping.wait(PAUSE)

    def _is_done(self) -> bool:
        try:
            client = Client(self.port)
        except (Gone, OSError, AssertionError):
            return False
        try:
            client.call(BasicQos(0, 100), "basic.qos-ok")
            client.call(BasicConsume(self.queue), "basic.consume-ok")
            return self._take(client)
        except (Gone, OSError, AssertionError):
            return False
        finally:
            client.close()

    def _take(self, client: Client) -> bool:
        """True when there is no more to come; False when the consumer has been cancelled."""
        tag, redelivered, pauses = 0, False, 0
        while True:
            if not client.has_input(self.idle if self.stopping.is_set() else 0.2):
                if self.stopping.is_set():
                    answer = client.call(QueueDeclare(self.queue, passive=True), "queue.declare-ok")    # the acks have arrived
                    assert isinstance(answer, QueueDeclareOk)
                    self.left = answer.message_count
                    pauses += 1
                    if not self.left or pauses == ROUNDS:
                        return True
                continue
            if not client.waiting:
                client.read()
            while client.waiting:
                frame = client.waiting.pop(0)
                if frame.kind == 1:
                    method = decode_method(frame.payload)
                    if isinstance(method, BasicCancel | ChannelClose):
                        return False
                    assert isinstance(method, BasicDeliver), method
                    tag, redelivered = method.delivery_tag, method.redelivered
                elif frame.kind == 3:
                    self.got.append((int(frame.payload), redelivered))
            client.send(method_frame(1, BasicAck(tag, multiple=True)))


def check(couriers: list[Courier], takers: list[Taker]) -> int:
    """Nothing confirmed is missing, order of each courier is kept, a second receipt says so. Returns how many were confirmed."""
    confirmed = 0
    for taker in takers:
        assert not taker.left, f"{taker.queue} holds back {taker.left} messages"
        seen: set[int] = set()
        last: dict[int, int] = defaultdict(int)
        for number, redelivered in taker.got:
            if number in seen:
                assert redelivered, f"{number} came twice from {taker.queue} and looked new"
                continue
            seen.add(number)
            courier = number // STEP
            assert number > last[courier], f"{number} came from {taker.queue} after {last[courier]}"
            last[courier] = number
        for courier_ in couriers:
            wanted = courier_.confirmed.get(taker.queue, set())
            confirmed += len(wanted)
            missing = sorted(wanted - seen)
            assert not missing, f"{len(missing)} confirmed to {courier_.name} are missing from {taker.queue}, first {missing[:3]}"
    return confirmed
