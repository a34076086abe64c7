"""What can be told of a queue without its whole row: the mark of a quiet one, and the columns by which lists are sorted.

Getters, and not functions, read what is wanted of thousands of queues: they cost less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import add, attrgetter
from typing import Any, Final

from mirrormq.admin.call import State
from mirrormq.admin.mirrors import MIRRORED
from mirrormq.admin.queue_view import FLOWS, queue_counters, queue_key
from mirrormq.admin.row_cache import Mark, Memory
from mirrormq.broker.backlog import PlainBacklog
from mirrormq.broker.broker import Broker
from mirrormq.broker.queue import Queue

COLUMNS: Final[dict[str, Callable[[Queue], object]]] = {
    "messages": lambda queue: queue.backlog.count + queue.held, "messages_ready": lambda queue: queue.backlog.count,
    "messages_unacknowledged": lambda queue: queue.held, "consumers": lambda queue: len(queue.turns.everyone),
    "message_bytes": lambda queue: queue.backlog.bytes + queue.held_bytes, "policy": lambda queue: queue.policy or None,
    "state": lambda queue: "down" if queue.is_away else "crashed" if queue.damage else "running",
    "durable": lambda queue: queue.durable,
}  # fmt: skip
COUNT: Final = attrgetter("backlog.count")
HELD: Final = attrgetter("held")
EVERYONE: Final = attrgetter("turns.everyone")
NUMBERS: Final[dict[str, Callable[[Sequence[Queue]], Iterable[int]]]] = {
    "messages": lambda queues: map(add, map(COUNT, queues), map(HELD, queues)),
    "messages_ready": lambda queues: map(COUNT, queues), "messages_unacknowledged": lambda queues: map(HELD, queues),
    "consumers": lambda queues: map(len, map(EVERYONE, queues)),
}  # fmt: skip
MARKS: Final = attrgetter(
    "log_id", "next_index", "delivered", "delivered_no_ack", "got", "got_no_ack", "acknowledged", "held", "last_used", "policy",
    "operator_policy", "effective_policy", "settings", "damage", "backlog.count", "backlog.bytes", "backlog.tail",
    "backlog.window_bytes")
"""The other numbers of a row change with these: what is published or kept with the next index, what is delivered again, and
how far deliveries have come, with what is delivered or got."""
HOLDER: Final = attrgetter("holder")
IS_AWAY: Final = attrgetter("is_away")
RATES: Final = {f"message_stats.{name}_details.rate": name for name in FLOWS}


def told_here(broker: Broker, queue: Queue) -> Queue | None:
    """Of which this node tells the row: what it serves, and mirrored queues that wait for it and that nobody leads."""
    here = broker.serving(queue)
    return queue if here is None and queue.home == broker.node_name else here


def all_told_here(broker: Broker, queues: Collection[Queue]) -> list[Queue]:
    if not any(map(IS_AWAY, queues)):
        return list(queues)
    return [here for queue in queues if (here := told_here(broker, queue)) is not None]


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
    ring, has_lakes = state.mirrors.ring, has_lake_mirrors(state)

    def mark(queue: Queue) -> Mark | None:
        everyone, holder = queue.turns.everyone, queue.holder
        if has_lakes or queue.is_away or not isinstance(queue.backlog, PlainBacklog) or (everyone and queue.backlog.count):
            return None
        found = ring(queue) if MIRRORED in queue.effective_policy else None
        return (MARKS(queue), len(everyone), None if holder is None else holder.tag, found)

    return mark


def has_lake_mirrors(state: State) -> bool:
    return bool(state.runtime.lake_mirrors.everyone())


def marks_together(queues: Sequence[Queue]) -> list[Any] | None:
    """All that the marks of these queues consist of; None if one of them consists of more."""
    if any(map(HOLDER, queues)):
        return None
    try:
        return [*map(MARKS, queues), *map(len, map(EVERYONE, queues))]
    except AttributeError:      # of another kind of backlog
        return None


def is_special(queue: Queue) -> bool:
    return queue.holder is not None or MIRRORED in queue.effective_policy


def memory_of_queues(state: State) -> Memory[Queue]:
    together = None if has_lake_mirrors(state) else marks_together
    return Memory(queue_key, queue_counters, marks(state), together=together, is_special=is_special)
