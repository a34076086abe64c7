"""The cluster as `cluster_status` shows it: who belongs to it, who is up, and what each node tells of itself."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mirrormq.admin.call import Answer, Call, Json
from mirrormq.node.alarms import DISK, MEMORY
from mirrormq.node.cluster import Cluster

LINKING: Final = 1.0        # seconds that a node that is up may be without its link before that is a partition


async def show_cluster(call: Call) -> Answer:
    cluster = call.runtime.cluster
    members, running = cluster.membership.members, cluster.membership.running
    about = {name: running[name].about for name in sorted(running)}
    return Answer(200, {
        "node": call.broker.node_name, "name": call.broker.cluster_name, "members": sorted(members), "running": sorted(running),
        "versions": {name: told.get("version", "") for name, told in about.items()},
        "maintenance": {name: bool(told.get("maintenance")) for name, told in about.items()},
        "listeners": {name: [_listener(name, *place) for place in told.get("listeners", [])] for name, told in about.items()},
        "alarms": _alarms(call), "partitions": await _partitions(cluster),
    })  # fmt: skip


def _listener(node: str, protocol: str, address: str, port: int) -> Json:
    return {"node": node, "protocol": protocol, "ip_address": address, "port": port}


def _alarms(call: Call) -> list[dict[str, Any]]:
    raised = {name: neighbour.alarms for name, neighbour in call.runtime.cluster.neighbours.items()}
    raised[call.broker.node_name] = call.runtime.alarms.raised()
    return [{"node": name, "resource": resource} for name in sorted(raised) for resource in (MEMORY, DISK)
            if resource in raised[name]]


async def _partitions(cluster: Cluster) -> dict[str, list[str]]:
    """Nodes that are up, by their leases, and not linked to this one. Links of a node that has just come are on their way."""
    until = asyncio.get_running_loop().time() + LINKING
    while missing := sorted(set(cluster.membership.running) - set(cluster.neighbours) - {cluster.membership.name}):
        if asyncio.get_running_loop().time() > until:
            return {cluster.membership.name: missing}
        await asyncio.sleep(0.02)
    return {}
