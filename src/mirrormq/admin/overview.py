"""The overview, and small answers about the whole: extensions, features, attempts to log in."""

from __future__ import annotations

import platform
from typing import Any, Final

from mirrormq import build_info
from mirrormq.admin.call import Answer, Call, Json, done
from mirrormq.admin.connections import user_of
from mirrormq.admin.errors import not_found
from mirrormq.admin.listing import answer_one
from mirrormq.admin.queue_view import LENGTHS, span_of
from mirrormq.admin.vhosts import OF_CHANNELS, OF_QUEUES, totals
from mirrormq.broker.exchange import TYPES
from mirrormq.broker.handshake import COMPATIBLE_VERSION
from mirrormq.broker.vhost import VirtualHost
from mirrormq.node.runtime import Runtime

DISK: Final = ("disk_reads", "disk_writes")
FLOWS: Final = tuple(sorted((*OF_QUEUES, *OF_CHANNELS, *DISK)))
CHURN: Final = (
    "channel_closed", "channel_created", "connection_closed", "connection_created", "queue_created", "queue_declared",
    "queue_deleted",
)  # fmt: skip
DESCRIPTIONS: Final = {
    "x-consistent-hash": "Consistent Hashing Exchange", "x-modulus-hash": "Modulus Hashing Exchange",
    "x-delayed-message": "Delayed Message Exchange",
}  # fmt: skip


def exchange_types() -> list[Json]:
    return [
        {"name": name, "description": DESCRIPTIONS.get(name, f"AMQP {name} exchange, as per the AMQP specification"),
         "enabled": True}
        for name in sorted(TYPES)
    ]


def listeners(runtime: Runtime) -> list[Json]:
    return [
        {"node": runtime.broker.node_name, "protocol": protocol, "ip_address": address, "port": port, "socket_opts": {}}
        for protocol, address, port in runtime.addresses
    ]


def contexts(runtime: Runtime) -> list[Json]:
    """The web applications: this API, at each address that it listens at."""
    return [
        {"ssl_opts": [], "node": runtime.broker.node_name, "description": "MirrorMQ Management", "path": "/",
         "cowboy_opts": "[]", "ip": address, "port": str(port), "protocol": protocol}
        for protocol, address, port in runtime.addresses if protocol.startswith("http")
    ]


def about() -> Json:
    return {
        "management_version": COMPATIBLE_VERSION, "rabbitmq_version": COMPATIBLE_VERSION, "product_name": "MirrorMQ",
        "product_version": build_info(), "erlang_version": platform.python_version(),
        "erlang_full_version": f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        "release_series_support_status": "supported", "rates_mode": "basic",
        "sample_retention_policies": {"global": [600, 3600], "basic": [600, 3600], "detailed": [600]},
    }  # fmt: skip


def counters(call: Call, vhosts: list[VirtualHost]) -> dict[str, int]:
    """What lives, and what the broker remembers of what has ended."""
    ended = call.broker.counters
    sums = totals(call.broker, vhosts) | dict.fromkeys(DISK, 0)
    sums["disk_writes"] = call.runtime.log.store.stats().commits
    sums |= {name: ended.get(name, 0) for name in CHURN}
    return {name: value + (ended.get(name, 0) if name in FLOWS else 0) for name, value in sums.items()}


def show_overview(call: Call) -> Answer:
    principal = call.principal
    everything = list(call.broker.vhosts.values())
    vhosts = everything if principal.is_monitor else principal.visible(everything)
    lengths, flows = span_of(call.query, "lengths"), span_of(call.query, "msg_rates")
    key = ("overview",) if principal.is_monitor else ("overview", principal.name)
    figures = call.state.rates.look(key, counters(call, vhosts), call.broker.now,
                                    keep=lengths is not None or flows is not None)
    row: dict[str, Any] = about() | {
        "exchange_types": exchange_types(), "cluster_name": call.broker.cluster_name, "disable_stats": False,
        "enable_queue_totals": False, "message_stats": figures.fields(FLOWS, flows),
        "churn_rates": figures.fields(CHURN, flows), "queue_totals": figures.fields(LENGTHS, lengths),
        "object_totals": _objects(call, vhosts), "statistics_db_event_queue": 0, "node": call.broker.node_name,
        "listeners": listeners(call.runtime), "contexts": contexts(call.runtime),
    }  # fmt: skip
    return answer_one(call, row)


def _objects(call: Call, vhosts: list[VirtualHost]) -> Json:
    principal = call.principal
    mine = [item for item in call.broker.connections if principal.is_monitor or user_of(item) == principal.name]
    return {
        "channels": sum(len(connection.channels) for connection in mine), "connections": len(mine),
        "consumers": sum(len(queue.turns.everyone) for vhost in vhosts for queue in vhost.queues.values()),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }  # fmt: skip


def list_extensions(_: Call) -> Answer:
    return Answer(200, [])


FEATURES: Final = (
    ("classic_mirrored_queue_version", "Support setting version for classic mirrored queues"),
    ("direct_exchange_routing_v2", "Direct exchange routing"),
    ("drop_unroutable_metric", "Count unroutable publishes to be dropped in stats"),
    ("empty_basic_get_metric", "Count AMQP basic.get on empty queues in stats"),
    ("implicit_default_bindings", "Default bindings are implicit"),
    ("user_limits", "Connection and channel limits for a user"),
    ("virtual_host_metadata", "Description and tags of virtual hosts"),
)


def list_features(_: Call) -> Answer:
    return Answer(200, [
        {"name": name, "desc": text, "doc_url": "", "state": "enabled", "stability": "stable", "provided_by": "rabbit"}
        for name, text in FEATURES])


def list_deprecated(_: Call) -> Answer:
    return Answer(200, [])


def show_auth(_: Call) -> Answer:
    return Answer(200, {"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


def list_attempts(call: Call) -> Answer:
    if call.args["node"] != call.broker.node_name:
        raise not_found()
    gate = call.state.gate
    return Answer(200, [{
        "protocol": "http", "auth_attempts": gate.succeeded + gate.failed, "auth_attempts_failed": gate.failed,
        "auth_attempts_succeeded": gate.succeeded}])


def list_attempts_by_source(_: Call) -> Answer:
    return Answer(200, [])


def rebalance(_: Call) -> Answer:
    """On a node alone every queue is where it belongs."""
    return done()


def reset_statistics(call: Call) -> Answer:
    call.state.rates.reset()
    return done()
