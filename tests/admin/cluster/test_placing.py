"""The configuration's rule for new queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import Members, running

pytestmark = pytest.mark.live


def test_the_configuration_decides_where_neither_argument_nor_wish_does(run_directory: None, tmp_path: Path):
    config = tmp_path / "node.conf"
    config.write_text("queue_master_locator = min-masters\n")
    with running(Members(tmp_path, ["a@localhost", "b@localhost"], "--config", str(config))) as cluster:
        for number in range(6):
            cluster[0].declare("/", f"q{number}")
        homes = [row["node"] for row in cluster[1].queues("/")]
        assert homes == ["a@localhost", "b@localhost"] * 3
        cluster[0].declare("/", "stays", arguments={"x-queue-master-locator": "client-local"})
        cluster[0].declare("/", "wished", node="a@localhost")
        assert {cluster[1].queue("/", name)["node"] for name in ("stays", "wished")} == {"a@localhost"}
        definitions = {"queues": [{"name": f"d{number}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
                                  for number in range(2)]}
        assert cluster[0].ask("POST", "/api/definitions", definitions).status == 204
        assert {cluster[0].queue("/", name)["node"] for name in ("d0", "d1")} == {"b@localhost"}
