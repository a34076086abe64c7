"""Sums over queues, channels and connections: of each node by itself, and of all nodes together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from mirrormq.admin.call import Json, State
from mirrormq.admin.census import Query, Scope
from mirrormq.admin.connection_view import channel_counters, user_of, vhost_of
from mirrormq.admin.figures import Fields, add_fields
from mirrormq.admin.listing import in_slices
from mirrormq.admin.queue_view import LENGTHS, queue_counters, span_of
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import Connection
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost
from mirrormq.node.runtime import Runtime

Counters = dict[str, int]
OF_QUEUES: Final = ("ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "redeliver")
OF_CHANNELS: Final = ("confirm", "drop_unroutable", "publish", "return_unroutable")
TRAFFIC: Final = ("recv_oct", "send_oct")
DISK: Final = ("disk_reads", "disk_writes")
FLOWS: Final = tuple(sorted((*OF_QUEUES, *OF_CHANNELS, *DISK)))
CHURN: Final = (
    "channel_closed", "channel_created", "connection_closed", "connection_created", "queue_created", "queue_declared",
    "queue_deleted",
)  # fmt: skip
NAMES: Final = (*LENGTHS, *OF_QUEUES, *OF_CHANNELS, *TRAFFIC)
PIECE: Final = 200      # virtual hosts of one answer
BATCH: Final = 50       # things that are added up without a look at the clock; in_slices takes some of them at once
T = TypeVar("T")


async def count_here(broker: Broker, vhosts: Sequence[str] | None) -> dict[str, Counters]:
    """Sums over what this node has, by virtual host."""
    names = [name for name in (broker.vhosts if vhosts is None else vhosts) if name in broker.vhosts]
    sums = {name: dict.fromkeys(NAMES, 0) for name in names}
    batches = [(sums[name], batch) for name in names for batch in _batches(_served(broker, broker.vhosts[name]))]
    await in_slices(batches, lambda part: _add_queues(*part))
    await in_slices(_batches(list(broker.connections)), lambda batch: _add_connections(sums, batch))
    return sums


def _batches(items: list[T]) -> list[list[T]]:
    return [items[start:start + BATCH] for start in range(0, len(items), BATCH)]


def queues_here(broker: Broker, scope: Scope) -> list[Queue]:
    """In any order: sums need none."""
    return [queue for name, vhost in broker.vhosts.items() if scope.has_vhost(name) for queue in _served(broker, vhost)]


def _served(broker: Broker, vhost: VirtualHost) -> list[Queue]:
    """Also mirrored ones, to which there is a way even where they lead."""
    return [here for queue in vhost.queues.values() if (here := broker.serving(queue) if queue.is_away else queue) is not None]


def _add_queues(sums: Counters, queues: list[Queue]) -> None:
    """Most queues of most nodes have never been used; they cost next to nothing here."""
    ready = held = 0
    for queue in queues:
        ready += queue.backlog.count
        held += queue.held
        if queue.delivered or queue.delivered_no_ack or queue.got or queue.got_no_ack or queue.acknowledged:
            counters = queue_counters(queue)
            for name in OF_QUEUES:
                sums[name] += counters[name]
    sums["messages"] += ready + held
    sums["messages_ready"] += ready
    sums["messages_unacknowledged"] += held


def _add_connections(by_vhost: dict[str, Counters], connections: list[Connection]) -> None:
    for connection in connections:
        sums = by_vhost.get(vhost_of(connection))
        if sums is None:
            continue
        sums["recv_oct"] += int(connection.received_bytes)
        sums["send_oct"] += int(connection.sent_bytes)
        for channel in list(connection.channels.values()):
            if channel.published:
                counters = channel_counters(channel)
                for name in OF_CHANNELS:
                    sums[name] += counters[name]


# --- virtual hosts --------------------------------------------------------------------------------------------------


async def vhost_part(state: State, vhosts: Sequence[str], query: Query) -> dict[str, Fields]:
    """This node's part of the figures of some virtual hosts."""
    lengths, flows, traffic = (span_of(query, name) for name in ("lengths", "msg_rates", "data_rates"))
    keep = lengths is not None or flows is not None or traffic is not None
    part: dict[str, Fields] = {}
    for name, counters in (await count_here(state.broker, vhosts)).items():
        figures = state.rates.look(("vhost", name), counters, state.broker.now, keep=keep)
        part[name] = figures.fields(LENGTHS, lengths) | figures.fields(TRAFFIC, traffic) \
            | figures.fields((*OF_QUEUES, *OF_CHANNELS), flows)
    return part


async def vhost_figures(state: State, vhosts: Sequence[str], query: Query) -> dict[str, Fields]:
    """The figures of virtual hosts, over all nodes."""
    found: dict[str, Fields] = {}
    for start in range(0, len(vhosts), PIECE):
        names = vhosts[start:start + PIECE]
        told = await state.runtime.cluster.ask_all("vhosts", {"vhosts": names, "query": dict(query)})
        parts = [await vhost_part(state, names, query), *told.values()]
        found |= {name: add_fields([part[name] for part in parts if name in part]) for name in names}
    return found


# --- the whole ------------------------------------------------------------------------------------------------------


async def overview_part(state: State, vhosts: list[str] | None, user: str | None, query: Query) -> Json:
    """This node's part of the overview, as far as a user may see; None: all."""
    lengths, flows = span_of(query, "lengths"), span_of(query, "msg_rates")
    key = ("overview",) if user is None else ("overview", user)
    figures = state.rates.look(key, await _sums(state, vhosts), state.broker.now,
                               keep=lengths is not None or flows is not None)
    return {
        "message_stats": figures.fields(FLOWS, flows), "churn_rates": figures.fields(CHURN, flows),
        "queue_totals": figures.fields(LENGTHS, lengths), "object_totals": _objects(state.broker, vhosts, user),
        "listeners": listeners(state.runtime), "contexts": contexts(state.runtime),
    }  # fmt: skip


async def _sums(state: State, vhosts: list[str] | None) -> Counters:
    """What lives, and what the broker remembers of what has ended."""
    ended = state.broker.counters
    by_vhost = await count_here(state.broker, vhosts)
    sums = {name: sum(counters[name] for counters in by_vhost.values()) for name in NAMES} | dict.fromkeys(DISK, 0)
    sums["disk_writes"] = state.runtime.log.store.stats().commits
    sums |= {name: ended.get(name, 0) for name in CHURN}
    return {name: value + (ended.get(name, 0) if name in FLOWS else 0) for name, value in sums.items()}


def _objects(broker: Broker, vhosts: list[str] | None, user: str | None) -> Counters:
    mine = [connection for connection in broker.connections if user in (None, user_of(connection))]
    queues = queues_here(broker, Scope(vhosts=vhosts))
    return {
        "channels": sum(len(connection.channels) for connection in mine), "connections": len(mine),
        "consumers": sum(len(queue.turns.everyone) for queue in queues),
    }  # fmt: skip


async def overview_figures(state: State, vhosts: list[str] | None, user: str | None, query: Query) -> Json:
    """The parts of all nodes, put together."""
    about = {"vhosts": vhosts, "user": user, "query": dict(query)}
    told = await state.runtime.cluster.ask_all("overview", about)
    parts = [await overview_part(state, vhosts, user, query), *told.values()]
    whole: dict[str, Any] = {name: add_fields([part[name] for part in parts])
                             for name in ("message_stats", "churn_rates", "queue_totals", "object_totals")}
    for name in ("listeners", "contexts"):
        items = [item for part in parts for item in part[name]]
        whole[name] = sorted(items, key=lambda item: (item["protocol"], item["node"], str(item["port"])))
    return whole


def listeners(runtime: Runtime) -> list[Json]:
    node, links = runtime.broker.node_name, runtime.cluster.address()
    found = [*runtime.addresses, ("clustering", *links)] if links is not None else runtime.addresses
    return [
        {"node": node, "protocol": protocol, "ip_address": address, "port": port, "socket_opts": {}}
        for protocol, address, port in found
    ]


def contexts(runtime: Runtime) -> list[Json]:
    """The web applications: this API, at each address that it listens at."""
    return [
        {"ssl_opts": [], "node": runtime.broker.node_name, "description": "MirrorMQ Management", "path": "/",
         "cowboy_opts": "[]", "ip": address, "port": str(port), "protocol": protocol}
        for protocol, address, port in runtime.addresses if protocol in ("http", "https")
    ]
