"""Health checks: 200 where all is well, 503 with the reason where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.certificates import certificates_in
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.node.config import NodeConfig

UNITS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
ALIASES: Final = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}
OK: Final = {"status": "ok"}


def _failed(reason: str, **more: object) -> Answer:
    return Answer(503, {"status": "failed", "reason": reason, **more})


def alarms(call: Call) -> Answer:
    raised = {call.broker.node_name: call.runtime.alarms.raised()}
    raised |= {name: neighbour.alarms for name, neighbour in call.runtime.cluster.neighbours.items()}
    return _alarms(raised, "There are alarms in effect in the cluster")


def local_alarms(call: Call) -> Answer:
    return _alarms({call.broker.node_name: call.runtime.alarms.raised()}, "There are alarms in effect on the node")


def _alarms(by_node: Mapping[str, Iterable[str]], reason: str) -> Answer:
    found = [{"node": node, "resource": name} for node, raised in sorted(by_node.items()) for name in sorted(raised)]
    return _failed(reason, alarms=found) if found else Answer(200, OK)


def port_listener(call: Call) -> Answer:
    text = call.args["port"]
    if not (text.isascii() and text.isdecimal()):
        raise bad_request("Invalid port")
    ports = [port for _, _, port in call.runtime.addresses]
    if int(text) in ports:
        return Answer(200, {"status": "ok", "port": int(text)})
    return _failed("No active listener", missing=int(text), ports=sorted(set(ports)))


def protocol_listener(call: Call) -> Answer:
    wanted = call.args["protocol"]
    protocols = {protocol for protocol, _, _ in call.runtime.addresses}
    if ALIASES.get(wanted, wanted) in protocols:
        return Answer(200, {"status": "ok", "protocol": wanted})
    return _failed("No active listener", missing=wanted, protocols=sorted(protocols))


def virtual_hosts(call: Call) -> Answer:
    """Queues whose log is damaged are not served; their virtual hosts are not well."""
    vhosts = call.broker.vhosts.values()
    damaged = [vhost.name for vhost in vhosts if any(queue.damage for queue in vhost.queues.values())]
    if damaged:
        return _failed("Some queues are damaged and not served", **{"virtual-hosts": damaged})
    return Answer(200, OK)


def node_critical(call: Call) -> Answer:
    """For quorum queues, of which there are none."""
    is_alone = len(call.runtime.cluster.membership.members) == 1
    return Answer(200, OK | {"reason": "single node cluster"} if is_alone else OK)


def mirror_critical(call: Call) -> Answer:
    """Mirrored queues that have no copy in sync but this node's."""
    critical = call.state.mirrors.critical()
    if len(call.runtime.cluster.membership.members) == 1 or not critical:
        return node_critical(call)
    return _failed("There are classic mirrored queues without online synchronised mirrors", queues=[
        {"readable_name": f"queue '{queue.name}' in vhost '{queue.vhost}'", "name": queue.name, "virtual_host": queue.vhost,
         "type": "classic"} for queue in critical])


async def node_health(call: Call) -> Answer:
    node, cluster = call.args.get("node", call.broker.node_name), call.runtime.cluster
    if node == call.broker.node_name:
        return Answer(200, health_here(call.state))
    if node not in cluster.membership.members:
        raise not_found()
    told = await cluster.ask(node, "health", {})
    return _failed(f"node {node} is down or does not answer") if told is None else Answer(200, told)


def health_here(state: State) -> Json:
    raised = sorted(state.runtime.alarms.raised())
    return {"status": "failed", "reason": f"resource alarm(s) in effect: {raised}"} if raised else dict(OK)


def certificate_expiration(call: Call) -> Answer:
    text = call.args["within"]
    if not (text.isascii() and text.isdecimal()):
        raise bad_request("Invalid expiration value.")
    if call.args["unit"] not in UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    days = min(int(text) * UNITS[call.args["unit"]], 1_000_000)
    expiring = _expiring(call.runtime.config, datetime.now(UTC) + timedelta(days=days))
    return _failed("Certificates expiring", expired=expiring) if expiring else Answer(200, OK)


def _expiring(config: NodeConfig, until: datetime) -> list[Json]:
    """Every certificate of a TLS listener that ends before then, or that cannot be read."""
    files: set[Path] = set()
    for tls, is_used in ((config.tls, bool(config.ssl_listeners)),
                         (config.management_tls, config.management_ssl_port is not None)):
        files |= {file for file in (tls.certfile, tls.cacertfile) if is_used and file is not None}
    found: list[Json] = []
    for file in sorted(files):
        try:
            found += [{"file": str(file), "expires": end.isoformat()} for end in certificates_in(file) if end < until]
        except (OSError, ValueError) as fault:
            found.append({"file": str(file), "reason": str(fault)})
    return found
