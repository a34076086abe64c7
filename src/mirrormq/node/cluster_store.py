"""Which coordination store a node has: the one that it joined, the one that is configured, or a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mirrormq.cluster.coordination import Coordination, open_coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.node.config import NodeConfig
from mirrormq.node.directory import STORE

LOOPBACK: Final = "127.0.0.1"


def spec_of(config: NodeConfig, keepsake: Keepsake) -> str:
    """As `open_coordination` takes it; a file by its whole path, so that other nodes of this machine find it too."""
    spec = keepsake.coordination or config.coordination or f"sqlite:{config.data_dir / STORE}"
    kind, _, rest = spec.partition(":")
    return f"sqlite:{Path(rest).resolve()}" if kind == "sqlite" else spec


def link_addresses(config: NodeConfig, keepsake: Keepsake) -> tuple[str, str]:
    """Where to listen for other nodes, and where they reach this one. Nodes that share a file are on one machine; others, also
    those that have joined by a command, are found by the host in their names."""
    is_remote = spec_of(config, keepsake).startswith("etcd:")
    host = config.node_name.partition("@")[2] if is_remote else LOOPBACK
    listen = ("" if is_remote else LOOPBACK) if config.link_host is None else config.link_host
    return listen, config.advertised_host or host


def own_file(config: NodeConfig, keepsake: Keepsake) -> Path | None:
    """The store, if it is a file in the node's own directory. Others may have joined it all the same."""
    kind, _, rest = spec_of(config, keepsake).partition(":")
    path = Path(rest)
    return path if kind == "sqlite" and path.parent == config.data_dir.resolve() else None


async def open_store(config: NodeConfig, keepsake: Keepsake) -> Coordination:
    return await open_coordination(spec_of(config, keepsake), user=config.etcd_username, password=config.etcd_password)
