"""What a local cluster consists of: its nodes with their ports, and where everything is kept.

The plan is `cluster.json` in the cluster's directory; whoever works on the cluster later reads it there. A cluster may grow, or
lose its last nodes while they are stopped. Ports change only while no node runs, names never: a node cannot be renamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = "cluster.json"
FORMAT: Final = 1
HTTP_ABOVE: Final = 10_000
MOST: Final = 99
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+")


class PlanError(Exception):
    """What was asked for makes no sense, or no cluster is there; the sentence says what to do."""


class NodePlan(NamedTuple):
    name: str
    amqp_port: int
    http_port: int


class Plan(NamedTuple):
    directory: Path
    nodes: tuple[NodePlan, ...]
    coordination: str               # as `mirrormq server --coordination` takes it
    host: str = ""                  # the address to listen at; empty: all
    config: str = ""                # a configuration file for every node

    @property
    def cookie(self) -> Path:
        return self.directory / "cookie"

    def data(self, node: NodePlan) -> Path:
        return self.directory / node.name

    def log(self, node: NodePlan) -> Path:
        return self.directory / f"{node.name}.log"

    def node(self, name: str) -> NodePlan:
        """By its whole name, or by the part before the @ where that is enough."""
        found = [node for node in self.nodes if name in (node.name, node.name.partition("@")[0])]
        if len(found) != 1:
            raise PlanError(f"there is no node {name} in {self.directory}: its nodes are "
                            f"{', '.join(node.name for node in self.nodes)}")
        return found[0]

    def save(self) -> None:
        record = {"format": FORMAT, "nodes": [node._asdict() for node in self.nodes], "coordination": self.coordination,
                  "host": self.host, "config": self.config}
        fresh = self.directory / f"{FILE}.new"
        fresh.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.directory / FILE)


def find(directory: Path) -> Plan | None:
    path = directory / FILE
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] > FORMAT:
            raise PlanError(f"{path} was written by a newer release: use that one")
        nodes = tuple(NodePlan(**node) for node in record["nodes"])
        return Plan(directory.resolve(), nodes, record["coordination"], record["host"], record["config"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise PlanError(f"{path} cannot be read ({fault}): choose another directory, or remove this one") from None


def read(directory: Path) -> Plan:
    plan = find(directory)
    if plan is None:
        raise PlanError(f"there is no cluster in {directory}: make one with 'mirrormq cluster up --dir {directory}'")
    return plan


# --- making one -----------------------------------------------------------------------------------------------------


class Wish(NamedTuple):
    """What was asked for on the command line; None and nothing where it was not."""

    nodes: int | None
    base_port: int | None
    names: Sequence[str]
    coordination: str
    host: str
    config: str


def settle(directory: Path, wish: Wish, defaults: tuple[int, int], is_up: Callable[[Plan, NodePlan], bool]) -> Plan:
    """The plan of the cluster that is there, changed as far as its nodes allow it, or a new one."""
    known = find(directory)
    if known is None:
        return _new(directory, wish, *defaults)
    there = [node.name for node in known.nodes]
    up = [node.name for node in known.nodes if is_up(known, node)]
    count = wish.nodes or max(len(wish.names), len(there))
    if any(name in up for name in there[count:]):
        raise PlanError(f"the cluster in {directory} has {len(there)} nodes: stop those that are too many with 'mirrormq cluster "
                        "stop-node', and forget them with 'mirrormqctl forget_cluster_node'")
    base = known.nodes[0].amqp_port - 1
    if up and wish.base_port not in (None, base):
        raise PlanError(f"the nodes in {directory} run with ports above {base}: leave --base-port out, or stop them first with "
                        f"'mirrormq cluster down --dir {directory}'")
    if wish.coordination and _store(directory, wish.coordination) != known.coordination:
        raise PlanError(f"the cluster in {directory} agrees through {known.coordination}: leave --coordination out, or choose "
                        "another --dir")
    names = _names(count, [*wish.names, *there[len(wish.names):count]])
    if names[:len(there)] != there[:count]:
        raise PlanError(f"the nodes in {directory} are {', '.join(there)}: a node cannot be renamed")
    return known._replace(nodes=_nodes(base if wish.base_port is None else wish.base_port, names), host=wish.host or known.host,
                          config=wish.config or known.config)


def _new(directory: Path, wish: Wish, nodes: int, base_port: int) -> Plan:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise PlanError(f"{directory} is there and holds no cluster: choose a directory that is empty or not there yet")
    count = wish.nodes or len(wish.names) or nodes
    base = base_port if wish.base_port is None else wish.base_port
    return Plan(directory.resolve(), _nodes(base, _names(count, wish.names)),
                _store(directory, wish.coordination or "sqlite"), wish.host, wish.config)


def _names(count: int, given: Sequence[str]) -> list[str]:
    if not 1 <= count <= MOST:
        raise PlanError(f"a local cluster has 1 to {MOST} nodes, not {count}")
    if len(given) > count:
        raise PlanError(f"{len(given)} names are too many for {count} nodes")
    names = [*given, *(f"rabbit{number}@localhost" for number in range(len(given) + 1, count + 1))]
    for name in names:
        if not _NAME.fullmatch(name):
            raise PlanError(f"'{name}' is no name of a node: it looks like rabbit1@localhost")
    if len(set(names)) < len(names):
        raise PlanError("two nodes cannot have one name")
    return names


def _nodes(base: int, names: Sequence[str]) -> tuple[NodePlan, ...]:
    last = base + len(names) + HTTP_ABOVE
    if base < 0 or last > 65_535:
        raise PlanError(f"with --base-port {base} the ports go up to {last}: choose a base port from 0 to "
                        f"{65_535 - HTTP_ABOVE - len(names)}")
    return tuple(NodePlan(name, base + number, base + number + HTTP_ABOVE) for number, name in enumerate(names, 1))


def _store(directory: Path, asked: str) -> str:
    if asked == "sqlite":
        return f"sqlite:{directory.resolve() / 'cluster.sqlite'}"
    if asked.startswith("etcd:") and len(asked) > len("etcd:"):
        return asked
    raise PlanError(f"--coordination cannot be '{asked}': it is sqlite, or etcd:http://host:2379,…")
