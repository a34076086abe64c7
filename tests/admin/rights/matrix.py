"""Every route as a request that makes sense, and what it is refused with: for each tag, in one's own virtual host and another's.

Rules
 1. Each user has all permissions in `mine`, none in `theirs`, and one tag.
 2. Everything that a request needs is there before it: what the one before has removed is made again.
 3. Only refusals are of interest: the reason of a 401, or nothing.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from compat.support import Broker

TAGS: Final = ("administrator", "monitoring", "policymaker", "management", "")
VHOSTS: Final = ("mine", "theirs")
POLICY: Final = {"pattern": "^none$", "definition": {"max-length": 5}}
NAMES: Final = {
    "/api/queues": "q", "/api/exchanges": "x", "/api/policies": "p", "/api/operator-policies": "o", "/api/parameters": "limits",
    "/api/global-parameters": "g", "/api/vhost-limits": "max-queues", "/api/user-limits": "max-channels",
}  # fmt: skip
BODIES: Final[dict[str, Any]] = {
    "/api/cluster-name": {"name": "compared"}, "/api/users/{user}": {"password": "victim", "tags": ""},
    "/api/users/bulk-delete": {"users": []}, "/api/permissions/{vhost}/{user}": {"configure": "", "write": "", "read": ""},
    "/api/topic-permissions/{vhost}/{user}": {"exchange": "amq.topic", "write": "", "read": ""},
    "/api/policies/{vhost}/{name}": POLICY, "/api/operator-policies/{vhost}/{name}": POLICY,
    "/api/parameters/{component}/{vhost}/{name}": {"value": {"max-queues": 99}}, "/api/global-parameters/{name}": {"value": 1},
    "/api/vhost-limits/{vhost}/{name}": {"value": 99}, "/api/user-limits/{user}/{name}": {"value": 99},
    "/api/queues/{vhost}/{name}/get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
    "/api/queues/{vhost}/{name}/actions": {"action": "sync"},
    "/api/exchanges/{vhost}/{name}/publish": {"properties": {}, "routing_key": "k", "payload": "", "payload_encoding": "string"},
    "/api/bindings/{vhost}/e/{source}/{kind:e|q}/{destination}": {"routing_key": "k"},
    "/api/queues/{vhost}/{name}": {"durable": True},
    "/api/exchanges/{vhost}/{name}": {"type": "direct", "durable": True},
}  # fmt: skip


class Request(NamedTuple):
    method: str
    route: str

    @property
    def has_vhost(self) -> bool:
        return "{vhost}" in self.route

    def path(self, vhost: str, node: str, port: int) -> str:
        start = "/".join(self.route.split("/")[:3])
        values = {"{vhost}": vhost, "{name}": NAMES.get(start, "nobody"), "{user}": "victim", "{node}": node, "{port}": str(port),
                  "{component}": "vhost-limits", "{within}": "1", "{unit}": "days", "{protocol}": "amqp", "{source}": "x",
                  "{kind:e|q}": "q", "{destination}": "q", "{properties}": "k", "{exchange}": "amq.topic"}
        path = self.route
        for word, value in values.items():
            path = path.replace(word, value)
        return path

    def body(self) -> Any:
        return BODIES.get(self.route, {}) if self.method in ("PUT", "POST") else None

    @property
    def removes(self) -> bool:
        return self.method == "DELETE"


def prepare(broker: Broker) -> None:
    """Idempotent: called again whenever something may be missing."""
    for vhost in VHOSTS:
        broker.api("PUT", f"/api/vhosts/{vhost}", {})
        broker.grant(vhost, "guest")
        broker.api("PUT", f"/api/queues/{vhost}/q", {"durable": True})
        broker.api("PUT", f"/api/exchanges/{vhost}/x", {"type": "direct", "durable": True})
        broker.api("POST", f"/api/bindings/{vhost}/e/x/q/q", {"routing_key": "k"})
        broker.api("PUT", f"/api/policies/{vhost}/p", POLICY)
        broker.api("PUT", f"/api/operator-policies/{vhost}/o", POLICY)
        broker.api("PUT", f"/api/parameters/vhost-limits/{vhost}/limits", {"value": {"max-queues": 99}})
    broker.add_user("victim", "victim")
    broker.grant("mine", "victim")
    for tag in TAGS:
        broker.add_user(f"user-{tag}", f"user-{tag}", tag)
        broker.grant("mine", f"user-{tag}")


class Matrix:
    """Asks a broker for every cell."""

    def __init__(self, broker: Broker, node: str) -> None:
        self._broker = broker
        self._node = node
        self.broken: list[str] = []         # requests that were answered with a fault of the broker's

    def ask(self, requests: Iterable[Request]) -> dict[str, str]:
        prepare(self._broker)
        cells: dict[str, str] = {}
        for request in requests:
            for vhost in VHOSTS if request.has_vhost else VHOSTS[:1]:
                for tag in TAGS:
                    cells[f"{request.method} {request.route} {vhost} {tag or 'none'}"] = self._refusal(request, vhost, tag)
        return cells

    def _refusal(self, request: Request, vhost: str, tag: str) -> str:
        status, body = self._send(request, vhost, f"user-{tag}")
        if request.removes and status < 400:
            prepare(self._broker)
        if status >= 500:
            self.broken.append(f"{request.method} {request.route} {vhost} {tag}")
        return str(json.loads(body)["reason"]) if status == 401 else ""

    def _send(self, request: Request, vhost: str, user: str) -> tuple[int, bytes]:
        login = base64.b64encode(f"{user}:{user}".encode()).decode()
        body = request.body()
        connection = http.client.HTTPConnection(self._broker.host, self._broker.http_port, timeout=60)
        try:
            connection.request(request.method, request.path(vhost, self._node, self._broker.port),
                               body=None if body is None else json.dumps(body), headers={"Authorization": f"Basic {login}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
