"""Where new queues are put, by the rules of `cluster.placement` and the wishes of those who declare them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from mirrormq.broker.broker import Broker
from mirrormq.broker.policy import merge
from mirrormq.broker.ruling import policies_for
from mirrormq.cluster.placement import CLIENT_LOCAL, choose_home
from mirrormq.node.cluster import Cluster

LOCATOR = "queue-master-locator"


class Placing:
    def __init__(self, broker: Broker, cluster: Cluster, default: str) -> None:
        self._broker = broker
        self._cluster = cluster
        self._default = default
        self._wishes: dict[tuple[str, str], str] = {}

    @contextmanager
    def wish(self, vhost: str, name: str, node: str) -> Iterator[None]:
        """Meanwhile, this queue goes to that node if it has yet to be made."""
        self._wishes[vhost, name] = node
        try:
            yield
        finally:
            self._wishes.pop((vhost, name), None)

    def place(self, vhost: str, name: str, locator: str) -> str:
        """The home of a new queue; `locator` is its own argument, or empty."""
        wished = self._wishes.get((vhost, name))
        if wished in self._cluster.membership.running:
            return wished
        locator = locator or self._by_policy(vhost, name) or self._default
        own = self._broker.node_name
        if locator == CLIENT_LOCAL:
            return own
        return choose_home(locator, own, self._open_nodes(), self._homed(), secrets.choice)

    def _by_policy(self, vhost: str, name: str) -> str:
        found = merge(*policies_for(self._broker, vhost, name, "queue")).get(LOCATOR)
        return found if isinstance(found, str) else ""

    def _open_nodes(self) -> list[str]:
        """Nodes in maintenance get no new queues."""
        return [name for name, info in self._cluster.membership.running.items() if not info.about.get("maintenance")]

    def _homed(self) -> dict[str, int]:
        broker = self._broker
        homed = {name: len(embassy.queues) for name, embassy in broker.forwarding.embassies.items()}
        everything = sum(len(vhost.queues) for vhost in broker.vhosts.values())
        homed[broker.node_name] = homed.pop(broker.node_name, 0) + everything - sum(homed.values())
        return homed
