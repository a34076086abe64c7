"""The lead of one queue, given to a mirror by name."""

from __future__ import annotations

import pytest

from admin.support import quote
from compat.support import eventually

from .support import Members

pytestmark = pytest.mark.live


def mirrored(members: Members, vhost: str, queue: str, **more: object) -> None:
    """Led by the first node, on the first two, with a message in it."""
    members[0].declare(vhost, queue, node="a@localhost")
    body = {"routing_key": queue, "payload": "kept", "payload_encoding": "string", "properties": {"delivery_mode": 2}}
    members[0].ask("POST", f"/api/exchanges/{quote(vhost)}/amq.default/publish", body)
    definition = {"ha-mode": "nodes", "ha-params": ["a@localhost", "b@localhost"], **more}
    policy = {"pattern": f"^{queue}$", "definition": definition, "apply-to": "queues"}
    assert members[0].ask("PUT", f"/api/policies/{quote(vhost)}/{queue}", policy).status in (201, 204)
    eventually(lambda: members[0].queue(vhost, queue).get("slave_nodes") == ["b@localhost"])


def test_a_command_through_any_node_moves_the_lead_and_no_copy(members: Members, vhost: str):
    mirrored(members, vhost, "q", **{"ha-sync-mode": "automatic"})
    eventually(lambda: members[0].queue(vhost, "q")["synchronised_slave_nodes"] == ["b@localhost"])
    moved = members[2].ctl("move_leader", "-p", vhost, "q", "b@localhost")
    assert (moved.code, moved.lines) == (0, [f"Moving the leader of queue 'q' in vhost '{vhost}' to node b@localhost ..."])
    for member in members:
        eventually(lambda member=member: member.queue(vhost, "q")["node"] == "b@localhost")
    assert members[2].ctl("move_leader", "-p", vhost, "-q", "q", "b@localhost").code == 0
    eventually(lambda: members[0].queue(vhost, "q")["synchronised_slave_nodes"] == ["a@localhost"])
    assert members[2].queue(vhost, "q")["messages"] == 1


@pytest.mark.parametrize(("queue", "node", "reason"), [
    ("nothing", "b@localhost", "there is no queue 'nothing' in vhost"),
    ("plain", "b@localhost", "queue 'plain' is not mirrored"),
    ("manual", "d@localhost", "d@localhost is not a node of this cluster"),
    ("manual", "c@localhost", "c@localhost has no copy of queue 'manual'"),
    ("manual", "b@localhost", "the copy of queue 'manual' on b@localhost is not in sync"),
])
def test_a_lead_that_cannot_move_says_why(members: Members, vhost: str, queue: str, node: str, reason: str):
    if queue == "plain":
        members[0].declare(vhost, "plain", node="a@localhost")
    elif queue == "manual":
        mirrored(members, vhost, "manual", **{"ha-sync-mode": "manual"})
    refused = members[1].ctl("move_leader", "-p", vhost, queue, node)
    assert refused.code == 69
    assert reason in refused.err


def test_a_command_without_its_words_shows_its_usage(members: Members, vhost: str):
    refused = members[0].ctl("move_leader", "-p", vhost, "q")
    assert refused.code == 64
    assert "move_leader [--vhost <vhost>] <queue> <node>" in refused.err
    assert members[0].ctl("move_leader", "-p", "nowhere", "q", "b@localhost").code != 0
