"""Mirroring that the configuration asks for: a policy in every virtual host, and leads that are spread by the clock.

Rules
 1. The configured policy has a name of its own and the lowest priority, so that any other that matches goes before it. It is put
    again when the node starts and when a virtual host comes, never while it runs otherwise: operators may change it.
 2. Of all nodes that run, the first by name spreads the leads.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from mirrormq.broker import rules
from mirrormq.broker.policy import Policy

if TYPE_CHECKING:
    from mirrormq.node.config import NodeConfig
    from mirrormq.node.runtime import Runtime

NAME: Final = "configured-mirroring"
LOWEST: Final = -1000


def definition(config: NodeConfig) -> dict[str, object]:
    """What the configuration wants of mirrors; empty if nothing."""
    placed: dict[str, object] = {}
    if config.mirror_nodes:
        placed = {"ha-mode": "nodes", "ha-params": list(config.mirror_nodes)}
    elif config.mirrored_queues:
        placed = {"ha-mode": "all"}
    return dict(config.mirroring_policy) if "ha-mode" in config.mirroring_policy else placed | dict(config.mirroring_policy)


def pattern(config: NodeConfig) -> str:
    if config.mirrored_queues:
        return f"^({'|'.join(re.escape(name) for name in config.mirrored_queues)})$"
    return config.mirroring_policy_pattern


def put_policies(runtime: Runtime, seen: set[str]) -> None:
    """In virtual hosts that were not there before."""
    wanted = definition(runtime.config)
    broker = runtime.broker
    seen.intersection_update(broker.vhosts)
    for vhost in [name for name in broker.vhosts if wanted and name not in seen]:
        seen.add(vhost)
        found = broker.policies.get((vhost, NAME))
        if found is None or found.definition != wanted or found.pattern != pattern(runtime.config):
            rules.put_policy(broker, Policy(vhost, NAME, pattern(runtime.config), "queues", wanted, LOWEST), operator=False)


async def rebalance_by_timer(runtime: Runtime) -> None:
    config = runtime.config
    while True:
        await asyncio.sleep(config.cluster_rebalance_interval)
        if min(runtime.cluster.membership.running, default="") == runtime.broker.node_name:
            await runtime.orders.rebalance(strategy=config.cluster_rebalance_strategy)
