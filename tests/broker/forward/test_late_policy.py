"""A queue may come after the policy that wants it mirrored, from a node that did not know of that policy yet."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Cluster
from mirrormq.broker import rules
from mirrormq.broker.policy import Policy
from mirrormq.wire.methods import QueueDeclare

MIRRORED = {"ha-mode": "all"}


@pytest.mark.parametrize(("exclusive", "definition", "looks"), [
    (False, MIRRORED, 1), (True, MIRRORED, 0), (False, {"max-length": 9}, 0),
])
def test_policies_are_looked_at_again_at_its_home(exclusive: bool, definition: dict[str, object], looks: int) -> None:
    cluster = Cluster("a", "b")
    client = cluster.client("a")
    rules.put_policy(cluster.nodes["a"].broker, Policy("/", "p", ".*", "queues", definition, 0), operator=False)
    cluster.store.commit()
    before = [node.host.looks for node in cluster.nodes.values()]
    client.ask(QueueDeclare("q", exclusive=exclusive))
    assert [node.host.looks - past for node, past in zip(cluster.nodes.values(), before, strict=True)] == [looks, 0]
