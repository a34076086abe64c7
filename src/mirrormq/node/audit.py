"""Every change of leader leaves a record in the store, with what was compared and what it came to.

Rules
 1. The new leader writes it when it serves: why it leads, where it and the others stood, what came back to be delivered again,
    and how long detecting, electing and serving took.
 2. The verdict is computed: nothing that was confirmed is missing if the new leader's log reaches as far as everything that any
    survivor knows to be stable. Where a leader that is gone may have confirmed more, alone, the verdict says that instead.
 3. The last KEPT records of each queue are kept; they go with the queue. The others are removed when nothing is to be written.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.cluster.coordination import Coordination, CoordinationError, Delete, DeletePrefix, Put, Transaction
from mirrormq.cluster.coordination.port import MAX_WRITES
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.effects import BecameLeader

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

PREFIX: Final = "failover/"
KEPT: Final = 40            # records of one queue
ROUND: Final = 200
KNOWN_EPOCHS: Final = 16    # whose beginnings a survivor remembers
KNEW: Final = "knew"        # the question what a survivor knew to be confirmed

Json = dict[str, Any]


class Audit:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._news: list[tuple[int, Json]] = []
        self._gone: list[int] = []
        self._long: set[int] = set()                # queues that may have more records than are kept
        self._has_news = asyncio.Event()
        self._lost_at: dict[str, float] = {}        # when the links to nodes broke

    def link_lost(self, node: str, now: float) -> None:
        self._lost_at[node] = now

    def link_found(self, node: str) -> None:
        self._lost_at.pop(node, None)

    def led(self, holding: Holding, effect: BecameLeader, requeued: int) -> None:
        state, former, now = holding.state, holding.former, self._runtime.mirroring.now()
        lost_at = self._lost_at.get(former, now)
        record: Json = {
            "epoch": effect.epoch, "time_ms": self._runtime.broker.now, "old_leader": former, "new_leader": state.me,
            "cause": effect.why, "forced": effect.forced, "end": state.end,
            "known_stable": {state.me: knew(holding, effect.epoch) or 0}, "requeued": requeued,
            "members": list(state.view.ring), "learners": list(state.view.learners),
            "elect_ms": round((state.now - lost_at) * 1000), "serve_ms": round((now - lost_at) * 1000),
            "vhost": holding.front.vhost, "queue": holding.front.name,
        }
        record["asynchronous"] = state.desired is not None and state.desired.asynchronous and former not in state.linked
        self._news.append((holding.log_id, record))
        self._has_news.set()

    def forget(self, log_id: int) -> None:
        """The queue is deleted."""
        self._gone.append(log_id)
        self._has_news.set()

    async def write(self) -> None:
        """Until cancelled; a store that does not answer is asked again."""
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            news, gone = self._news[:ROUND], self._gone[:ROUND]
            await self._hear(news)
            if await is_stored(self._runtime.cluster.store, news, gone):
                del self._news[:len(news)], self._gone[:len(gone)]
                self._long |= {log_id for log_id, record in news if record["epoch"] > KEPT}
            else:
                await asyncio.sleep(1)
            if self._news or self._gone:
                self._has_news.set()
            else:
                await self._shorten()

    async def _shorten(self) -> None:
        """What the store does not do now is done after the next record."""
        with suppress(CoordinationError):
            while self._long and not self._has_news.is_set():
                await shorten(self._runtime.cluster.store, self._long.pop())

    async def _hear(self, news: list[tuple[int, Json]]) -> None:
        """The survivors say what they knew to be confirmed."""
        about = {"do": KNEW, "queues": [[log_id, record["epoch"]] for log_id, record in news]}
        told = await self._runtime.cluster.ask_all("ring_orders", about) if news else {}
        for at, (_, record) in enumerate(news):
            record["known_stable"] |= {node: marks[at] for node, marks in sorted(told.items()) if marks and marks[at] is not None}
            judge(record)

    async def records(self, front: AwayQueue) -> list[Json]:
        """Newest first."""
        found = await self._runtime.cluster.store.read(_prefix(front.log_id))
        records = [json.loads(item.value) for item in found.items.values()]
        return sorted(records, key=lambda record: -record["epoch"])


def note_epoch(holding: Holding, epoch: int) -> None:
    """Before it is told of a view: what it will be asked when that epoch has begun."""
    if epoch > holding.state.epoch:
        holding.former = holding.state.view.ring[0]
        holding.knew[epoch] = holding.state.stable
        while len(holding.knew) > KNOWN_EPOCHS:
            del holding.knew[min(holding.knew)]


def knew(holding: Holding | None, epoch: int) -> int | None:
    """What this node knew to be confirmed before that epoch; None where it holds no copy, or has seen too many since."""
    if holding is None:
        return None
    return holding.state.stable if holding.state.epoch < epoch else holding.knew.get(epoch)


def judge(record: Json) -> None:
    known = max(record["known_stable"].values())
    is_open = record["forced"] or record["asynchronous"]
    record["lost"] = None if is_open else max(0, known - record["end"])
    record["verdict"] = _verdict(record, known)


def _verdict(record: Json, known: int) -> str:
    if record["forced"]:
        return "this leader was not in sync: what only the others had confirmed is missing until they return"
    if record["asynchronous"]:
        return (f"replication is asynchronous: {record['new_leader']} holds everything up to {record['end']}; what "
                f"{record['old_leader']} confirmed beyond that is in quarantine when it is back")
    return (f"{record['lost']} confirmed messages lost: {record['new_leader']} holds everything up to {record['end']}, and up to "
            f"{known} is known to be confirmed, by the word of {' and '.join(record['known_stable'])}")


def _prefix(log_id: int) -> str:
    return f"{PREFIX}{log_id:016x}/"


def _put(log_id: int, record: Json) -> Put:
    return Put(f"{_prefix(log_id)}{record['epoch']:012d}", json.dumps(record, ensure_ascii=True))


async def is_stored(store: Coordination, news: list[tuple[int, Json]], gone: list[int]) -> bool:
    """Write records, and remove those of queues that are gone; what did not happen as a whole may be repeated."""
    transactions = [Transaction([], [_put(log_id, record)]) for log_id, record in news]
    transactions += [Transaction([], [DeletePrefix(_prefix(log_id))]) for log_id in gone]
    try:
        outcomes = await store.transact_many(transactions)
    except CoordinationError:
        return False
    return not any(isinstance(outcome, CoordinationError) for outcome in outcomes)


async def shorten(store: Coordination, log_id: int) -> None:
    """Remove all but the newest records of a queue."""
    found = await store.read(_prefix(log_id))
    old = sorted(found.items)[:-KEPT]
    for start in range(0, len(old), MAX_WRITES):
        await store.transact([], [Delete(name) for name in old[start : start + MAX_WRITES]])
