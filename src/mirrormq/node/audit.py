"""Every change of leader leaves a record in the store, with what was compared and what it came to.

Rules
 1. The new leader writes it when it serves: why it leads, where it and the others stood, what came back to be delivered again,
    and how long detecting, electing and serving took.
 2. The verdict is computed: nothing that was confirmed is missing if the new leader's log reaches as far as everything that any
    survivor knows to be stable. Where a leader that is gone may have confirmed more, alone, the verdict says that instead.
    By this the logs are the same; whether what they come to is the same is compared too, and told (mirror/machine/compare.py).
    With a member in another state nobody knows what is lost. A comparison that comes after the record was written corrects it.
 3. The last KEPT records of each queue are kept; they go with the queue. The others are removed when nothing is to be written.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.cluster.coordination import (
    Coordination,
    CoordinationError,
    Delete,
    DeletePrefix,
    Put,
    Transaction,
    Unchanged,
)
from mirrormq.cluster.coordination.port import MAX_WRITES
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.effects import BecameLeader, Compared

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

PREFIX: Final = "failover/"
KEPT: Final = 40            # records of one queue
ROUND: Final = 200
KNOWN_EPOCHS: Final = 16    # whose beginnings a survivor remembers
COMPARING: Final = 0.3      # seconds that a record waits until the members are compared
KNEW: Final = "knew"        # the question what a survivor knew to be confirmed

Json = dict[str, Any]
Amendment = Callable[[Json], None]


class Open:
    """The newest record of a queue, and the members of its ring that the leader has not compared itself with."""

    def __init__(self, record: Json) -> None:
        self.record = record
        self.missing = set(record["members"][1:])
        self.is_written = False


class Audit:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._news: list[tuple[int, Json]] = []
        self._gone: list[int] = []
        self._open: dict[int, Open] = {}            # by queue: its newest record, if members are to be compared yet
        self._amendments: dict[tuple[int, int], list[Amendment]] = {}       # by queue and epoch
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
            "epoch": effect.epoch, "time_ms": self._runtime.broker.wall(), "old_leader": former, "new_leader": state.me,
            "cause": effect.why, "forced": effect.forced, "end": state.end,
            "known_stable": {state.me: knew(holding, effect.epoch) or 0}, "requeued": requeued,
            "messages": 0 if holding.queue is None else holding.queue.backlog.count + holding.queue.held, "quarantined": {},
            "members": list(state.view.ring), "learners": list(state.view.learners),
            "elect_ms": round((state.now - lost_at) * 1000), "serve_ms": round((now - lost_at) * 1000),
            "vhost": holding.front.vhost, "queue": holding.front.name, "compared": {},
        }
        record["asynchronous"] = state.desired is not None and state.desired.asynchronous and former not in state.linked
        self._news.append((holding.log_id, record))
        self._open[holding.log_id] = Open(record)
        self._has_news.set()

    def compared(self, holding: Holding, effect: Compared) -> None:
        """The first time since this node leads counts. A member that has left the ring since may have taken its copy anew."""
        log_id, node = holding.log_id, effect.node
        about = self._open.get(log_id)
        if about is None or node not in about.missing:
            return
        about.missing.discard(node)
        found = [effect.are_equal, effect.mine, effect.theirs]
        if node in holding.state.view.ring:
            about.record["compared"][node] = found
            if about.is_written:
                self._amend(log_id, about.record["epoch"], partial(note_compared, node=node, found=found))
        if about.is_written and not about.missing:
            del self._open[log_id]

    def orphaned(self, log_id: int, epoch: int, count: int) -> None:
        """Messages of this node are in quarantine, which whoever took over by force in that epoch did not have."""
        self._amend(log_id, epoch, partial(note_quarantined, node=self._runtime.broker.node_name, count=count))

    def _amend(self, log_id: int, epoch: int, amendment: Amendment) -> None:
        self._amendments.setdefault((log_id, epoch), []).append(amendment)
        self._has_news.set()

    def forget(self, log_id: int, *, has_records: bool) -> None:
        """The queue is deleted. Whoever led it removes its records."""
        self._open.pop(log_id, None)
        if has_records:
            self._gone.append(log_id)
            self._has_news.set()

    async def write(self) -> None:
        """Until cancelled; a store that does not answer is asked again."""
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            news, gone = self._news[:ROUND], self._gone[:ROUND]
            await self._hear(news)
            compared = [set(record["compared"]) for _, record in news]
            if await is_stored(self._runtime.cluster.store, news, gone):
                del self._news[:len(news)], self._gone[:len(gone)]
                for (log_id, record), nodes in zip(news, compared, strict=True):
                    self._is_written(log_id, record, nodes)
                self._long |= {log_id for log_id, record in news if record["epoch"] > KEPT}
            else:
                await asyncio.sleep(1)
            if self._amendments and not self._news and not await self._tell_amendments():
                await asyncio.sleep(1)
            if self._news or self._gone or self._amendments:
                self._has_news.set()
            else:
                await self._shorten()

    def _is_written(self, log_id: int, record: Json, compared: set[str]) -> None:
        """With these comparisons. Others have come while the store wrote it, or will."""
        for node in record["compared"].keys() - compared:
            self._amend(log_id, record["epoch"], partial(note_compared, node=node, found=record["compared"][node]))
        about = self._open.get(log_id)
        if about is not None and about.record is record:
            about.is_written = True
            if not about.missing:
                del self._open[log_id]

    async def _tell_amendments(self) -> bool:
        """Into records that are written; False where the store must be asked again."""
        store = self._runtime.cluster.store
        batch = [(*place, list(self._amendments[place])) for place in islice(self._amendments, ROUND)]
        outcomes = await asyncio.gather(*(is_amended(store, *each) for each in batch))
        for (log_id, epoch, told), is_done in zip(batch, outcomes, strict=True):
            if is_done:
                left = self._amendments.pop((log_id, epoch))[len(told):]
                if left:
                    self._amendments[log_id, epoch] = left
        return all(outcomes)

    async def _shorten(self) -> None:
        """What the store does not do now is done after the next record."""
        with suppress(CoordinationError):
            while self._long and not self._has_news.is_set():
                await shorten(self._runtime.cluster.store, self._long.pop())

    async def _hear(self, news: list[tuple[int, Json]]) -> None:
        """The survivors say what they knew to be confirmed."""
        about = {"do": KNEW, "queues": [[log_id, record["epoch"]] for log_id, record in news]}
        told = await self._runtime.cluster.ask_all("ring_orders", about) if news else {}
        if any(len(record["compared"]) < len(record["members"]) - 1 for _, record in news):
            await asyncio.sleep(COMPARING)
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
    quarantined: dict[str, int] = record.get("quarantined", {})
    if is_open:
        record["lost"] = max(quarantined.values(), default=None)
    else:
        record["lost"] = max(0, known - record["end"]) or (None if _differing(record) else 0)
    record["verdict"] = _verdict(record, known)


def _differing(record: Json) -> list[str]:
    """The members whose state is not the new leader's."""
    members, compared = record.get("members", []), record.get("compared", {})
    return [node for node, (is_equal, _, _) in compared.items() if node in members and not is_equal]


def _verdict(record: Json, known: int) -> str:
    if record["forced"]:
        held = f"{record['new_leader']} was not in sync and held {record['messages']} messages"
        quarantined = record.get("quarantined", {})
        found = " and ".join(f"{count} on {node}" for node, count in sorted(quarantined.items()))
        if found:
            return f"{held}; in quarantine are messages that it did not have: {found}"
        return f"{held}; how many the others had beyond that is not known until they are back"
    if record["asynchronous"]:
        return (f"replication is asynchronous: {record['new_leader']} holds everything up to {record['end']}; what "
                f"{record['old_leader']} confirmed beyond that is in quarantine when it is back{_states(record)}")
    return (f"{_loss(record)}: {record['new_leader']} holds everything up to {record['end']}, and up to "
            f"{known} is known to be confirmed, by the word of {' and '.join(record['known_stable'])}{_states(record)}")


def _loss(record: Json) -> str:
    if record["lost"] is None:
        return "it is not known whether confirmed messages are lost"
    at_least = "at least " if _differing(record) else ""
    return f"{at_least}{record['lost']} confirmed messages lost"


def _states(record: Json) -> str:
    """How the states of the other members are, which the new leader compares with its own when it takes over."""
    words: list[str] = []
    compared = record.get("compared", {})
    for node in record.get("members", [])[1:]:
        if node not in compared:
            words.append(f"the state of {node} is not compared yet, so this rests on the ends of the logs alone")
            continue
        is_equal, mine, theirs = compared[node]
        words.append(f"{node} is in the same state, with {mine} persistent messages" if is_equal else
                     f"{node} is in another state, with {theirs} persistent messages and not {mine}: it takes its copy anew")
    return "".join(f"; {word}" for word in words)


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


async def is_amended(store: Coordination, log_id: int, epoch: int, amendments: Sequence[Amendment]) -> bool:
    """Judge a written record anew. False where it was changed meanwhile, or the store does not answer."""
    place = f"{_prefix(log_id)}{epoch:012d}"
    try:
        found = (await store.read(place)).items.get(place)
        if found is None:
            return True
        record = json.loads(found.value)
        for amend in amendments:
            amend(record)
        judge(record)
        return (await store.transact([Unchanged(place, found.revision)], [_put(log_id, record)])).succeeded
    except CoordinationError:
        return False


def note_quarantined(record: Json, *, node: str, count: int) -> None:
    quarantined = record.setdefault("quarantined", {})
    quarantined[node] = quarantined.get(node, 0) + count


def note_compared(record: Json, *, node: str, found: list[Any]) -> None:
    record["compared"][node] = found


async def shorten(store: Coordination, log_id: int) -> None:
    """Remove all but the newest records of a queue."""
    found = await store.read(_prefix(log_id))
    old = sorted(found.items)[:-KEPT]
    for start in range(0, len(old), MAX_WRITES):
        await store.transact([], [Delete(name) for name in old[start : start + MAX_WRITES]])
