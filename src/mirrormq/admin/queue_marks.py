"""What can be told of a queue without its whole row: the mark of a quiet one, and the columns by which lists are sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirrormq.admin.call import State
from mirrormq.admin.queue_view import FLOWS, queue_counters, queue_key
from mirrormq.admin.row_cache import Mark
from mirrormq.broker.backlog import PlainBacklog
from mirrormq.broker.queue import Queue

COLUMNS: Final[dict[str, Callable[[Queue], object]]] = {
    "messages": lambda queue: queue.backlog.count + queue.held, "messages_ready": lambda queue: queue.backlog.count,
    "messages_unacknowledged": lambda queue: queue.held, "consumers": lambda queue: len(queue.turns.everyone),
    "message_bytes": lambda queue: queue.backlog.bytes + queue.held_bytes, "policy": lambda queue: queue.policy or None,
    "state": lambda queue: "crashed" if queue.damage else "running", "durable": lambda queue: queue.durable,
}  # fmt: skip
RATES: Final = {f"message_stats.{name}_details.rate": name for name in FLOWS}


def quick_value(state: State, column: str) -> Callable[[Queue], object] | None:
    if column == "node":
        return lambda _: state.broker.node_name
    flow = RATES.get(column)
    if flow is None:
        return COLUMNS.get(column)

    def rate(queue: Queue) -> object:
        counters = queue_counters(queue)
        figures = state.rates.look(queue_key(queue), counters, state.broker.now)
        return figures.rates.get(flow, 0.0) if counters["publish"] or counters["deliver_get"] else None

    return rate


def marks(state: State) -> Callable[[Queue], Mark | None]:
    """What the row of a quiet queue follows from; None if it follows from more. Consumers may stop or start to take messages
    without any number changing, and what a lake mirror has read is no number of the queue's."""
    ring, has_lakes = state.mirrors.ring, bool(state.runtime.lake_mirrors.everyone())

    def mark(queue: Queue) -> Mark | None:
        backlog, everyone, holder = queue.backlog, queue.turns.everyone, queue.holder
        if has_lakes or not isinstance(backlog, PlainBacklog) or (everyone and backlog.count):
            return None
        return (
            queue.log_id, queue.published, queue.delivered, queue.delivered_no_ack, queue.got, queue.got_no_ack,
            queue.redelivered, queue.acknowledged, backlog.count, backlog.bytes, backlog.tail, backlog.window_bytes, queue.held,
            queue.held_bytes, queue.kept, queue.kept_bytes, queue.next_index, queue.delivered_high, queue.last_used,
            len(everyone), None if holder is None else holder.tag, queue.policy, queue.operator_policy, queue.effective_policy,
            queue.settings, queue.damage, ring(queue),
        )  # fmt: skip

    return mark
