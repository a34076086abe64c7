"""What operators want to know of mirrored queues, and to have done with them. The leader answers; others ask it.

Rules
 1. Every node can be asked. What concerns one queue is done by the node that leads it.
 2. The lead moves only to a mirror that is in sync. One rebalance at a time in the whole cluster.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.cluster.coordination import Absent, CoordinationError, Put
from mirrormq.cluster.rebalance import CONNECTIONS, QUEUES, Led, Move, plan
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.backfill import is_ordered
from mirrormq.mirror.machine.inputs import HandOver, Sync
from mirrormq.mirror.machine.state import LEADER, ROLES
from mirrormq.mirror.machine.succession import has_lost_everything
from mirrormq.node.audit import KNEW, knew

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

QUESTION: Final = "ring_orders"
LOCK: Final = "rebalance"
MOVING: Final = 5.0             # seconds that a move may take
HEARING: Final = 2.0            # seconds in which this node hears of one that was made
TAKE: Final = "take"            # the request of a node that sees this one, and not the leaders
OK: Final = "ok"
NOT_MIRRORED: Final = "not_mirrored"
NOT_SYNCING: Final = "not_syncing"
IN_PROGRESS: Final = "rebalance_in_progress"

Json = dict[str, Any]


class RingOrders:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._broker = runtime.broker
        self._cluster = runtime.cluster

    @property
    def _holdings(self) -> dict[int, Holding]:
        return self._runtime.mirroring.rings.by_id

    def front(self, log_id: int) -> AwayQueue | None:
        return self._broker.forwarding.mirrored.get(log_id)

    # --- asking who leads ---------------------------------------------------------------------------------------------

    async def _at_leader(self, front: AwayQueue, what: str, **more: Any) -> Any:
        about = {"do": what, "id": front.log_id, **more}
        if front.home == self._broker.node_name:
            return await self.answer(about)
        return await self._cluster.ask(front.home, QUESTION, about)

    async def answer(self, about: Json) -> Any:
        """This node is asked, perhaps by another."""
        what = about["do"]
        if what == "clients":
            return len(self._broker.connections)
        if what == KNEW:
            return [knew(self._holdings.get(log_id), epoch) for log_id, epoch in about["queues"]]
        if what == TAKE:
            return await self._take(about["ids"])
        holding = self._holdings.get(about["id"])
        if what == "standpoint":
            return None if holding is None else standpoint(holding)
        if holding is None or holding.state.role != LEADER:
            return None
        if what == "show":
            return show(holding)
        if what == "sync":
            return self._sync(holding, on=about["on"])
        if what == "move":
            return await self._move(holding, about["to"])
        return None

    # --- sync -----------------------------------------------------------------------------------------------------------

    async def sync(self, front: AwayQueue, *, on: bool) -> str:
        """A word of RabbitMQ's, or a sentence."""
        told = await self._at_leader(front, "sync", on=on)
        if isinstance(told, str):
            return told
        return await self.why_unled(front) or f"the leader of queue '{front.name}' in vhost '{front.vhost}' does not answer"

    def _sync(self, holding: Holding, *, on: bool) -> str:
        partial = [node for node, point in holding.state.learner_marks.items() if not point.whole]
        if not on and not (partial and is_ordered(holding.state)):
            return NOT_SYNCING
        self._runtime.mirroring.rings.give(holding, Sync(on))
        self._broker.schedule()
        return OK

    # --- who leads ------------------------------------------------------------------------------------------------------

    async def move(self, front: AwayQueue, to: str) -> bool:
        """Make that mirror the leader; False if it is not, after a while. Whoever is told of it sees it here too."""
        if await self._at_leader(front, "move", to=to) is not True:
            return False
        await self._until_heard(front.log_id, to)
        return True

    async def _until_heard(self, log_id: int, leader: str) -> None:
        """The store tells this node too, perhaps later than the one that led."""
        give_up = self._cluster.loop_time() + HEARING
        while self._cluster.loop_time() < give_up:
            front = self.front(log_id)
            if front is None or front.holders[0] == leader:
                return
            await asyncio.sleep(0.01)

    async def _move(self, holding: Holding, to: str) -> bool:
        if to == self._broker.node_name:
            return True
        if to not in holding.state.view.ring:
            return False
        self._runtime.mirroring.rings.give(holding, HandOver(to, leave=False))
        self._broker.schedule()
        return await self._until_led_by(holding, to)

    async def _take(self, ids: Sequence[int]) -> None:
        """Lead these queues, where their leaders hear this node."""
        fronts = [front for front in map(self.front, ids) if front is not None]
        await asyncio.gather(*(self.move(front, self._broker.node_name) for front in fronts))

    async def _until_led_by(self, holding: Holding, to: str = "") -> bool:
        """That node, or any other. A hand-over is a swap of the view; it is looked for, because many things may come between."""
        give_up = self._cluster.loop_time() + MOVING
        while self._cluster.loop_time() < give_up:
            leader = holding.state.view.ring[0]
            if leader == to or (not to and leader != self._broker.node_name):
                return True
            if holding.state.role == LEADER and not holding.state.handing:
                return False
            await asyncio.sleep(0.01)
        return False

    async def move_away(self) -> list[str]:
        """Give every lead away that another node can take, for maintenance. Returns the names of the queues that stay."""
        led = [holding for holding in self._holdings.values() if holding.state.role == LEADER]
        able = [holding for holding in led if len(holding.state.view.ring) > 1]
        for holding in able:
            self._runtime.mirroring.rings.give(holding, HandOver("", leave=False))
        self._broker.schedule()
        await asyncio.gather(*(self._until_led_by(holding) for holding in able))
        return sorted(holding.front.name for holding in led if holding.state.role == LEADER)

    async def rebalance(self, vhosts: str = ".*", queues: str = ".*", strategy: str = QUEUES) -> dict[str, int] | str:
        """Spread the leads; returns how many each node has then, or why not."""
        refusal = await self._lock()
        if refusal:
            return refusal
        try:
            for move in await self.plan(vhosts, queues, strategy):
                front = self.front(move.id)
                if front is not None:
                    await self.move(front, move.to)
        finally:
            await self._unlock()
        return self.shares(vhosts, queues)

    async def carry_out(self, moves: Sequence[tuple[str, str, str]]) -> list[str] | str:
        """Moves of somebody's plan: vhost, queue, to which node. Returns a sentence for each that was not made, or why not."""
        refusal = await self._lock()
        if refusal:
            return refusal
        try:
            return [sentence for vhost, name, to in moves if (sentence := await self._carry_out(vhost, name, to))]
        finally:
            await self._unlock()

    async def _carry_out(self, vhost: str, name: str, to: str) -> str:
        found = [front for front in self._broker.forwarding.mirrored.values() if front.vhost == vhost and front.name == name]
        if not found:
            return f"there is no mirrored queue '{name}' in vhost '{vhost}'"
        if to not in found[0].holders:
            return f"node {to} is no mirror in sync of queue '{name}' in vhost '{vhost}'"
        return "" if await self.move(found[0], to) else f"node {to} has not taken the lead of queue '{name}' in vhost '{vhost}'"

    async def _lock(self) -> str:
        """One rebalance at a time; why not now, or nothing."""
        lease = self._cluster.membership.lease
        try:
            held = await self._cluster.store.transact([Absent(LOCK)], [Put(LOCK, self._broker.node_name, lease)])
        except CoordinationError as fault:
            return f"the cluster cannot agree on this now: {fault}"
        return "" if held.succeeded else IN_PROGRESS

    async def _unlock(self) -> None:
        from mirrormq.cluster.coordination import Delete, Present
        try:
            await self._cluster.store.transact([Present(LOCK)], [Delete(LOCK)])
        except CoordinationError as fault:
            self._runtime.report("warning", f"the lock of the rebalance stays until this node's lease ends: {fault}")

    async def plan(self, vhosts: str, queues: str, strategy: str) -> list[Move]:
        fronts = self._matching(vhosts, queues)
        shown = await asyncio.gather(*(self._at_leader(front, "show") for front in fronts))
        led = []
        for front, ring in zip(fronts, shown, strict=True):
            if ring is not None:
                messages = ring["messages"]
                led.append(Led(front.log_id, f"{front.vhost} {front.name}", front.holders[0], front.holders[1:], messages))
        clients = await self._clients() if strategy == CONNECTIONS else {}
        return plan(led, self._open_nodes(), strategy, connections=clients, pick=secrets.choice)

    async def _clients(self) -> dict[str, int]:
        """How many each node has."""
        nodes = self._open_nodes()
        about = {"do": "clients", "id": 0}
        told = await asyncio.gather(*(
            self.answer(about) if node == self._broker.node_name else self._cluster.ask(node, QUESTION, about) for node in nodes))
        return {node: count for node, count in zip(nodes, told, strict=True) if isinstance(count, int)}

    def shares(self, vhosts: str = ".*", queues: str = ".*") -> dict[str, int]:
        counts = dict.fromkeys(sorted(self._cluster.membership.running), 0)
        for front in self._matching(vhosts, queues):
            counts[front.holders[0]] = counts.get(front.holders[0], 0) + 1
        return counts

    def _matching(self, vhosts: str, queues: str) -> list[AwayQueue]:
        return [front for front in self._broker.forwarding.mirrored.values()
                if "ha-mode" in front.effective_policy and re.search(vhosts, front.vhost) and re.search(queues, front.name)]

    def _open_nodes(self) -> list[str]:
        return [name for name, info in self._cluster.membership.running.items() if not info.about.get("maintenance")]

    # --- what if ----------------------------------------------------------------------------------------------------------

    def critical(self) -> list[AwayQueue]:
        """Mirrored queues of which this node has the only copy that is in sync, among the nodes that are up."""
        me, forwarding = self._broker.node_name, self._broker.forwarding
        return [front for front in forwarding.mirrored.values()
                if "ha-mode" in front.effective_policy and me in front.holders
                and all(node == me or forwarding.is_gone(node) for node in front.holders)]

    async def show(self, front: AwayQueue) -> Json | None:
        """The ring with its marks, as the leader knows it."""
        told = await self._at_leader(front, "show")
        return told if isinstance(told, dict) else None

    async def why_unled(self, front: AwayQueue) -> str:
        """For whom a queue waits that nobody leads; nothing where somebody may lead it."""
        lost = lost_by(await self.standpoints(front))
        if lost:
            return f"queue '{front.name}' in vhost '{front.vhost}' is not served: {lost}"
        return front.home_is_down().text if front.is_hopeless() else ""

    async def standpoints(self, front: AwayQueue) -> dict[str, Json]:
        """Where each holder stands, by its own word."""
        nodes: Sequence[str] = [*front.holders, *front.learners]
        about = {"do": "standpoint", "id": front.log_id}
        asked = [self.answer(about) if node == self._broker.node_name else self._cluster.ask(node, QUESTION, about)
                 for node in nodes]
        told = await asyncio.gather(*asked)
        return {node: answer for node, answer in zip(nodes, told, strict=True) if isinstance(answer, dict)}


def lost_by(points: dict[str, Json]) -> str:
    """What the only node that was in sync says if it has lost its copy."""
    return next((str(point["sentence"]) for point in points.values() if point["is_lost"]), "")


def standpoint(holding: Holding) -> Json:
    state = holding.state
    return {"role": ROLES[state.role], "epoch": state.epoch, "end": state.end, "durable": state.durable, "stable": state.stable,
            "whole": state.whole, "sentence": holding.sentence, "filled": state.fill_position,
            "is_lost": has_lost_everything(state)}


def show(holding: Holding) -> Json:
    """What the leader knows of its ring."""
    state = holding.state
    queue = holding.queue
    learners = {node: {"durable": point.durable, "received": point.received, "whole": point.whole, "base": point.base}
                for node, point in state.learner_marks.items()}
    return {"epoch": state.epoch, "end": state.end, "stable": state.stable, "durable": state.durable,
            "ring": list(state.view.ring), "learners": list(state.view.learners), "marks": learners,
            "linked": sorted(state.linked), "sentence": holding.sentence, "reason": state.view.reason,
            "messages": 0 if queue is None else queue.backlog.count + queue.held,
            "wanted": 1 if state.desired is None else len(state.desired.members)}
