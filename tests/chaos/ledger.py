"""What the clients know to be true: what was confirmed, received and committed, and what was found to be wrong."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class Number(NamedTuple):
    """A message: a publisher never publishes the same serial number twice. Order is promised within a session."""

    publisher: int
    session: int
    serial: int

    @property
    def body(self) -> bytes:
        return b"%d %d %d" % self

    @staticmethod
    def of(body: bytes) -> Number:
        return Number(*map(int, body.split()))


@dataclass
class QueueLedger:
    """`may_lose`: its policy allows that a mirror leads that is not in sync."""

    name: str
    may_lose: bool = False
    confirmed: set[Number] = field(default_factory=set)
    received: set[Number] = field(default_factory=set)
    new: set[Number] = field(default_factory=set)           # received with `redelivered` false
    committed: set[Number] = field(default_factory=set)     # acknowledged in a transaction that was committed
    lost: int = 0
    epoch: int = 0                                          # of the last failover that was counted
    told: dict[int, int | None] = field(default_factory=dict)  # by epoch, what records say is lost; brokers keep the newest only

    @property
    def missing(self) -> set[Number]:
        return self.confirmed - self.received


@dataclass(frozen=True)
class Finding:
    kind: str
    text: str
    at: float
    round: int


class Ledger:
    """Shared by the threads of all clients."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.lock = threading.Lock()
        self.queues: dict[str, QueueLedger] = {}
        self.findings: list[Finding] = []
        self.totals: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()      # why the server closed channels and connections
        self.round = 0
        self._begin = time.monotonic()

    def find(self, kind: str, text: str) -> None:
        finding = Finding(kind, text, time.monotonic() - self._begin, self.round)
        self.findings.append(finding)
        self.say(f"FOUND {kind}: {text}")

    def begin(self, queues: list[QueueLedger]) -> None:
        """New queues: what is known of others is forgotten."""
        with self.lock:
            self.queues = {queue.name: queue for queue in queues}

    def confirm(self, queue: str, numbers: list[Number]) -> None:
        with self.lock:
            self.totals["confirmed"] += len(numbers)
            self.queues[queue].confirmed.update(numbers)

    def receive(self, queue: str, number: Number, *, redelivered: bool) -> None:
        with self.lock:
            ledger = self.queues[queue]
            self.totals["received"] += 1
            self.totals["received again"] += number in ledger.received
            is_committed, is_new_again = number in ledger.committed, not redelivered and number in ledger.new
            ledger.received.add(number)
            if not redelivered:
                ledger.new.add(number)
        if is_committed:
            self.find("a committed acknowledgement was undone", f"{number} came from {queue} again")
        if is_new_again:
            self.find("delivered twice as new", f"{number} came from {queue} twice with redelivered false")

    def commit(self, queue: str, numbers: list[Number]) -> None:
        with self.lock:
            self.totals["committed"] += len(numbers)
            self.queues[queue].committed.update(numbers)
