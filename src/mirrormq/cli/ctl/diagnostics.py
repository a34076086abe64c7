"""Health checks and other questions of `rabbitmq-diagnostics`: a check that fails ends with 69 and says what is wrong."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from mirrormq.cli.ctl.client import part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import DATA, UNAVAILABLE, Failure, Misuse
from mirrormq.cli.ctl.node import UNITS, listener_line, listeners_of

PROTOCOLS: Final = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}
PERIODS: Final = ("days", "weeks", "months", "years")
PROBE: Final = 5.0          # seconds for a listener to take a connection
TLS_VERSIONS: Final = (("tlsv1.3", ssl.HAS_TLSv1_3), ("tlsv1.2", ssl.HAS_TLSv1_2), ("tlsv1.1", ssl.HAS_TLSv1_1),
                       ("tlsv1", ssl.HAS_TLSv1))


def _verdict(context: Context, sentence: str, *, with_message: bool = False) -> None:
    """All is well. JSON says so in its own way."""
    if not context.out.is_json:
        context.out.say(sentence)
    elif with_message:
        context.out.document({"message": sentence})
    else:
        context.out.document({"result": "ok"})


def _check(context: Context, name: str) -> dict[str, Any] | None:
    """What a failed health check tells; None if all is well."""
    answer = context.client.request("GET", f"/api/health/checks/{name}")
    return None if answer.is_good else answer.body


# --- alarms ---------------------------------------------------------------------------------------------------------


def _alarm_lines(told: dict[str, Any] | None) -> list[str]:
    if told is None:
        return []
    return [f"{_alarm(item['resource'])} alarm on node {item['node']}" for item in told["alarms"]]


def _alarm(resource: str) -> str:
    return "Free disk space" if resource == "disk" else resource.capitalize()


def alarms(context: Context) -> None:
    node = context.node
    context.out.banner(f"Asking node {node} to report any known resource alarms ...")
    lines = _alarm_lines(_check(context, "alarms"))
    if context.out.is_json:
        context.out.document({"node": node, "alarms": lines, "local": _alarm_lines(_check(context, "local-alarms")),
                              "global": lines})
        return
    context.out.say("\n".join(lines) or f"Node {node} reported no alarms, local or clusterwide")


def check_alarms(context: Context) -> None:
    _check_alarms(context, "alarms", "no alarms, local or clusterwide", "alarms")


def check_local_alarms(context: Context) -> None:
    _check_alarms(context, "local-alarms", "no local alarms", "local alarms")


def _check_alarms(context: Context, name: str, none: str, some: str) -> None:
    node = context.node
    context.out.banner(f"Asking node {node} to report any local resource alarms ...")
    lines = _alarm_lines(_check(context, name))
    if lines:
        raise Failure(UNAVAILABLE, f"Node {node} reported {some}:\n" + "\n".join(lines))
    _verdict(context, f"Node {node} reported {none}")


# --- listeners ------------------------------------------------------------------------------------------------------


def _listeners(context: Context) -> list[dict[str, Any]]:
    """Of this node, in the order of their ports."""
    overview = context.client.get("/api/overview?columns=listeners,node")
    here = [item for item in overview["listeners"] if item["node"] == overview["node"]]
    return sorted(listeners_of({"listeners": here}), key=lambda item: int(item["port"]))


def listeners(context: Context) -> None:
    context.out.banner(f"Asking node {context.node} to report its protocol listeners ...")
    found = _listeners(context)
    if context.out.is_json:
        context.out.document({"result": "ok", "node": context.node, "listeners": found})
        return
    lines = [listener_line(item) for item in found]
    context.out.say("\n".join(line[0].upper() + line[1:] for line in lines))


def check_port_listener(context: Context) -> None:
    text = context.arg(0)
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise Misuse("Bad argument: Argument must be a positive integer", DATA)
    node, port = context.node, int(text)
    context.out.banner(f"Asking node {node} if there's an active listener on port {port} ...")
    ports = list(dict.fromkeys(item["port"] for item in _listeners(context)))
    if port not in ports:
        raise Failure(UNAVAILABLE, f"No listener for port {port} is active on node {node}. Found listeners that use the "
                      f"following ports: {', '.join(map(str, ports))}", is_bare=True)
    _verdict(context, f"A listener for port {port} is running on node {node}.")


def check_protocol_listener(context: Context) -> None:
    node, wanted = context.node, context.arg(0)
    context.out.banner(f"Asking node {node} if there's an active listener for protocol {wanted} ...")
    name = PROTOCOLS.get(wanted.lower(), wanted.lower())
    protocols = sorted({item["protocol"] for item in _listeners(context)})
    if name not in protocols:
        raise Failure(UNAVAILABLE, f"No listener for protocol {wanted} is active on node {node}. Found listeners for the "
                      f"following protocols: {', '.join(protocols)}")
    _verdict(context, f"A listener for protocol {name} is running on node {node}.")


def check_port_connectivity(context: Context) -> None:
    node = context.node
    context.out.banner(f"Testing TCP connections to all active listeners on node {node} ...")
    found = _listeners(context)
    failed = sorted({item["port"] for item in found if not _answers(item)})
    if failed:
        raise Failure(UNAVAILABLE, f"Connection to ports of the following listeners on node {node} failed: "
                      f"{', '.join(map(str, failed))}")
    ports = dict.fromkeys(str(item["port"]) for item in found)
    _verdict(context, f"Successfully connected to ports {', '.join(ports)} on node {node}.")


def _answers(item: dict[str, Any]) -> bool:
    host = item["interface"].strip("[]")
    host = {"::": "localhost", "0.0.0.0": "127.0.0.1"}.get(host, host)
    try:
        socket.create_connection((host, item["port"]), PROBE).close()
    except OSError:
        return False
    return True


# --- the node -------------------------------------------------------------------------------------------------------


def _state(context: Context) -> str:
    return str(context.client.get("/api/app")["state"])


def _running(context: Context) -> str:
    return f"RabbitMQ on node {context.node} is fully booted and running"


def check_running(context: Context) -> None:
    context.out.banner(f"Checking if RabbitMQ is running on node {context.node} ...")
    if _state(context) != "running":
        raise Failure(UNAVAILABLE, f"Error: RabbitMQ is not running on node {context.node}", is_bare=True)
    _verdict(context, _running(context), with_message=True)


def is_running(context: Context) -> None:
    node = context.node
    context.out.banner(f"Asking node {node} for its status ...")
    is_up = _state(context) == "running"
    if context.out.is_json:
        message = _running(context) if is_up else f"RabbitMQ on node {node} is not running"
        context.out.document({"result": is_up, "message": message})
        return
    context.out.say(_running(context) if is_up else
                    f"RabbitMQ on node {node} is not running or has not fully booted yet (check with is_booting)")


def is_booting(context: Context) -> None:
    node = context.node
    context.out.banner(f"Asking node {node} for its boot status ...")
    is_on = _state(context) == "starting"
    sentence = f"RabbitMQ on node {node} is booting" if is_on else (
        f"RabbitMQ on node {node} is fully booted (check with is_running), stopped or has not started booting yet")
    if context.out.is_json:
        context.out.document({"result": is_on, "message": sentence})
    else:
        context.out.say(sentence)


def check_virtual_hosts(context: Context) -> None:
    node = context.node
    context.out.banner(f"Checking if all vhosts are running on node {node} ...")
    told = _check(context, "virtual-hosts")
    if told is not None:
        raise Failure(UNAVAILABLE, f"Some virtual hosts on node {node} are down:\n" + "\n".join(told["virtual-hosts"]))
    _verdict(context, f"Node {node} reported all vhosts as running")


def check_certificate_expiration(context: Context) -> None:
    unit = (context.text("unit") or "weeks").lower()
    given = context.values.get("within", 4)
    within = int(given) if isinstance(given, (int, float)) else 4
    if unit not in PERIODS:
        raise Misuse(f"\"unit '{unit}' is not supported. Please use one of: {', '.join(PERIODS)}\"")
    context.out.banner(f"Checking certificate expiration on node {context.node} ...")
    told = _check(context, f"certificate-expiration/{within}/{unit}")
    if told is not None:
        lines = [f"{item['file']}: {item.get('expires') or item['reason']}" for item in told["expired"]]
        raise Failure(UNAVAILABLE, f"Certificates that expire within {within} {unit}:\n" + "\n".join(lines))
    _verdict(context, f"No certificates are expiring within {within} {unit}.")


def node_health_check(context: Context) -> None:
    for line in ("This command is DEPRECATED and will be removed in a future version.",
                 "It performs intrusive, opinionated health checks and requires a fully booted node.",
                 "Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead.",
                 "Timeout: 70 seconds ...", f"Checking health of node {context.node} ..."):
        context.out.banner(line)
    told = context.client.get("/api/healthchecks/node")
    if told["status"] != "ok":
        raise Failure(UNAVAILABLE, f"Error: {told['reason']}", is_bare=True)
    context.out.say("Health check passed")


# --- about the node -------------------------------------------------------------------------------------------------


def server_version(context: Context) -> None:
    context.out.banner(f"Asking node {context.node} for its RabbitMQ version...")
    context.out.say(context.client.get("/api/overview?columns=rabbitmq_version")["rabbitmq_version"])


def erlang_version(context: Context) -> None:
    context.out.banner(f"Asking node {context.node} for its Erlang/OTP version...")
    context.out.say(context.client.get("/api/overview?columns=erlang_full_version")["erlang_full_version"])


def _about(context: Context, column: str) -> Any:
    return context.client.get(f"/api/nodes/{part(context.node)}?columns={column}")[column]


def log_location(context: Context) -> None:
    context.out.banner(f"Log file location(s) on node {context.node} ...")
    context.out.say("\n".join(_about(context, "log_files")))


def tls_versions(context: Context) -> None:
    context.out.banner("Listing all TLS versions supported by the runtime...")
    context.out.say("\n".join(name for name, is_there in TLS_VERSIONS if is_there))


def memory_breakdown(context: Context) -> None:
    node, unit = context.node, (context.text("unit") or "gb").lower()
    if unit not in UNITS:
        raise Misuse(f"unit {unit} is not one of {', '.join(UNITS)}")
    context.out.banner(f"Reporting memory breakdown on node {node}...")
    memory: dict[str, Any] = context.client.get(f"/api/nodes/{part(node)}/memory")["memory"]
    total = max(1, memory["total"]["rss"])
    parts = {name: value for name, value in memory.items() if name not in ("total", "strategy")}
    if context.out.is_json:
        context.out.document({name: {"bytes": value, "percentage": round(100 * value / total, 2)}
                              for name, value in parts.items()})
        return
    ordered = sorted(parts.items(), key=lambda item: item[1], reverse=True)
    context.out.say("\n".join(f"{name}: {round(value / UNITS[unit], 4)} {unit} ({round(100 * value / total, 2)}%)"
                              for name, value in ordered))
