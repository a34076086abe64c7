"""Lists of what clients made: queues, exchanges, bindings, connections, channels, consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mirrormq.cli.ctl.client import part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import Misuse
from mirrormq.cli.ctl.terms import Arguments, Pids, pid

Source = dict[str, Any]
Column = Callable[[Source], object]
"""From a row of the API to a value."""
DOWN: Final = "down"
SYNCING: Final = "syncing"


def _same(name: str) -> Column:
    """Of a queue whose node is down little is known; the rest is empty."""
    return lambda row: row.get(name, "" if row.get("state") == DOWN else None)


def _columns(*names: str) -> dict[str, Column]:
    return {name: _same(name) for name in names}


def _arguments(name: str) -> Column:
    return lambda row: Arguments(row.get(name) or {})


def _pids(name: str) -> Column:
    """Of the copies on these nodes; empty for a queue that is not mirrored."""
    return lambda row: Pids(row[name], f"{row['vhost']} {row['name']}") if name in row else ""


def _owner_pid(row: Source) -> str:
    owner = row.get("owner_pid_details")
    return pid(row["node"], "connection", owner["name"]) if owner else ""


def _state(row: Source) -> object:
    return f"{{syncing, {row['sync_messages']}}}" if row.get("state") == SYNCING else row.get("state")


def connection_pid(row: Source) -> str:
    return pid(row["node"], "connection", row["name"])


QUEUES: Final[dict[str, Column]] = _columns(
    "auto_delete", "consumer_capacity", "consumer_utilisation", "consumers", "durable", "exclusive",
    "exclusive_consumer_tag", "head_message_timestamp", "memory", "message_bytes", "message_bytes_persistent",
    "message_bytes_ram", "message_bytes_ready", "message_bytes_unacknowledged", "messages", "messages_persistent",
    "messages_ram", "messages_ready", "messages_ready_ram", "messages_unacknowledged", "messages_unacknowledged_ram",
    "name", "operator_policy", "single_active_consumer_tag", "type", "vhost",
) | {
    "state": _state,
    "arguments": _arguments("arguments"), "effective_policy_definition": _arguments("effective_policy_definition"),
    "policy": lambda row: row.get("policy") or "", "disk_reads": lambda _: 0, "disk_writes": lambda _: 0,
    "pid": lambda row: pid(row["node"], "queue", row["vhost"], row["name"]),
    "owner_pid": _owner_pid, "exclusive_consumer_pid": lambda _: "",
    "leader": lambda row: row["node"], "members": lambda row: [row["node"], *row.get("slave_nodes", [])],
    "online": lambda row: [row["node"], *row.get("slave_nodes", [])],
    "slave_pids": _pids("slave_nodes"), "mirror_pids": _pids("slave_nodes"),
    "synchronised_slave_pids": _pids("synchronised_slave_nodes"), "synchronised_mirror_pids": _pids("synchronised_slave_nodes"),
    "waits_for": lambda row: " ".join(row.get("waits_for", [])), "reason": lambda row: row.get("reason", ""),
    "recoverable_slaves": lambda row: row.get("recoverable_slaves") or "",
    "recoverable_mirrors": lambda row: row.get("recoverable_slaves") or "",
}  # fmt: skip
EXCHANGES: Final[dict[str, Column]] = _columns("name", "type", "durable", "auto_delete", "internal") | {
    "arguments": _arguments("arguments"), "policy": lambda row: row.get("policy") or "",
}  # fmt: skip
BINDINGS: Final[dict[str, Column]] = {
    "source_name": _same("source"), "source_kind": lambda _: "exchange", "destination_name": _same("destination"),
    "destination_kind": _same("destination_type"), "routing_key": _same("routing_key"),
    "arguments": _arguments("arguments"),
}  # fmt: skip
CONNECTIONS: Final[dict[str, Column]] = _columns(
    "name", "port", "host", "peer_port", "peer_host", "ssl", "ssl_protocol", "ssl_key_exchange", "ssl_cipher",
    "ssl_hash", "peer_cert_subject", "peer_cert_issuer", "peer_cert_validity", "state", "channels",
    "auth_mechanism", "user", "vhost", "timeout", "frame_max", "channel_max", "recv_oct", "recv_cnt", "send_oct",
    "send_cnt", "send_pend", "connected_at", "node", "user_provided_name",
) | {
    "pid": connection_pid, "client_properties": _arguments("client_properties"),
    "protocol": lambda _: "{0,9,1}",
}  # fmt: skip
CHANNELS: Final[dict[str, Column]] = _columns(
    "name", "number", "user", "vhost", "transactional", "confirm", "consumer_count", "messages_unacknowledged",
    "messages_uncommitted", "acks_uncommitted", "messages_unconfirmed", "prefetch_count", "global_prefetch_count",
    "state",
) | {
    "pid": lambda row: pid(row["node"], "channel", row["name"]),
    "connection": lambda row: pid(row["node"], "connection", row["connection_details"]["name"]),
    "connection_details": lambda row: row["connection_details"]["name"],
}  # fmt: skip
CONSUMERS: Final[dict[str, Column]] = {
    "queue_name": lambda row: row["queue"]["name"],
    "channel_pid": lambda row: pid(row["channel_details"]["node"], "channel", row["channel_details"]["name"]),
    "consumer_tag": _same("consumer_tag"), "ack_required": _same("ack_required"),
    "prefetch_count": _same("prefetch_count"), "active": _same("active"),
    "activity_status": _same("activity_status"), "arguments": _arguments("arguments"),
}  # fmt: skip


def wanted(context: Context, known: dict[str, Column], default: tuple[str, ...], first: int = 0) -> list[str]:
    """The columns of the command line from the word `first` on, in words or with commas."""
    names = [name for word in context.args[first:] for name in word.split(",") if name] or list(default)
    unknown = sorted({name for name in names if name not in known})
    if unknown:
        raise Misuse(f"Info key(s) {','.join(unknown)} are not supported")
    return names


def _show(context: Context, rows: list[Source], names: list[str], known: dict[str, Column]) -> None:
    context.out.table(names, [{name: known[name](row) for name in names} for row in rows])


def _in_vhost(context: Context, path: str) -> list[Source]:
    """Nothing, without a word, where the virtual host does not exist."""
    answer = context.client.request("GET", f"{path}/{context.vhost_part}")
    return list(answer.body) if answer.is_good else []


def list_queues(context: Context) -> None:
    """A first word that is no column but the name of a queue asks for this queue alone."""
    only = _queue_named(context)
    try:
        names = wanted(context, QUEUES, ("name", "messages"), 0 if only is None else 1)
    except Misuse as misuse:
        first = context.args[0]
        if first not in QUEUES and not context.client.exists(queue_path(context)):
            misuse.text += f", and there is no queue '{first}' in vhost '{context.vhost}'"
        raise
    timeout = context.values.get("timeout")
    seconds = f"{float(timeout):.1f}" if isinstance(timeout, float) else "60.0"
    context.out.banner(f"Timeout: {seconds} seconds ...")
    context.out.banner(f"Listing queues for vhost {context.vhost} ...")
    rows = _in_vhost(context, "/api/queues") if only is None else [only]
    chosen = _chosen(context, rows)
    _show(context, chosen, names, QUEUES)
    for row in chosen:
        if "waits_for" in row:
            context.out.banner(f"Queue '{row['name']}' is not served: {row['reason']}")


def _queue_named(context: Context) -> Source | None:
    if not context.args or all(name in QUEUES for name in context.args[0].split(",")):
        return None
    answer = context.client.request("GET", queue_path(context))
    return dict(answer.body) if answer.is_good else None


def _chosen(context: Context, rows: list[Source]) -> list[Source]:
    """Without a choice, all; `--online`, `--offline` and `--local` add up."""
    online, offline = context.flag("online"), context.flag("offline")
    here = context.node if context.flag("local") else None
    if not (online or offline or here is not None):
        return rows
    return [row for row in rows if (offline if row["state"] == DOWN else online) or row["node"] == here]


def list_exchanges(context: Context) -> None:
    names = wanted(context, EXCHANGES, ("name", "type"))
    context.out.banner(f"Listing exchanges for vhost {context.vhost} ...")
    _show(context, _in_vhost(context, "/api/exchanges"), names, EXCHANGES)


def list_bindings(context: Context) -> None:
    names = wanted(context, BINDINGS, tuple(BINDINGS))
    context.out.banner(f"Listing bindings for vhost {context.vhost}...")
    _show(context, _in_vhost(context, "/api/bindings"), names, BINDINGS)


def list_connections(context: Context) -> None:
    names = wanted(context, CONNECTIONS, ("user", "peer_host", "peer_port", "state"))
    context.out.banner("Listing connections ...")
    _show(context, context.client.get("/api/connections"), names, CONNECTIONS)


def list_channels(context: Context) -> None:
    names = wanted(context, CHANNELS, ("pid", "user", "consumer_count", "messages_unacknowledged"))
    context.out.banner("Listing channels ...")
    _show(context, context.client.get("/api/channels"), names, CHANNELS)


def list_consumers(context: Context) -> None:
    default = tuple(name for name in CONSUMERS if name != "activity_status")
    names = wanted(context, CONSUMERS, default)
    context.out.banner(f"Listing consumers in vhost {context.vhost} ...")
    ordered = [name for name in CONSUMERS if name in names]
    _show(context, _in_vhost(context, "/api/consumers"), ordered, CONSUMERS)


# --- queues ---------------------------------------------------------------------------------------------------------


def queue_path(context: Context) -> str:
    return f"/api/queues/{context.vhost_part}/{part(context.arg(0))}"
