"""Mirrors that the configuration asks for, in virtual hosts that come later too."""

from __future__ import annotations

import pytest

from cluster.live.nodes import running

from .rings import eventually

pytestmark = pytest.mark.timeout(300)


def test_a_new_virtual_host_has_the_configured_policy(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Twice, since one that was deleted comes again without it."""
    place = "/api/queues/later/q"
    with running(tmp_path_factory.mktemp("configured"), 2, configuration="mirroring_policy = all\n") as nodes:
        for _ in range(2):
            nodes[0].add_vhost("later")
            nodes[1].api("PUT", place, {"durable": True})
            eventually(lambda: len(nodes[0].api("GET", place).get("synchronised_slave_nodes", [])) == 1)
            nodes[1].delete_vhost("later")
