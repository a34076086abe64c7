"""What was cut off this node's logs, because the cluster had gone on without it: to be looked at, published again, or dropped.

Rules
 1. An item is known by `node/file`. Its node answers for it.
 2. Messages are published again to the queue of that name, at its end; the item goes when all of them are confirmed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.codec import properties_of
from mirrormq.broker.message import Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.log import quarantine
from mirrormq.log.entries import Entry
from mirrormq.log.errors import DamagedChunk
from mirrormq.log.lives import FOLDER

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

Json = dict[str, Any]
QUESTION = "quarantine_room"
PATIENCE = 60.0


class NoSuchItem(Exception):
    """Nothing is known by that name, or not any more."""


class Confirmed(Barrier):
    """All that was published with it is stable, or was refused."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def passed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def refuse(self, mark: int) -> None:
        self.refused += 1


async def publish_entries(runtime: Runtime, queue: Queue, entries: list[Entry]) -> int:
    """Enqueue messages as they were; returns how many the queue has taken for good."""
    barrier = Confirmed()
    barrier.outstanding = 1
    broker = runtime.broker
    refused = 0
    for entry in entries:
        message = Message(entry.content, entry.address, broker.infos.get(properties_of(entry.content)), entry.size)
        refused += not queue.publish(message, barrier)
    barrier.outstanding -= 1
    if barrier.outstanding:
        runtime.schedule()
        async with asyncio.timeout(PATIENCE):
            await barrier.done
    return 0 if barrier.is_lost else len(entries) - refused - barrier.refused


class QuarantineRoom:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def _folder(self) -> Path:
        return self._runtime.log.store.directory / FOLDER

    async def listed(self, front: AwayQueue) -> list[Json]:
        """Of all nodes that can be asked, oldest first."""
        about = {"do": "list", "id": front.log_id}
        told = await self._runtime.cluster.ask_all(QUESTION, about)
        items = [item for answer in [await self.answer(about), *told.values()] for item in answer]
        return sorted(items, key=lambda item: int(item["time_ms"]))

    async def settle(self, front: AwayQueue, item: str, *, requeue: bool) -> int:
        """Publish its messages again, or drop it; returns how many messages it was."""
        node, _, name = item.partition("/")
        about = {"do": "settle", "id": front.log_id, "name": name, "requeue": requeue}
        if node == self._runtime.broker.node_name:
            told = await self.answer(about)
        else:
            told = await self._runtime.cluster.ask(node, QUESTION, about)
        if told is None:
            raise NoSuchItem(item)
        return int(told)

    async def answer(self, about: Json) -> Any:
        found = [cut for cut in quarantine.listed(self._folder) if cut.queue_id == about["id"]]
        if about["do"] == "list":
            return [self._show(cut) for cut in found]
        for cut in found:
            if cut.path.name == about["name"]:
                return await self._settle(cut, requeue=about["requeue"])
        return None

    def _show(self, cut: quarantine.Quarantined) -> Json:
        try:
            count = len(quarantine.messages(cut.path))
        except (OSError, DamagedChunk):
            count = 0
        return {"id": f"{self._runtime.broker.node_name}/{cut.path.name}", "node": self._runtime.broker.node_name,
                "epoch": cut.epoch, "first": cut.first, "last": cut.last, "time_ms": cut.time_ms, "messages": count,
                "reason": cut.reason}

    async def _settle(self, cut: quarantine.Quarantined, *, requeue: bool) -> int | None:
        entries = quarantine.messages(cut.path)
        if requeue:
            front = self._runtime.broker.forwarding.mirrored.get(cut.queue_id)
            if front is None or await publish_entries(self._runtime, front, entries) < len(entries):
                return None
        quarantine.drop(cut.path, self._runtime.log.store.disk)
        return len(entries)
