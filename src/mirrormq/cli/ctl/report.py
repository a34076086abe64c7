"""`report`: what somebody who helps from afar asks for first, in one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirrormq.cli.ctl import cluster, node, objects, permissions, policies
from mirrormq.cli.ctl.context import Context

WHOLE: Final[tuple[Callable[[Context], None], ...]] = (
    node.status, cluster.cluster_status, node.environment, objects.list_connections, objects.list_channels,
)  # fmt: skip
IN_VHOST: Final[tuple[Callable[[Context], None], ...]] = (
    objects.list_queues, objects.list_exchanges, objects.list_bindings, permissions.list_permissions, policies.list_policies,
    policies.list_parameters,
)  # fmt: skip


def report(context: Context) -> None:
    context.out.banner(f"Reporting server status of node {context.node} ...\n")
    for command in (*WHOLE, policies.list_global_parameters):
        _one(context, command)
    for vhost in context.client.get("/api/vhosts?columns=name"):
        context.values["vhost"] = vhost["name"]
        for command in IN_VHOST:
            _one(context, command)


def _one(context: Context, command: Callable[[Context], None]) -> None:
    command(context)
    context.out.say("")
