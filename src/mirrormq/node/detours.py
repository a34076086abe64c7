"""Ways round a link that is missing between two nodes that are both up.

A mirrored queue goes on by itself when its members lose sight of each other. But clients of a node that does not see the leader
would wait for as long as that lasts, although others see both.

Rules
 1. Only queues that clients here wait for, and only after the two nodes have missed each other for some seconds: whatever else
    such a cut brings about is over by then.
 2. The first member in sync that is seen from here is asked. It has the leader hand over to it, as if an operator had said so;
    rings lose and double nothing by that.
 3. It is asked again after AGAIN: a policy that names the leader may take the lead back.
 4. After GIVE_UP seconds clients here are answered as if the other node were down, unless a member in sync is in sight: publishes
    are refused, consumers cancelled, requests are 404. A new link ends that.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.embassy import Embassy
from mirrormq.node.ring_orders import QUESTION, TAKE

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

LOOK: Final = 1.0
AGAIN: Final = 10.0
GIVE_UP: Final = 10.0       # as long as the lease of a node that is silent to everybody
AT_ONCE: Final = 100        # queues in one question


class Detours:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._cluster = runtime.cluster
        self._asked: dict[int, float] = {}      # when, by queue

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            missed = self._cluster.parted()
            if missed:
                await self._ask(missed)
                self._give_up()
            else:
                self._asked.clear()

    def _give_up(self) -> None:
        forwarding = self._runtime.broker.forwarding
        for name in self._cluster.parted(GIVE_UP):
            if not forwarding.is_gone(name):
                self._runtime.report("warning", f"node {name} is up and cannot be reached from here: clients of this node "
                                                "do not wait for its queues any longer")
                forwarding.out_of_reach(name)

    async def _ask(self, missed: list[str]) -> None:
        embassies = self._runtime.broker.forwarding.embassies
        wanted: defaultdict[str, list[int]] = defaultdict(list)
        for embassy in [embassies[name] for name in missed if name in embassies]:
            for queue in waited_for(embassy):
                self._add(queue, wanted)
        for name, ids in wanted.items():
            for start in range(0, len(ids), AT_ONCE):
                await self._cluster.ask(name, QUESTION, {"do": TAKE, "ids": ids[start : start + AT_ONCE]})

    def _add(self, queue: AwayQueue, wanted: dict[str, list[int]]) -> None:
        now = self._cluster.loop_time()
        seen = [name for name in queue.holders if name in self._cluster.neighbours]
        if seen and now >= self._asked.get(queue.log_id, 0.0) + AGAIN:
            self._asked[queue.log_id] = now
            wanted[seen[0]].append(queue.log_id)


def waited_for(embassy: Embassy) -> list[AwayQueue]:
    """Mirrored queues there that clients here have sent something, asked something or consume from."""
    waiting = {consumer.away.log_id for consumer in embassy.consumers.values()}
    waiting |= {request.queue.log_id for request in embassy.requests.values()}
    return [queue for queue in embassy.queues.values()
            if queue.is_mirrored and (queue.log_id in waiting or queue.unconfirmed or queue.run is not None)]
