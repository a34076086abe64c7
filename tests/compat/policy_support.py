"""Policies that a test sets, cleared after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika.exceptions import UnroutableError

from .queue_support import (
    confirming,
)
from .support import Broker, eventually, quote, unique

Declare = Callable[..., str]
Connect = Callable[..., Any]


class Policies:
    """Sets policies of the module's vhost and takes them away after the test."""

    def __init__(self, broker: Broker, vhost: str) -> None:
        self.broker = broker
        self.vhost = vhost
        self.made: list[str] = []

    def set(
        self,
        pattern: str,
        definition: dict[str, Any],
        *,
        operator: bool = False,
        name: str = "",
        priority: Any = 0,
        apply_to: str = "all",
    ) -> str:
        path = self._path(name or unique("p"), operator=operator)
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        self.broker.api("PUT", path, body)
        self.made.append(path)
        return path.rpartition("/")[2]

    def clear(self, name: str, *, operator: bool = False) -> None:
        path = self._path(name, operator=operator)
        self.broker.api("DELETE", path)
        self.made.remove(path)

    def shown(self, queue: str) -> tuple[str | None, str | None, dict[str, Any]]:
        """Policy, operator policy and effective definition of a queue."""
        found = self.broker.api("GET", f"/api/queues/{quote(self.vhost)}/{quote(queue)}")
        definition = found.get("effective_policy_definition") or {}
        return found.get("policy"), found.get("operator_policy"), dict(definition)

    def wait(self, queue: str, definition: dict[str, Any]) -> None:
        """Until exactly this definition is in effect."""
        eventually(lambda: self.shown(queue)[2] == definition)

    def apply(self, queue: str, definition: dict[str, Any], **more: Any) -> str:
        """Set a policy for one queue and wait until it is in effect."""
        name = self.set(f"^{queue}$", definition, **more)
        self.wait(queue, definition)
        return name

    def end(self) -> None:
        for path in self.made:
            self.broker.api("DELETE", path)

    def _path(self, name: str, *, operator: bool) -> str:
        kind = "operator-policies" if operator else "policies"
        return f"/api/{kind}/{quote(self.vhost)}/{quote(name)}"


def is_expired(connection: Any, queue: str) -> bool:
    """Looks by publishing: a passive declare would count as use of the queue."""
    try:
        confirming(connection).basic_publish("", queue, b"probe", mandatory=True)
    except UnroutableError:
        return True
    return False
