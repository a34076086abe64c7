"""What a node does when it is cut off: `cluster_partition_handling`.

Rules
 1. A store that is away does not stop anybody by itself: as long as most nodes see each other, what runs goes on, and nothing new
    is agreed (failsafe).
 2. A node that reaches neither the store nor most members is in a minority. In `pause_minority` it closes its clients and lets
    none in, so that they find the others; in `pause_if_all_down` it does so when none of the listed nodes is in sight.
 3. In `ignore` and `autoheal` it goes on serving its own queues, and takes publishes to mirrored ones into branches.
 4. A paused node resumes by itself, when its lease is renewed: before, the others may count it as gone, and drop what its clients
    declare.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

LOOK: Final = 0.5           # seconds between two looks
PATIENCE: Final = 2.0       # seconds that a store may be away before it counts: an election of its members takes as long


def reason_to_pause(mode: str, *, me: str, members: Collection[str], in_sight: Collection[str], pause_nodes: Collection[str],
                    store_away: float) -> str:
    """A sentence, or nothing. `in_sight` are the linked nodes; `store_away` is for how many seconds the store is unreachable."""
    if store_away < PATIENCE or len(members) < 2:
        return ""
    if mode == "pause_minority":
        seen = 1 + sum(1 for name in members if name in in_sight)
        return "" if 2 * seen > len(members) else \
            f"it reaches neither the store nor most nodes ({seen} of {len(members)} are in sight)"
    if mode != "pause_if_all_down" or me in pause_nodes or any(name in in_sight for name in pause_nodes):
        return ""
    return f"it reaches neither the store nor any of {', '.join(sorted(pause_nodes))}"


def goes_on_alone(mode: str, *, members: Collection[str], in_sight: Collection[str], store_away: float) -> bool:
    """Whether a node is cut off, and in a mode in which it takes publishes all the same."""
    seen = 1 + sum(1 for name in members if name in in_sight)
    return mode in ("ignore", "autoheal") and store_away >= PATIENCE and len(members) > 1 and 2 * seen <= len(members)


class Partition:
    """Looks now and then, pauses the node and lets it go on."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.reason = ""
        self._hindrance = ""        # why clients cannot be let in again although this node is not cut off any more

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    async def look(self) -> None:
        reason = self._find_reason()
        if reason and not self.reason:
            await self._pause(reason)
        elif self.reason and not reason and self._runtime.cluster.membership.is_certain:
            await self._resume()

    def _find_reason(self) -> str:
        runtime = self._runtime
        cluster, config = runtime.cluster, runtime.config
        reachability = cluster.store.reachability
        away = 0.0 if reachability.is_reachable else time.monotonic() - reachability.since
        return reason_to_pause(config.cluster_partition_handling, me=config.node_name, members=cluster.membership.members,
                               in_sight=cluster.neighbours, pause_nodes=config.pause_nodes, store_away=away)

    async def _pause(self, reason: str) -> None:
        self.reason = reason
        self._runtime.report("error", f"this node pauses: {reason}")
        await self._runtime.turn_out(f"node is paused: {reason}")

    async def _resume(self) -> None:
        hindrance = "" if self._runtime.is_drained else await self._runtime.listen_again()
        if hindrance != self._hindrance:
            self._hindrance = hindrance
            if hindrance:
                self._runtime.report("error", f"this node is not cut off any more and cannot serve clients: {hindrance}")
        if hindrance:
            return                  # the next look tries again
        self.reason = ""
        self._runtime.report("warning", "this node is not cut off any more and serves clients again")
