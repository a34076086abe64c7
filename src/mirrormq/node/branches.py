"""Branches of mirrored queues: in `ignore` and `autoheal`, a node that is cut off goes on taking what its clients publish.

Rules
 1. A node that reaches neither the store nor most members opens a branch for each mirrored queue of which it holds a copy and
    whose leader cannot serve: because it is out of sight, or because it is this node and its ring is out of sight.
 2. A confirm says then that the message is on this disk. Queues with `ha-min-in-sync` above 1 have no branches: their publishers
    were promised more.
 3. When the node is not cut off any more, what is in its branches and has not expired is published to the real queue, marked with
    the header `x-branch`; a message leaves its branch when it is confirmed there, and not before. What the queue refuses stays,
    and is offered again.
 4. Branches survive a restart. One whose queue has been deleted goes.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.branch import BranchQueue, branch_id, marked, open_branch
from mirrormq.broker.message import Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.node.partition import LOOK, goes_on_alone

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

SLICE: Final = 1 << 20          # bytes that leave between two confirms
AGAIN: Final = 5.0              # seconds until what was refused is offered again


class Offer(Barrier):
    """Messages of a branch at the real queue. `refused` are the places of those that it did not take."""

    def __init__(self) -> None:
        super().__init__()
        self.outstanding = 1
        self.refused: set[int] = set()
        self.place = -1
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def mark(self) -> int:
        return self.place

    def refuse(self, mark: int) -> None:
        self.refused.add(mark)

    def passed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Branches:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._broker = runtime.broker
        self._branches: dict[int, BranchQueue] = {}         # by the id of the real queue
        self._draining: set[int] = set()

    def adopt(self, log_id: int) -> Queue | None:
        """The branch that a log is of, if it is of one: while the log is opened."""
        real = self._real(log_id - 1) if log_id & 1 else None
        return None if real is None else self._branch(real)

    def count(self, log_id: int) -> int:
        """Messages in the branch of a queue."""
        branch = self._branches.get(log_id)
        return 0 if branch is None else int(branch.backlog.count + branch.held)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self._runtime.tick()
            if self._is_cut_off():
                self._open_all()
            elif self._branches:
                self._close_all()

    def _is_cut_off(self) -> bool:
        runtime = self._runtime
        cluster, reachability = runtime.cluster, runtime.cluster.store.reachability
        away = 0.0 if reachability.is_reachable else time.monotonic() - reachability.since
        return goes_on_alone(runtime.config.cluster_partition_handling, members=cluster.membership.members,
                             in_sight=cluster.neighbours, store_away=away)

    # --- opening ------------------------------------------------------------------------------------------------------------

    def _open_all(self) -> None:
        for front in list(self._broker.forwarding.mirrored.values()):
            if front.branch is None and self._is_stranded(front):
                open_branch(front, self._branch(front))
                self._runtime.report("warning", f"queue '{front.name}' in vhost '{front.vhost}': this node is cut off; what its "
                                                "clients publish is kept in a branch until it is healed")
        self._runtime.schedule()

    def _is_stranded(self, front: AwayQueue) -> bool:
        me, in_sight = self._broker.node_name, self._runtime.cluster.neighbours
        enough = front.effective_policy.get("ha-min-in-sync", 1)
        if not front.durable or me not in (*front.holders, *front.learners) or (isinstance(enough, int) and enough > 1):
            return False
        if front.holders[0] == me:
            return any(node != me and node not in in_sight for node in front.holders)
        return front.holders[0] not in in_sight

    def _branch(self, real: Queue) -> BranchQueue:
        branch = self._branches.get(real.log_id)
        if branch is None:
            branch = self._branches[real.log_id] = BranchQueue(self._broker, real)
            self._broker.queues_by_log[branch_id(real.log_id)] = branch
        return branch

    # --- healing ------------------------------------------------------------------------------------------------------------

    def _close_all(self) -> None:
        for log_id, branch in self._branches.items():
            front = self._broker.forwarding.mirrored.get(log_id)
            if front is not None:
                front.branch = None
            if log_id not in self._draining:
                self._draining.add(log_id)
                self._runtime.cluster.spawn(self._drain(log_id, branch), f"bringing home {branch.name}")

    def _real(self, log_id: int) -> Queue | None:
        found = [queue for vhost in self._broker.vhosts.values() for queue in vhost.queues.values() if queue.log_id == log_id]
        return found[0] if found else None

    async def _drain(self, log_id: int, branch: BranchQueue) -> None:
        count = 0
        try:
            while branch.backlog.count and not self._is_cut_off():
                real = self._real(log_id)
                if real is None:
                    self._runtime.report("warning", f"{branch.backlog.count} messages of {branch.name} go with their queue")
                    break
                count += await self._pass_on(branch, real)
            if not self._is_open(log_id):
                del self._branches[log_id]
                branch.forget()
                self._runtime.schedule()
        finally:
            self._draining.discard(log_id)
        self._runtime.report("info", f"{count} messages of {branch.name} are in their queue now")

    def _is_open(self, log_id: int) -> bool:
        """Cut off again, perhaps."""
        front = self._broker.forwarding.mirrored.get(log_id)
        return self._is_cut_off() or (front is not None and front.branch is not None)

    async def _pass_on(self, branch: BranchQueue, real: Queue) -> int:
        messages = self._taken(branch)
        offer = Offer()
        for place, message in enumerate(messages):
            offer.place = place
            if not real.publish(marked(self._broker, message), offer):
                offer.refused.add(place)
        offer.outstanding -= 1
        self._runtime.schedule()
        if offer.outstanding:
            await offer.done
        for place, message in enumerate(messages):
            if offer.is_lost or place in offer.refused:
                branch.requeue(message)
            else:
                branch.acknowledge(message)
        self._runtime.schedule()
        if offer.is_lost or offer.refused:
            await asyncio.sleep(AGAIN)
        return 0 if offer.is_lost else len(messages) - len(offer.refused)

    def _taken(self, branch: BranchQueue) -> list[Message]:
        """The next messages, without those whose time is over."""
        messages: list[Message] = []
        size = 0
        while branch.backlog.count and size < SLICE:
            message = branch.backlog.pop()
            branch.hold(message)
            if message.expires < self._broker.now:
                branch.acknowledge(message)
            else:
                messages.append(message)
                size += len(message.content)
        return messages
