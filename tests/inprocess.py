"""A node inside the test's own process."""

from __future__ import annotations

from pathlib import Path

from compat.support import free_port
from mirrormq.node.config import NodeConfig, load_config


def config(directory: Path, **options: object) -> NodeConfig:
    given = {"data_dir": directory / "data", "node_name": "a@localhost", "port": free_port(), "http_port": free_port(),
             "link_port": free_port(), "coordination": f"sqlite:{directory / 'store.db'}"}
    return load_config(None, {}, given | options)
