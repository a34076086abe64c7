"""When it is worked out what policies want of mirrors, and of which queues.

Rules
 1. Every change of a policy or of who is up is followed by working out anew what is wanted of every queue, and every change of a
    view by what is wanted of that queue: level-triggered.
 2. A node that is stopping wants nothing more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirrormq.broker.policy import merge
from mirrormq.broker.queue import Queue
from mirrormq.broker.ruling import policies_for
from mirrormq.cluster.wishes import Nodes, Standing, desired, first_ring, is_same
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.inputs import ForceLead, SetDesired
from mirrormq.mirror.machine.records import Desired
from mirrormq.mirror.rings import Rings
from mirrormq.node.mirror_keys import put_policies

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime


class Wishing:
    def __init__(self, runtime: Runtime, rings: Rings, begin: Callable[[list[Queue]], None]) -> None:
        self._runtime = runtime
        self._rings = rings
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._is_on = False
        self._due: set[int] = set()             # queues to look at
        self._are_all_due = False
        self._ruled: set[str] = set()           # virtual hosts that have the configured policy

    def start(self) -> None:
        """The log is open, and every queue is known that this node holds."""
        self._is_on = True
        self.look_again()

    def stop(self) -> None:
        self._is_on = False

    def ring_for(self, vhost: str, name: str, home: str) -> list[str]:
        """A new queue's leader and mirrors; empty if it is not mirrored."""
        definition = merge(*policies_for(self._runtime.broker, vhost, name, "queue"))
        return first_ring(definition, home, self._nodes(home).running, _pick) if "ha-mode" in definition else []

    def look_again(self) -> None:
        """Policies or members have changed."""
        self._look_soon()
        self._are_all_due = True

    def look_at(self, log_id: int) -> None:
        self._look_soon()
        self._due.add(log_id)

    def _look_soon(self) -> None:
        if not self._due and not self._are_all_due:
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        due, is_all = self._due, self._are_all_due
        self._due, self._are_all_due = set(), False
        if not self._is_on:
            return
        by_id = self._rings.by_id
        for holding in list(by_id.values()) if is_all else [by_id[log_id] for log_id in due if log_id in by_id]:
            self._wish(holding)
            self._replace_forgotten(holding)
        if is_all:
            put_policies(self._runtime, self._ruled)
            self._begin([queue for vhost in self._runtime.broker.vhosts.values() for queue in vhost.queues.values()
                         if not queue.is_away and not queue.exclusive and "ha-mode" in queue.effective_policy])

    def _wish(self, holding: Holding) -> None:
        wanted = self._desired(holding)
        if wanted is not None and not is_same(wanted, holding.state.desired):
            self._rings.give(holding, SetDesired(wanted))

    def _replace_forgotten(self, holding: Holding) -> None:
        """Every node that was in sync has been forgotten: the first that has a copy goes on with what it has."""
        view, membership = holding.state.view, self._runtime.cluster.membership
        if any(node in membership.members for node in view.ring) or holding.state.proposal is not None:
            return
        able = [node for node in view.learners if node in membership.running]
        if able and able[0] == self._rings.me:
            self._rings.give(holding, ForceLead(f"{self._rings.me} leads because {' and '.join(view.ring)} was forgotten"))

    def _desired(self, holding: Holding) -> Desired | None:
        view = holding.state.view
        if not view.ring:
            return None
        now = Standing(view.ring[0], view.ring[1:] + view.learners, view.ring[1:])
        config = self._runtime.config
        return desired(holding.front.effective_policy, now, self._nodes(view.ring[0]), _pick,
                       rate=config.mirroring_sync_max_throughput, revision=self._runtime.cluster.replica.revision,
                       gather=config.sync_interval)

    def _nodes(self, leader: str) -> Nodes:
        membership = self._runtime.cluster.membership
        running = sorted({*membership.running, self._rings.me}, key=lambda name: (name != leader, name))
        return Nodes(tuple(membership.members), tuple(running))


def _pick(names: Sequence[str], count: int) -> list[str]:
    left = list(names)
    return [left.pop(secrets.randbelow(len(left))) for _ in range(count)]
