"""Mirrored queues as the API and the page see them: `Mirrors` and `RingView`, answered from the node's rings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrormq.admin.errors import ApiError
from mirrormq.admin.mirrors import MIRRORED, NOT_MIRRORED, NOT_SYNCING, Learner, Share
from mirrormq.admin.mirrors import Ring as Summary
from mirrormq.admin.ring_view import Failover, Heir, LakeMirror, Member, NoSuchItem, Placement, QuarantineItem, Ring, why_alone
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.queue import Queue
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.backfill import is_ordered
from mirrormq.node import quarantine_room
from mirrormq.node.ring_orders import lost_by, show
from mirrormq.node.runtime import Runtime

Json = dict[str, Any]


class RingOffice:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._broker = runtime.broker

    def _front(self, queue: Queue) -> AwayQueue | None:
        return self._broker.forwarding.mirrored.get(queue.log_id)

    def _is_up(self, node: str) -> bool:
        """As far as this node sees: one that was killed is not, long before the cluster gives it up."""
        return node == self._broker.node_name or self._broker.forwarding.is_linked(node)

    # --- for the API ----------------------------------------------------------------------------------------------------

    def ring(self, queue: Queue) -> Summary | None:
        if MIRRORED not in queue.effective_policy:
            return None
        front = self._front(queue)
        if front is None:
            return Summary(queue.home or self._broker.node_name)
        in_sync = tuple(node for node in front.holders[1:] if self._is_up(node))
        learning = tuple(node for node in front.learners if self._is_up(node))
        holding = self._runtime.mirroring.rings.by_id.get(queue.log_id)
        return Summary(front.holders[0], 0 if holding is None else holding.state.epoch, in_sync + learning, in_sync,
                       tuple(_learner(node, holding) for node in learning),
                       tuple(node for node in front.holders[1:] + front.learners if not self._is_up(node)))

    async def sync(self, queue: Queue) -> str:
        return await self._order_sync(queue, on=True)

    async def cancel_sync(self, queue: Queue) -> str:
        return await self._order_sync(queue, on=False)

    async def _order_sync(self, queue: Queue, *, on: bool) -> str:
        front = self._front(queue)
        if front is None or MIRRORED not in queue.effective_policy:
            return NOT_MIRRORED if on else NOT_SYNCING
        return await self._runtime.orders.sync(front, on=on)

    async def move(self, queue: Queue, to: str) -> None:
        front = self._front(queue)
        refusal = f"queue '{queue.name}' is not mirrored" if front is None else self._why_not(front, to)
        if front is None or refusal:
            raise ApiError(400, "bad_request", refusal)
        if not await self._runtime.orders.move(front, to):
            waiting = await self._runtime.orders.why_unled(front)
            raise ApiError(503, "not_moved", waiting or
                           f"{to} does not lead queue '{queue.name}': {front.home} could not hand over")

    def _why_not(self, front: AwayQueue, to: str) -> str:
        """Why that node cannot lead; nothing where it can."""
        if to not in self._runtime.cluster.membership.members:
            return f"{to} is not a node of this cluster"
        if not self._is_up(to):
            return f"{to} is down"
        if to in front.learners:
            return f"the copy of queue '{front.name}' on {to} is not in sync"
        return "" if to in front.holders else f"{to} has no copy of queue '{front.name}'"

    async def rebalance(self, vhost_pattern: str, queue_pattern: str, strategy: str) -> Sequence[Share]:
        told = await self._runtime.orders.rebalance(vhost_pattern, queue_pattern, strategy)
        if isinstance(told, str):
            raise ApiError(400, "bad_request", told)
        return [Share(node, count) for node, count in sorted(told.items())]

    async def carry_out(self, moves: Sequence[tuple[str, str, str]]) -> Sequence[str]:
        told = await self._runtime.orders.carry_out(moves)
        if isinstance(told, str):
            raise ApiError(400, "bad_request", told)
        return told

    def critical(self) -> Sequence[Queue]:
        return self._runtime.orders.critical()

    # --- for the page ---------------------------------------------------------------------------------------------------

    def placement(self, queue: Queue) -> Placement:
        front = self._front(queue)
        if front is None:
            return Placement(queue.home or self._broker.node_name)
        return Placement(front.holders[0], front.holders[1:], front.learners)

    def reachable(self, queue: Queue) -> Placement:
        place = self.placement(queue)
        return Placement(place.leader, tuple(filter(self._is_up, place.mirrors)), tuple(filter(self._is_up, place.learners)))

    def heir(self, queue: Queue) -> Heir | None:
        holding = self._runtime.mirroring.rings.by_id.get(queue.log_id)
        if holding is None or holding.state.desired is None or not holding.state.desired.promote_after_stop:
            return None
        marked = [node for node in holding.state.view.learners if node in holding.state.learner_marks and self._is_up(node)]
        return Heir(marked[0], holding.lacking(marked[0])) if marked else None

    async def show_ring(self, queue: Queue) -> Ring:
        holding = self._runtime.mirroring.rings.by_id.get(queue.log_id)
        if holding is None:
            end = int(queue.builder.next_index) - 1
            stable = end if not queue.waiters else int(queue.builder.first_index) - 1
            return Ring(int(queue.builder.epoch), end, stable, is_mirrored=False, wanted=1, sentence=why_alone(queue),
                        members=(Member(self._broker.node_name, end, stable),), lakes=self._lakes(queue))
        front = self._front(queue)
        points = {} if front is None else await self._runtime.orders.standpoints(front)
        return _ring(show(holding), points, self._lakes(queue))

    async def show_waiting(self, queue: Queue) -> Ring | None:
        front = self._front(queue)
        if front is None:
            return None
        points = await self._runtime.orders.standpoints(front)
        whole = [points[node] for node in front.holders if node in points and not points[node]["is_lost"]]
        end = max([point["end"] for point in whole], default=None)
        rows = {node: _waiting(node, end, points.get(node)) for node in front.holders + front.learners}
        return Ring(max([point["epoch"] for point in points.values()], default=None), end,
                    max([point["stable"] for point in whole], default=None), is_mirrored=True,
                    wanted=len(rows), sentence=lost_by(points) or front.waits_for(),
                    members=tuple(rows[node] for node in front.holders), learners=tuple(rows[node] for node in front.learners))

    def _lakes(self, queue: Queue) -> tuple[LakeMirror, ...]:
        rows = self._runtime.lake_mirrors.show(queue)
        return tuple(LakeMirror(row["name"], row["acknowledged"], row["lag"], row["state"]) for row in rows)

    async def failovers(self, queue: Queue) -> list[Failover]:
        front = self._front(queue)
        records = [] if front is None else await self._runtime.mirroring.audit.records(front)
        return [_failover(record) for record in records]

    async def quarantine(self, queue: Queue) -> list[QuarantineItem]:
        front = self._front(queue)
        items = [] if front is None else await self._runtime.quarantine.listed(front)
        return [QuarantineItem(**item) for item in items]

    async def settle_quarantine(self, queue: Queue, item: str, *, requeue: bool) -> int:
        front = self._front(queue)
        if front is None:
            raise NoSuchItem(item)
        try:
            return await self._runtime.quarantine.settle(front, item, requeue=requeue)
        except quarantine_room.NoSuchItem:
            raise NoSuchItem(item) from None


def _failover(record: Json) -> Failover:
    return Failover(
        record["epoch"], record["time_ms"], record["old_leader"], record["new_leader"], f"{record['cause']}; {record['verdict']}",
        record["lost"], record["requeued"], record["elect_ms"], record["serve_ms"], record["end"], record["known_stable"],
        tuple(record["members"]), tuple(record["learners"]))


def _learner(node: str, holding: Holding | None) -> Learner:
    point = None if holding is None else holding.state.learner_marks.get(node)
    if holding is None or point is None:
        return Learner(node)
    queue = holding.queue
    messages = 0 if queue is None else queue.backlog.count + queue.held
    is_filling = not point.whole and is_ordered(holding.state)
    synced = messages * max(0, point.filled - 1) // max(1, point.base) if is_filling else None
    return Learner(node, max(0, holding.state.end - point.durable), 0, synced)


def _ring(shown: Json, points: dict[str, Json], lakes: tuple[LakeMirror, ...]) -> Ring:
    linked = {*shown["linked"], shown["ring"][0]}
    members = tuple(_member(node, shown, points.get(node), is_linked=node in linked) for node in shown["ring"])
    learners = tuple(_member(node, shown, points.get(node), is_linked=node in linked) for node in shown["learners"])
    return Ring(shown["epoch"], shown["end"], shown["stable"], is_mirrored=True, wanted=shown["wanted"],
                sentence=shown["sentence"], members=members, learners=learners, lakes=lakes)


def _member(node: str, shown: Json, point: Json | None, *, is_linked: bool) -> Member:
    if point is None:
        return Member(node, None, None, is_linked=False, lag_entries=None)
    is_filling = not point["whole"]
    return Member(node, point["end"], point["durable"], is_linked=is_linked, lag_entries=max(0, shown["end"] - point["durable"]),
                  sync_done=point["filled"] if is_filling else None, sync_total=shown["end"] if is_filling else None)


def _waiting(node: str, end: int | None, point: Json | None) -> Member:
    """Nobody leads; `end` is how far those go that were in sync, as far as they answer."""
    if point is None:
        return Member(node, None, None, is_linked=False, lag_entries=None)
    return Member(node, point["end"], point["durable"], lag_entries=None if end is None else max(0, end - point["durable"]))
