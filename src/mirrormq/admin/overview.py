"""The overview, and small answers about the whole: extensions, features, attempts to log in."""

from __future__ import annotations

import platform
import re
from typing import Final

from mirrormq import build_info
from mirrormq.admin.call import Answer, Call, Json, State, done
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.admin.listing import answer_one
from mirrormq.admin.totals import overview_figures
from mirrormq.broker.exchange import TYPES
from mirrormq.broker.handshake import COMPATIBLE_VERSION
from mirrormq.cluster.rebalance import QUEUES, ROUND_ROBIN, STRATEGIES

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


def about() -> Json:
    return {
        "management_version": COMPATIBLE_VERSION, "rabbitmq_version": COMPATIBLE_VERSION, "product_name": "MirrorMQ",
        "product_version": build_info(), "erlang_version": platform.python_version(),
        "erlang_full_version": f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        "release_series_support_status": "supported", "rates_mode": "basic",
        "sample_retention_policies": {"global": [600, 3600], "basic": [600, 3600], "detailed": [600]},
    }  # fmt: skip


async def show_overview(call: Call) -> Answer:
    principal = call.principal
    everything = list(call.broker.vhosts.values())
    vhosts = everything if principal.is_monitor else principal.visible(everything)
    names, user = (None, None) if principal.is_monitor else ([vhost.name for vhost in vhosts], principal.name)
    figures = await overview_figures(call.state, names, user, call.query)
    figures["object_totals"] |= {"exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
                                 "queues": sum(len(vhost.queues) for vhost in vhosts)}
    row: Json = about() | figures | {
        "exchange_types": exchange_types(), "cluster_name": call.broker.cluster_name, "disable_stats": False,
        "enable_queue_totals": False, "statistics_db_event_queue": 0, "node": call.broker.node_name,
    }  # fmt: skip
    return answer_one(call, row)


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


async def list_attempts(call: Call) -> Answer:
    node = call.args["node"]
    if node == call.broker.node_name:
        return Answer(200, attempts_here(call.state))
    if node not in call.runtime.cluster.membership.members:
        raise not_found()
    told = await call.runtime.cluster.ask(node, "attempts", {})
    return Answer(200, "not_available" if told is None else told)


def attempts_here(state: State) -> list[Json]:
    gate = state.gate
    return [{
        "protocol": "http", "auth_attempts": gate.succeeded + gate.failed, "auth_attempts_failed": gate.failed,
        "auth_attempts_succeeded": gate.succeeded}]


def list_attempts_by_source(_: Call) -> Answer:
    return Answer(200, [])


async def rebalance(call: Call) -> Answer:
    """The body may narrow it down to some queues, and ask to be told how their leaders are spread then; or name the moves."""
    if "moves" in call.body:
        return await _carry_out(call, call.body["moves"])
    patterns = [call.body.get(name, ".*") for name in ("vhost_pattern", "queue_pattern")]
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError, RecursionError, OverflowError):
            raise bad_request(["invalid_regexp", pattern]) from None
    strategy = call.body.get("strategy", QUEUES)
    strategy = ROUND_ROBIN if strategy == "round-robin" else strategy
    if strategy not in STRATEGIES:
        raise bad_request(["unknown strategy", strategy])
    shares = await call.state.mirrors.rebalance(patterns[0], patterns[1], strategy)
    if not call.boolean("tell", default=False):
        return done()
    return Answer(200, [share._asdict() for share in shares])


async def _carry_out(call: Call, moves: object) -> Answer:
    """`[{"vhost": "/", "queue": "orders", "to": "rabbit2@host"}]`, as `mirrormq lake report --plan` writes them."""
    wanted: list[tuple[str, str, str]] = []
    for move in moves if isinstance(moves, list) else [None]:
        if not isinstance(move, dict) or not all(isinstance(move.get(key), str) for key in ("queue", "to")):
            raise bad_request("each move has a 'queue', the node 'to' which its lead goes, and a 'vhost' unless that is '/'")
        wanted.append((str(move.get("vhost", "/")), move["queue"], move["to"]))
    left = await call.state.mirrors.carry_out(wanted)
    return Answer(200, {"moved": len(wanted) - len(left), "left": list(left)})


def reset_statistics(call: Call) -> Answer:
    call.state.rates.reset()
    return done()
