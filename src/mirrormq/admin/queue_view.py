"""A queue as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from mirrormq.admin.call import Json, State
from mirrormq.admin.consumers import show_consumer
from mirrormq.admin.mirrors import Ring
from mirrormq.admin.rates import Span
from mirrormq.admin.values import from_table
from mirrormq.broker.backlog import ENTRY_OVERHEAD, PlainBacklog
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.priority import PriorityBacklog
from mirrormq.broker.queue import Queue
from mirrormq.wire.properties import decode_properties

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
FLOWS: Final = (
    "ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "publish", "redeliver",
)  # fmt: skip
COLLECTOR: Final = {
    "fullsweep_after": 0, "max_heap_size": 0, "min_bin_vheap_size": 0, "min_heap_size": 0, "minor_gcs": 0,
}  # fmt: skip
QUEUE_COST: Final = 4096        # bytes that an empty queue takes, about


def span_of(query: Mapping[str, str], name: str) -> Span | None:
    """`name`_age and `name`_incr, both in seconds, if both are there and make sense."""
    age, step = query.get(f"{name}_age", ""), query.get(f"{name}_incr", "")
    if not (age.isascii() and age.isdecimal() and step.isascii() and step.isdecimal()) or int(step) == 0:
        return None
    return Span(min(int(age), 86_400) * 1000, int(step) * 1000)


def timestamp(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def queue_key(queue: Queue) -> tuple[str, ...]:
    """Under which its rates are kept."""
    return ("queue", queue.vhost, queue.name)


def queue_counters(queue: Queue) -> dict[str, int]:
    ready, held = queue.backlog.count, queue.held
    return {
        "messages": ready + held, "messages_ready": ready, "messages_unacknowledged": held,
        "ack": queue.acknowledged, "deliver": queue.delivered, "deliver_no_ack": queue.delivered_no_ack,
        "deliver_get": queue.delivered + queue.delivered_no_ack + queue.got + queue.got_no_ack,
        "get": queue.got, "get_empty": 0, "get_no_ack": queue.got_no_ack, "publish": queue.published,
        "redeliver": queue.redelivered,
    }  # fmt: skip


class QueueView:
    """Shows queues of this node to one request."""

    def __init__(self, state: State, query: Mapping[str, str]) -> None:
        self._state = state
        self._node = state.broker.node_name
        self._lengths = span_of(query, "lengths")
        self._flows = span_of(query, "msg_rates")
        self._is_short = query.get("disable_stats") == "true"
        self._has_totals = query.get("enable_queue_totals") == "true"
        self._has_lakes = bool(state.runtime.lake_mirrors.everyone())

    def show(self, queue: Queue) -> Json:
        """One row of a list."""
        if self._is_short:
            return self._short(queue)
        counters = queue_counters(queue)
        key = queue_key(queue)
        is_quiet = self._state.rates.is_quiet(key, counters)
        wants_samples = self._lengths is not None or self._flows is not None
        figures = self._state.rates.look(key, counters, self._state.broker.now, keep=wants_samples)
        row = self._static(queue) | _bytes(queue) | _consumers(queue) | figures.fields(LENGTHS, self._lengths)
        if is_quiet:
            row["idle_since"] = timestamp(queue.last_used)
        if counters["publish"] or counters["deliver_get"]:
            row["message_stats"] = figures.fields(FLOWS, self._flows)
        lake_mirrors = self._state.runtime.lake_mirrors.show(queue) if self._has_lakes else None
        return row | {"lake_mirrors": lake_mirrors} if lake_mirrors else row

    def figures(self, queue: Queue) -> Json:
        """The numbers alone, without rates."""
        return queue_counters(queue) | _bytes(queue) | _consumers(queue) | {"head_message_timestamp": _head_timestamp(queue)}

    def show_whole(self, queue: Queue) -> Json:
        """The queue alone, with its consumers."""
        row = self.show(queue)
        if self._is_short:
            return row
        consumers = [show_consumer(consumer, self._node) for consumer in queue.turns.everyone]
        return {"consumer_details": consumers, "deliveries": [], "incoming": [], **row}

    def _short(self, queue: Queue) -> Json:
        row: Json = {
            "arguments": from_table(queue.arguments.table), "auto_delete": queue.auto_delete, "durable": queue.durable,
            "exclusive": queue.exclusive, "name": queue.name, "node": self._node, "state": state_of(queue),
            "type": "classic", "vhost": queue.vhost,
        }  # fmt: skip
        if queue.policy:
            row["policy"] = queue.policy
        if self._has_totals:
            counters = queue_counters(queue)
            row |= {name: counters[name] for name in LENGTHS}
        return row | mirror_fields(self._state.mirrors.ring(queue))

    def _static(self, queue: Queue) -> Json:
        row: Json = {
            "arguments": from_table(queue.arguments.table), "auto_delete": queue.auto_delete,
            "backing_queue_status": _backing(queue), "durable": queue.durable,
            "effective_policy_definition": queue.effective_policy, "exclusive": queue.exclusive,
            "garbage_collection": COLLECTOR, "head_message_timestamp": _head_timestamp(queue), "name": queue.name,
            "node": self._node, "operator_policy": queue.operator_policy or None, "policy": queue.policy or None,
            "recoverable_slaves": None, "reductions": 0, "reductions_details": {"rate": 0.0},
            "state": state_of(queue), "type": "classic", "vhost": queue.vhost,
        }  # fmt: skip
        if queue.owner is not None:
            peer = queue.owner.peer
            row["owner_pid_details"] = {"name": queue.owner.name, "peer_host": peer.host, "peer_port": peer.port}
        return row | mirror_fields(self._state.mirrors.ring(queue))


def show_down(queue: Queue) -> Json:
    """What every node knows of a queue that is not served; of a mirrored one, whom it waits for. Only the node that was in sync
    knows that its copy is lost."""
    row: Json = {
        "arguments": from_table(queue.arguments.table), "auto_delete": queue.auto_delete, "durable": queue.durable,
        "exclusive": queue.exclusive, "name": queue.name, "node": queue.home, "state": "down", "type": "classic",
        "vhost": queue.vhost,
    }  # fmt: skip
    if not isinstance(queue, AwayQueue) or not queue.is_mirrored:
        return row
    return row | {
        "effective_policy_definition": queue.effective_policy, "operator_policy": queue.operator_policy or None,
        "policy": queue.policy or None, "reason": queue.waits_for(), "recoverable_slaves": list(queue.holders[1:]),
        "slave_nodes": [*queue.holders[1:], *queue.learners], "synchronised_slave_nodes": [],
        "waits_for": [] if queue.lost_copy else list(queue.holders),
    }  # fmt: skip


def state_of(queue: Queue) -> str:
    return "crashed" if queue.damage else "running"


def mirror_fields(ring: Ring | None) -> Json:
    """Where a mirrored queue is: RabbitMQ's fields, and what its ring is doing."""
    if ring is None:
        return {}
    row: Json = {"recoverable_slaves": list(ring.recoverable), "slave_nodes": list(ring.mirrors),
                 "synchronised_slave_nodes": list(ring.in_sync), "ring": _ring(ring)}
    synced = [learner.synced for learner in ring.learners if learner.synced is not None]
    return row | {"state": "syncing", "sync_messages": min(synced)} if synced else row


def _ring(ring: Ring) -> Json:
    return {"leader": ring.leader, "epoch": ring.epoch, "in_sync": list(ring.in_sync),
            "learners": [learner._asdict() for learner in ring.learners]}


def _bytes(queue: Queue) -> Json:
    """Sizes, and how much of the backlog is in memory: the rest is only in the log."""
    backlog = queue.backlog
    paged, paged_bytes = _paged_out(queue)
    ready_ram = backlog.count - paged
    in_memory = backlog.bytes - paged_bytes + queue.held_bytes
    return {
        "memory": QUEUE_COST + in_memory + (ready_ram + queue.held) * ENTRY_OVERHEAD,
        "message_bytes": backlog.bytes + queue.held_bytes, "message_bytes_paged_out": paged_bytes,
        "message_bytes_persistent": queue.kept_bytes,
        "message_bytes_ram": in_memory,
        "message_bytes_ready": backlog.bytes, "message_bytes_unacknowledged": queue.held_bytes,
        "messages_paged_out": paged, "messages_persistent": queue.kept, "messages_ram": ready_ram + queue.held,
        "messages_ready_ram": ready_ram, "messages_unacknowledged_ram": queue.held,
    }  # fmt: skip


def _paged_out(queue: Queue) -> tuple[int, int]:
    backlog = queue.backlog
    if not isinstance(backlog, PlainBacklog) or not backlog.tail:
        return 0, 0
    returned = sum([message.size for _, message in backlog.returned])
    return backlog.tail, max(0, backlog.bytes - backlog.window_bytes - returned)


def _head_timestamp(queue: Queue) -> int | None:
    """Of a message that is in memory anyway; nothing is read from disk to show a list."""
    backlog = queue.backlog
    if not isinstance(backlog, PlainBacklog) or not (backlog.window or backlog.returned):
        return None
    head = backlog.head()
    return None if head is None else decode_properties(head.info.properties, 0).timestamp


def _backing(queue: Queue) -> Json:
    return _levels(queue) | {
        "delta": ["delta", "undefined", 0, 0, "undefined"], "len": queue.backlog.count,
        "mode": "lazy" if queue.settings.queue_mode == "lazy" else "default",
        "next_deliver_seq_id": queue.delivered_high, "next_seq_id": queue.next_index, "q1": 0, "q2": 0, "q3": 0,
        "q4": queue.backlog.count, "target_ram_count": "infinity", "version": 2,
    }  # fmt: skip


def _levels(queue: Queue) -> Json:
    """How many messages wait in each priority."""
    backlog = queue.backlog
    if not isinstance(backlog, PriorityBacklog):
        return {}
    return {"priority_lengths": {str(at): len(level.returned) + len(level.window) + len(level.tail) - level.tail_at
                                 for at, level in enumerate(backlog.levels)}}


def _consumers(queue: Queue) -> Json:
    everyone = queue.turns.everyone
    holder = queue.holder
    capacity: float = 0
    if everyone:
        capacity = 1.0 if not queue.backlog.count or any(consumer.is_ready() for consumer in everyone) else 0.0
    is_single = holder is not None and not holder.exclusive
    return {
        "consumer_capacity": capacity, "consumer_utilisation": capacity, "consumers": len(everyone),
        "exclusive_consumer_tag": holder.tag if holder is not None and holder.exclusive else None,
        "single_active_consumer_tag": holder.tag if holder is not None and is_single else None,
    }  # fmt: skip
