"""The cluster as `cluster_status` shows it: who belongs to it, who is up, and what each node tells of itself."""

from __future__ import annotations

from typing import Any

from mirrormq.admin.call import Answer, Call, Json
from mirrormq.node.alarms import DISK, MEMORY


def show_cluster(call: Call) -> Answer:
    cluster = call.runtime.cluster
    members, running = cluster.membership.members, cluster.membership.running
    away = cluster.unreachable()
    reachability = cluster.store.reachability
    about = {name: running[name].about for name in sorted(running)}
    return Answer(200, {
        "node": call.broker.node_name, "name": call.broker.cluster_name, "members": sorted(members),
        "running": cluster.running(),
        "versions": {name: told.get("version", "") for name, told in about.items()},
        "maintenance": {name: bool(told.get("maintenance")) for name, told in about.items()},
        "listeners": {name: [_listener(name, *place) for place in told.get("listeners", [])] for name, told in about.items()},
        "alarms": _alarms(call), "linked": sorted([*cluster.neighbours, cluster.membership.name]),
        "partitions": {cluster.membership.name: away} if away else {},
        "clocks_apart": cluster.clocks.apart(),
        "paused": call.runtime.partition.reason, "store": "" if reachability.is_reachable else str(reachability),
    })  # fmt: skip


def _listener(node: str, protocol: str, address: str, port: int) -> Json:
    return {"node": node, "protocol": protocol, "ip_address": address, "port": port}


def _alarms(call: Call) -> list[dict[str, Any]]:
    raised = {name: neighbour.alarms for name, neighbour in call.runtime.cluster.neighbours.items()}
    raised[call.broker.node_name] = call.runtime.alarms.raised()
    return [{"node": name, "resource": resource} for name in sorted(raised) for resource in (MEMORY, DISK)
            if resource in raised[name]]
