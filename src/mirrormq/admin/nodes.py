"""Nodes: what the process uses, and how much it may."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from mirrormq import __version__
from mirrormq.admin.call import Answer, Call, Json
from mirrormq.admin.errors import not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.overview import CHURN, contexts, exchange_types
from mirrormq.admin.queue_view import span_of
from mirrormq.node.alarms import DISK, MEMORY
from mirrormq.node.resources import free_disk, resident_memory
from mirrormq.node.runtime import Runtime

GAUGES: Final = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")
COUNTS: Final = (
    "gc_num", "gc_bytes_reclaimed", "context_switches", "io_read_count", "io_read_bytes", "io_read_avg_time",
    "io_write_count", "io_write_bytes", "io_write_avg_time", "io_sync_count", "io_sync_avg_time", "io_seek_count",
    "io_seek_avg_time", "io_reopen_count", "mnesia_ram_tx_count", "mnesia_disk_tx_count", "msg_store_read_count",
    "msg_store_write_count", "queue_index_write_count", "queue_index_read_count",
)  # fmt: skip
MECHANISMS: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism", "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "TLS peer verification-based authentication mechanism",
}  # fmt: skip


def _counters(runtime: Runtime) -> dict[str, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    stats = runtime.log.store.stats()
    found = dict.fromkeys(COUNTS, 0) | {name: runtime.broker.counters.get(name, 0) for name in CHURN}
    return found | {
        "mem_used": resident_memory(), "fd_used": _open_files(), "sockets_used": runtime.client_count(),
        "proc_used": threading.active_count(), "disk_free": free_disk(runtime.config.data_dir) or 0,
        "gc_num": sum(generation["collections"] for generation in gc.get_stats()),
        "context_switches": usage.ru_nvcsw + usage.ru_nivcsw, "io_write_count": stats.commits,
        "io_write_bytes": stats.committed_bytes, "io_sync_count": stats.commits,
        "io_sync_avg_time": int(stats.last_commit_seconds * 1000),
        "mnesia_disk_tx_count": runtime.broker.journal.written,
    }  # fmt: skip


def _open_files() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0


def show(call: Call) -> Json:
    runtime, span = call.runtime, span_of(call.query, "node_stats")
    figures = call.state.rates.look(("node",), _counters(runtime), call.broker.now, keep=span is not None)
    return _static(runtime) | figures.fields((*GAUGES, *COUNTS, *CHURN), span)


def _static(runtime: Runtime) -> Json:
    config, broker = runtime.config, runtime.broker
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits, raised = runtime.alarms.alarms.limits, runtime.alarms.raised()
    row: dict[str, Any] = {
        "partitions": [], "os_pid": str(os.getpid()), "fd_total": files,
        "sockets_total": config.connection_max or files, "mem_limit": limits.memory,
        "mem_alarm": MEMORY in raised, "disk_free_limit": limits.disk,
        "disk_free_alarm": DISK in raised, "proc_total": 1, "rates_mode": "basic",
        "uptime": int((time.time() - runtime.started_at) * 1000), "run_queue": 0, "processors": os.cpu_count() or 1,
        "exchange_types": exchange_types(), "auth_mechanisms": _mechanisms(broker.mechanisms),
        "applications": [
            {"name": "mirrormq", "description": "MirrorMQ", "version": __version__},
            {"name": "python", "description": sys.implementation.name, "version": sys.version.split()[0]},
        ],
        "contexts": contexts(runtime), "log_files": _log_files(runtime), "db_dir": str(config.data_dir),
        "config_files": [str(file) for file in config.files], "net_ticktime": config.net_ticktime,
        "enabled_plugins": ["rabbitmq_management"], "mem_calculation_strategy": "rss", "ra_open_file_metrics": {},
        "name": broker.node_name, "running": True, "type": "disc", "being_drained": False, "cluster_links": [],
        "metrics_gc_queue_length": {},
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
    return await answer_rows(call, Rows([call], show))


def _check_name(call: Call) -> None:
    if call.args["node"] != call.broker.node_name:
        raise not_found()


def show_node(call: Call) -> Answer:
    _check_name(call)
    row = show(call)
    if call.flag("memory"):
        row["memory"] = _memory(call.runtime)
    return answer_one(call, row)


def show_memory(call: Call) -> Answer:
    _check_name(call)
    return Answer(200, {"memory": _memory(call.runtime)})


def _memory(runtime: Runtime) -> Json:
    """The ready messages in memory are counted; the rest is the interpreter and everything else."""
    total, windows = resident_memory(), int(runtime.broker.budget.used)
    return {
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
