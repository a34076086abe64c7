"""Commands on the node itself: is it there, how is it, wait for it, stop it."""

from __future__ import annotations

import os
import signal
import ssl
import time
from pathlib import Path
from typing import Any, Final

from mirrormq import __version__
from mirrormq.cli.ctl.client import Client, part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import TEMPORARY, UNAVAILABLE, Failure, TimedOut
from mirrormq.cli.ctl.terms import cell, term

UNITS: Final = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
PURPOSES: Final = {
    "amqp": "AMQP 0-9-1", "amqp/ssl": "AMQP 0-9-1 over TLS", "http": "HTTP API", "https": "HTTP API over TLS (HTTPS)",
    "clustering": "inter-node communication", "http/prometheus": "Prometheus exporter API over HTTP",
}  # fmt: skip
START_PATIENCE: Final = 300.0
LEAST_LOOK: Final = 1.0         # seconds, also where nobody wants to wait for the start
STOP_PATIENCE: Final = 120.0


def version(context: Context) -> None:
    context.out.say(__version__)


def ping(context: Context) -> None:
    patience = context.values.get("timeout")
    limit = int((patience if isinstance(patience, float) else 60.0) * 1000)
    name = context.client.target.node or context.client.target.url
    context.out.banner(f"Will ping {name}. This only checks if the OS process is up and answers. Timeout: {limit} ms.")
    try:
        context.client.get("/api/app")
    except TimedOut:
        context.out.flush()
        raise Failure(UNAVAILABLE, f"Failed to connect and authenticate to {name} in {limit} ms") from None
    if context.out.is_json:
        context.out.document({"message": "Ping succeeded"})
    else:
        context.out.say("Ping succeeded")


# --- status ---------------------------------------------------------------------------------------------------------


def _look(context: Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """The overview, and the node that gave it; of clients and listeners the node's own."""
    overview = context.client.get("/api/overview")
    node = context.client.get(f"/api/nodes/{part(overview['node'])}")
    overview["listeners"] = [item for item in overview["listeners"] if item["node"] == node["name"]]
    overview["object_totals"]["connections"] = node["sockets_used"]
    return overview, node


def _alarms(node: dict[str, Any]) -> list[str]:
    names = {"mem_alarm": "memory", "disk_free_alarm": "disk"}
    return [f"{name} alarm on node {node['name']}" for key, name in names.items() if node[key]]


def partitions(cluster: dict[str, Any]) -> list[str]:
    """From what the node that was asked is cut off."""
    found = [f"Node {name} cannot communicate with {', '.join(others)}" for name, others in cluster["partitions"].items()]
    if cluster["store"]:
        found.append(f"Node {cluster['node']} does not reach the coordination store, which is {cluster['store']}")
    if cluster["paused"]:
        found.append(f"Node {cluster['node']} is paused: {cluster['paused']}")
    return found


def listeners_of(overview: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for item in overview["listeners"]:
        address = item["ip_address"]
        found.append({
            "interface": f"[{address}]" if ":" in address else address, "node": item["node"], "port": item["port"],
            "protocol": item["protocol"], "purpose": PURPOSES.get(item["protocol"], item["protocol"]),
        })  # fmt: skip
    return found


def listener_line(item: dict[str, Any]) -> str:
    return (f"interface: {item['interface']}, port: {item['port']}, protocol: {item['protocol']}, "
            f"purpose: {item['purpose']}")


def print_sections(context: Context, sections: list[tuple[str, list[str]]]) -> None:
    blocks = [f"{context.out.title(name)}\n\n" + "\n".join(lines or ["(none)"]) for name, lines in sections]
    context.out.say("\n\n".join(blocks))


def _size(context: Context, value: int) -> str:
    unit = (context.text("unit") or "gb").lower()
    if unit not in UNITS:
        raise Failure(UNAVAILABLE, f"unit {unit} is not one of {', '.join(UNITS)}")
    return f"{round(value / UNITS[unit], 4)} {unit}"


def status(context: Context) -> None:
    overview, node = _look(context)
    context.out.banner(f"Status of node {node['name']} ...")
    vhosts = len(context.client.get("/api/vhosts?columns=name"))
    cluster = context.client.get("/api/cluster")
    cut_off = partitions(cluster)
    if context.out.is_json:
        more = {name: cluster[name] for name in ("partitions", "paused", "store")} if cut_off else {}
        context.out.document(_status_document(overview, node, vhosts) | more)
        return
    totals = overview["object_totals"]
    print_sections(context, [
        ("Runtime", _runtime(overview, node)),
        ("Plugins", ["Enabled plugins:", "", *(f" * {name}" for name in node["enabled_plugins"])]),
        ("Data directory", [f"Node data directory: {node['db_dir']}"]),
        ("Config files", [f" * {file}" for file in node["config_files"]]),
        ("Log file(s)", [f" * {file}" for file in node["log_files"]]),
        ("Alarms", _alarms(node)),
        *([("Network Partitions", cut_off)] if cut_off else []),
        ("Memory", [
            f"Total memory used: {_size(context, node['mem_used'])}", "Calculation strategy: rss",
            f"Memory high watermark setting: computed to: {_size(context, node['mem_limit'])}"]),
        ("File Descriptors", [f"Total: {node['fd_used']}, limit: {node['fd_total']}",
                              f"Sockets: {node['sockets_used']}, limit: {node['sockets_total']}"]),
        ("Free Disk Space", [f"Low free disk space watermark: {_size(context, node['disk_free_limit'])}",
                             f"Free disk space: {_size(context, node['disk_free'])}"]),
        ("Totals", [f"Connection count: {totals['connections']}", f"Queue count: {totals['queues']}",
                    f"Virtual host count: {vhosts}"]),
        ("Listeners", [_capital(listener_line(item)) for item in listeners_of(overview)]),
    ])  # fmt: skip


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _runtime(overview: dict[str, Any], node: dict[str, Any]) -> list[str]:
    return [
        f"OS PID: {node['os_pid']}", "OS: Linux", f"Uptime (seconds): {node['uptime'] // 1000}",
        f"Is under maintenance?: {cell(node['being_drained'])}", f"RabbitMQ version: {overview['rabbitmq_version']}",
        f"{overview['product_name']} version: {overview['product_version']}", f"Node name: {node['name']}",
        f"Runtime: {overview['erlang_full_version']}",
        f"Cluster heartbeat timeout (net_ticktime): {node['net_ticktime']}",
    ]


def _status_document(overview: dict[str, Any], node: dict[str, Any], vhosts: int) -> dict[str, Any]:
    totals = overview["object_totals"]
    return {
        "active_plugins": node["enabled_plugins"], "alarms": _alarms(node), "config_files": node["config_files"],
        "data_directory": node["db_dir"], "disk_free": node["disk_free"], "disk_free_limit": node["disk_free_limit"],
        "erlang_version": overview["erlang_full_version"],
        "file_descriptors": {"sockets_limit": node["sockets_total"], "sockets_used": node["sockets_used"],
                             "total_limit": node["fd_total"], "total_used": node["fd_used"]},
        "is_under_maintenance": node["being_drained"], "listeners": listeners_of(overview), "log_files": node["log_files"],
        "memory": {"strategy": "rss", "total": {"rss": node["mem_used"]}}, "net_ticktime": node["net_ticktime"],
        "crypto_lib_version": ssl.OPENSSL_VERSION, "enabled_plugin_file": "", "raft_data_directory": "",
        "processes": {"limit": node["proc_total"], "used": node["proc_used"]},
        "release_series_support_status": overview["release_series_support_status"],
        "vm_memory_calculation_strategy": "rss", "vm_memory_high_watermark_setting": {"absolute": node["mem_limit"]},
        "os": "Linux", "pid": int(node["os_pid"]), "product_name": overview["product_name"],
        "product_version": overview["product_version"], "rabbitmq_version": overview["rabbitmq_version"],
        "run_queue": node["run_queue"], "totals": {"connection_count": totals["connections"],
                                                   "queue_count": totals["queues"], "virtual_host_count": vhosts},
        "uptime": node["uptime"] // 1000, "vm_memory_high_watermark_limit": node["mem_limit"],
    }  # fmt: skip


def list_feature_flags(context: Context) -> None:
    context.out.banner("Listing feature flags ...")
    context.out.table(("name", "state"), context.client.get("/api/feature-flags"))


def list_auth_attempts(context: Context) -> None:
    node = context.node
    context.out.banner(f'Listing authentication\n attempts for node "{node}" ...')
    rows = context.client.get(f"/api/auth/attempts/{part(node)}")
    context.out.table(("protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"), rows)


def environment(context: Context) -> None:
    context.out.banner(f"Application environment of node {context.node} ...")
    values: dict[str, Any] = context.client.get("/api/environment")
    if context.out.is_json:
        context.out.document(values)
    else:
        lines = [f"{name} = {value if isinstance(value, str) else term(value)}" for name, value in values.items()]
        context.out.say("\n".join(lines))


# --- waiting and stopping -------------------------------------------------------------------------------------------


def await_startup(context: Context) -> None:
    given = context.values.get("timeout")
    patience = given if isinstance(given, float) else START_PATIENCE
    until = time.monotonic() + patience
    while (state := _state(context, max(patience, LEAST_LOOK))) != "running":
        if state in ("stopped", "stopping"):
            raise Failure(UNAVAILABLE, "rabbit_is_not_running")
        if time.monotonic() > until:
            name = context.client.target.node or context.client.target.url
            raise Failure(TEMPORARY, f"Error: operation await_startup on node {name} timed out.", is_bare=True)
        time.sleep(0.1)


def wait(context: Context) -> None:
    """The file with a process number, which RabbitMQ wants here, is not needed."""
    context.out.banner(f"Waiting for node {context.node} ...", at_once=True)
    await_startup(context)


def _state(context: Context, timeout: float) -> str:
    """Of the application; empty if there is no process that tells."""
    try:
        return str(Client(context.values | {"timeout": timeout}).get("/api/app")["state"])
    except Failure:
        return ""


def stop(context: Context) -> None:
    """By a signal, to the process that the node's own file names."""
    name, pid = context.node, context.client.target.pid
    context.client.get("/api/app")
    context.out.banner(f"Stopping and halting node {name} ...", at_once=True)
    if not pid:
        raise Failure(UNAVAILABLE, f"node {name} was not started by this user on this machine: stop it there")
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise Failure(UNAVAILABLE, f"node {name} belongs to another user") from None
    _await_end(pid, name)


def _await_end(pid: int, name: str) -> None:
    until = time.monotonic() + STOP_PATIENCE
    while _is_alive(pid):
        if time.monotonic() > until:
            raise Failure(TEMPORARY, f"Error: node {name} is still stopping.", is_bare=True)
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    """A process that has ended but whose parent has not asked yet counts as gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return status.rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
