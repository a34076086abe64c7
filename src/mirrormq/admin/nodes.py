"""Nodes: what the process uses, and how much it may."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
from pathlib import Path
from typing import Any, Final

from mirrormq import __version__
from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.census import Query
from mirrormq.admin.errors import not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.overview import exchange_types
from mirrormq.admin.queue_view import span_of
from mirrormq.admin.totals import CHURN, contexts
from mirrormq.node.alarms import DISK, MEMORY
from mirrormq.node.link_connection import LinkConnection
from mirrormq.node.resources import free_disk, resident_memory
from mirrormq.node.runtime import Runtime

GAUGES: Final = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")
COUNTS: Final = (
    "gc_num", "gc_bytes_reclaimed", "context_switches", "io_read_count", "io_read_bytes", "io_read_avg_time",
    "io_write_count", "io_write_bytes", "io_write_avg_time", "io_sync_count", "io_sync_avg_time", "io_seek_count",
    "io_seek_avg_time", "io_reopen_count", "mnesia_ram_tx_count", "mnesia_disk_tx_count", "msg_store_read_count",
    "msg_store_write_count", "queue_index_write_count", "queue_index_read_count",
)  # fmt: skip
ABSENT_MEMORY: Final = (
    "quorum_ets", "quorum_queue_dlx_procs", "quorum_queue_procs", "stream_queue_coordinator_procs", "stream_queue_procs",
    "stream_queue_replica_reader_procs",
)  # fmt: skip
"""Parts of RabbitMQ's memory that belong to queues of other kinds."""
GATHERED: Final = (
    "channel_closed", "channel_consumer_deleted", "connection_closed", "consumer_deleted", "exchange_deleted",
    "node_node_deleted", "queue_deleted", "vhost_deleted",
)  # fmt: skip
"""Events whose statistics RabbitMQ removes later: nothing ever waits here."""
MECHANISMS: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism", "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "TLS peer verification-based authentication mechanism",
}  # fmt: skip


def _counters(runtime: Runtime) -> dict[str, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    store = runtime.log.store
    found = dict.fromkeys(COUNTS, 0) | {name: runtime.broker.counters.get(name, 0) for name in CHURN}
    return found | {
        "mem_used": resident_memory(), "fd_used": _open_files(), "sockets_used": runtime.client_count(),
        "proc_used": threading.active_count(), "disk_free": free_disk(runtime.config.data_dir) or 0,
        "gc_num": sum(generation["collections"] for generation in gc.get_stats()),
        "context_switches": usage.ru_nvcsw + usage.ru_nivcsw, "io_write_count": store.commits,
        "io_write_bytes": store.durable, "io_sync_count": store.commits,
        "io_sync_avg_time": int(store.last_commit_seconds * 1000),
        "mnesia_disk_tx_count": runtime.broker.journal.written,
    }  # fmt: skip


def _open_files() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0


def show_here(state: State, query: Query) -> Json:
    """This node."""
    runtime, span = state.runtime, span_of(query, "node_stats")
    figures = state.rates.look(("node",), _counters(runtime), state.broker.now, keep=span is not None)
    row = _static(runtime) | figures.fields((*GAUGES, *COUNTS, *CHURN), span) | {"cluster_links": _links(state)}
    if query.get("memory") == "true":
        row["memory"] = memory_here(runtime)
    return row


def show_stopped(name: str) -> Json:
    """A member that is not up, or does not answer."""
    return {"name": name, "type": "disc", "running": False, "cluster_links": []}


def _links(state: State) -> list[Json]:
    links = [neighbour.peer for _, neighbour in sorted(state.runtime.cluster.neighbours.items())]
    return [_show_link(state, peer.name, peer.connection) for peer in links]


def _show_link(state: State, name: str, link: LinkConnection) -> Json:
    here, there = link.ends()
    counters = {"recv_bytes": link.received_bytes, "send_bytes": link.sent_bytes}
    figures = state.rates.look(("link", name), counters, state.broker.now)
    return {
        "stats": figures.fields(("send_bytes", "recv_bytes")), "name": name, "peer_addr": there[0], "peer_port": there[1],
        "sock_addr": here[0], "sock_port": here[1], **counters,
    }  # fmt: skip


def _static(runtime: Runtime) -> Json:
    config, broker = runtime.config, runtime.broker
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits, raised = runtime.alarms.alarms.limits, runtime.alarms.raised()
    row: dict[str, Any] = {
        "partitions": runtime.cluster.unreachable(), "os_pid": str(os.getpid()), "fd_total": files,
        "sockets_total": config.connection_max or files, "mem_limit": limits.memory,
        "mem_alarm": MEMORY in raised, "disk_free_limit": limits.disk,
        "disk_free_alarm": DISK in raised, "proc_total": 1, "rates_mode": "basic",
        "uptime": int((runtime.cluster.loop_time() - runtime.started_at) * 1000), "run_queue": 0,
        "processors": os.cpu_count() or 1, "exchange_types": exchange_types(), "auth_mechanisms": _mechanisms(broker.mechanisms),
        "applications": [
            {"name": "mirrormq", "description": "MirrorMQ", "version": __version__},
            {"name": "python", "description": sys.implementation.name, "version": sys.version.split()[0]},
        ],
        "contexts": contexts(runtime), "log_files": _log_files(runtime), "db_dir": str(config.data_dir),
        "config_files": [str(file) for file in config.files], "net_ticktime": config.net_ticktime,
        "enabled_plugins": ["rabbitmq_management"], "mem_calculation_strategy": "rss", "ra_open_file_metrics": {},
        "name": broker.node_name, "running": True, "type": "disc", "being_drained": runtime.is_drained,
        "metrics_gc_queue_length": dict.fromkeys(GATHERED, 0),
    }  # fmt: skip
    return row


def _mechanisms(enabled: list[str]) -> list[Json]:
    return [{"name": name, "description": text, "enabled": name in enabled} for name, text in MECHANISMS.items()]


def _log_files(runtime: Runtime) -> list[str]:
    config = runtime.config
    if config.log_file:
        return [str(Path(config.log_dir or config.data_dir) / config.log_file)]
    return ["<stderr>"]


async def list_nodes(call: Call) -> Answer:
    cluster, own = call.runtime.cluster, call.broker.node_name
    told = await cluster.ask_all("node", {"query": dict(call.query)})
    rows = told | {own: show_here(call.state, call.query)}
    shown = [rows.get(name) or show_stopped(name) for name in sorted(cluster.membership.members)]
    return await answer_rows(call, Rows(shown, lambda row: row))


async def _from_node(call: Call, what: str) -> Any:
    """What the node of the path tells about itself; None if it is a member and does not answer."""
    name, cluster = call.args["node"], call.runtime.cluster
    if name not in cluster.membership.members:
        raise not_found()
    return await cluster.ask(name, what, {"query": dict(call.query)})


async def show_node(call: Call) -> Answer:
    if call.args["node"] == call.broker.node_name:
        return answer_one(call, show_here(call.state, call.query))
    return answer_one(call, await _from_node(call, "node") or show_stopped(call.args["node"]))


async def show_memory(call: Call) -> Answer:
    if call.args["node"] == call.broker.node_name:
        return Answer(200, {"memory": memory_here(call.runtime)})
    return Answer(200, {"memory": await _from_node(call, "memory") or "not_available"})


def memory_here(runtime: Runtime) -> Json:
    """The ready messages in memory are counted; the rest is the interpreter and everything else."""
    total, windows = resident_memory(), int(runtime.broker.budget.used)
    return {
        **dict.fromkeys(ABSENT_MEMORY, 0),
        "connection_readers": 0, "connection_writers": 0, "connection_channels": 0, "connection_other": 0,
        "queue_procs": windows, "queue_slave_procs": 0, "plugins": 0, "metrics": 0, "mgmt_db": 0, "mnesia": 0,
        "binary": 0, "msg_index": 0, "code": 0, "atom": 0, "other_proc": max(0, total - windows), "other_ets": 0,
        "other_system": 0, "allocated_unused": 0, "reserved_unallocated": 0, "strategy": "rss",
        "total": {"erlang": total, "rss": total, "allocated": total},
    }  # fmt: skip


def show_environment(call: Call) -> Answer:
    """The configuration that the node runs with, but for its secrets."""
    config = call.runtime.config
    shown = {name: _plain(getattr(config, name)) for name in sorted(config.__dataclass_fields__)
             if config.__dataclass_fields__[name].repr}
    return Answer(200, shown)


def _plain(value: object) -> Any:
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    fields = getattr(value, "__dataclass_fields__", None)
    if isinstance(fields, dict):
        return {name: _plain(getattr(value, name)) for name, field in fields.items() if field.repr}
    return str(value)
