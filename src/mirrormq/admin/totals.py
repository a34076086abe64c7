"""Sums over queues, channels and connections: of each node by itself, and of all nodes together."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from mirrormq.admin.call import Json, State
from mirrormq.admin.census import Query
from mirrormq.admin.connection_view import user_of
from mirrormq.admin.figures import Fields, add_fields
from mirrormq.admin.listing import batches, in_slices
from mirrormq.admin.queue_view import LENGTHS, span_of
from mirrormq.broker.broker import Broker
from mirrormq.broker.sums import Sums, add_connections
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
NAMES: Final = (*LENGTHS, *OF_QUEUES, *OF_CHANNELS, *TRAFFIC, "consumers")
PIECE: Final = 200      # virtual hosts of one answer
BATCH: Final = 500      # things that are added up without a look at the clock


async def count_here(broker: Broker, vhosts: Sequence[str] | None) -> dict[str, Counters]:
    """Sums over what this node has, by virtual host."""
    names = [name for name in (broker.vhosts if vhosts is None else vhosts) if name in broker.vhosts]
    sums = {name: Sums() for name in names}
    parts = [(sums[name], part) for name in names for part in batches(list(broker.vhosts[name].queues.values()), BATCH)]
    await in_slices(parts, lambda part: part[0].add_queues(broker, part[1]), 1)
    await in_slices(batches(list(broker.connections), BATCH), lambda some: add_connections(sums, some), 1)
    return {name: _named(each) for name, each in sums.items()}


def _named(sums: Sums) -> Counters:
    """By the names of the API. What a get finds empty is counted for the whole broker only."""
    delivered = sums.delivered + sums.delivered_no_ack + sums.got + sums.got_no_ack
    return {
        "messages": sums.ready + sums.held, "messages_ready": sums.ready, "messages_unacknowledged": sums.held,
        "ack": sums.acknowledged, "deliver": sums.delivered, "deliver_get": delivered, "deliver_no_ack": sums.delivered_no_ack,
        "get": sums.got, "get_empty": 0, "get_no_ack": sums.got_no_ack, "redeliver": sums.redelivered,
        "confirm": sums.confirmed, "drop_unroutable": sums.dropped, "publish": sums.published,
        "return_unroutable": sums.returned, "recv_oct": sums.received_bytes, "send_oct": sums.sent_bytes,
        "consumers": sums.consumers,
    }  # fmt: skip


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
    sums = await _sums(state, vhosts)
    objects = {"consumers": sums.pop("consumers")} | _objects(state.broker, user)
    figures = state.rates.look(key, sums, state.broker.now, keep=lengths is not None or flows is not None)
    return {
        "message_stats": figures.fields(FLOWS, flows), "churn_rates": figures.fields(CHURN, flows),
        "queue_totals": figures.fields(LENGTHS, lengths), "object_totals": objects,
        "listeners": listeners(state.runtime), "contexts": contexts(state.runtime),
    }  # fmt: skip


async def _sums(state: State, vhosts: list[str] | None) -> Counters:
    """What lives, and what the broker remembers of what has ended."""
    ended = state.broker.counters
    by_vhost = await count_here(state.broker, vhosts)
    sums = {name: sum(counters[name] for counters in by_vhost.values()) for name in NAMES} | dict.fromkeys(DISK, 0)
    sums["disk_writes"] = state.runtime.log.store.commits
    sums |= {name: ended.get(name, 0) for name in CHURN}
    return {name: value + (ended.get(name, 0) if name in FLOWS else 0) for name, value in sums.items()}


def _objects(broker: Broker, user: str | None) -> Counters:
    mine = broker.connections if user is None else [one for one in broker.connections if user_of(one) == user]
    return {"channels": sum(map(len, map(attrgetter("channels"), mine))), "connections": len(mine)}


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
