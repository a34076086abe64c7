"""The policy that mirrors every queue of a new local cluster on all its nodes. It is an ordinary one: change it, or clear it."""

from __future__ import annotations

from typing import Final

from mirrormq.cli.ctl.client import Client
from mirrormq.cli.ctl.faults import Failure
from mirrormq.cli.local.plan import Plan, PlanError

MIRRORED: Final = "ha-all"
POLICY: Final = {"pattern": ".*", "apply-to": "queues", "definition": {"ha-mode": "all", "ha-sync-mode": "automatic"}}


def mirror_everything(plan: Plan) -> None:
    node = plan.nodes[0]
    try:
        Client({"node": node.name}).change("PUT", f"/api/policies/%2F/{MIRRORED}", POLICY)
    except Failure as fault:
        raise PlanError(f"the nodes are up, but {node.name} did not take the policy {MIRRORED}: {fault}") from None
