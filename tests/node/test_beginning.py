"""What a new cluster is called, and that it keeps its name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from compat.support import free_port
from mirrormq.broker import rules
from mirrormq.node.config import load_config
from mirrormq.node.runtime import Runtime


@asynccontextmanager
async def running(directory: Path, node: str, **given: str) -> AsyncIterator[Runtime]:
    runtime = Runtime(load_config(None, {}, {
        "data_dir": directory / "data", "node_name": node, "port": free_port(), "link_port": free_port(), **given}))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop()


@pytest.mark.parametrize(("node", "given", "name"), [
    ("rabbit1@localhost", {}, "mirrormq@localhost"),
    ("mirrormq@localhost", {}, "mirrormq-cluster@localhost"),
    ("rabbit1@localhost", {"cluster_name": "ours"}, "ours"),
])
async def test_a_new_cluster_is_not_named_after_a_node(tmp_path: Path, node: str, given: dict[str, str], name: str) -> None:
    async with running(tmp_path, node, **given) as runtime:
        assert (runtime.broker.cluster_name, runtime.broker.global_parameters["cluster_name"]) == (name, name)


async def test_a_cluster_that_was_named_after_a_node_keeps_its_name(tmp_path: Path) -> None:
    async with running(tmp_path, "rabbit1@localhost") as runtime:
        rules.put_global_parameter(runtime.broker, "cluster_name", "rabbit1@localhost")
        await runtime.agreed(0)
    async with running(tmp_path, "rabbit1@localhost") as runtime:
        assert runtime.broker.cluster_name == "rabbit1@localhost"
