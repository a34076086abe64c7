"""Definitions whose parts touch each other in the store."""

from __future__ import annotations

import threading
from typing import Any

from .support import Node

VHOST = "imported"


def document(bindings: int) -> dict[str, Any]:
    exchange = {"name": "passing", "vhost": VHOST, "type": "topic", "durable": True, "auto_delete": True, "internal": False,
                "arguments": {}}
    queue = {"name": "q", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {}}
    binding = {"source": "passing", "vhost": VHOST, "destination": "q", "destination_type": "queue", "arguments": {}}
    return {"vhosts": [{"name": VHOST}], "exchanges": [exchange], "queues": [queue],
            "permissions": [{"user": "guest", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"}],
            "bindings": [binding | {"routing_key": f"k{number}"} for number in range(bindings)]}


def bound(node: Node) -> int:
    return len(node.ask("GET", f"/api/exchanges/{VHOST}/passing/bindings/source").body)


def test_all_bindings_of_an_auto_delete_exchange_are_imported(node: Node) -> None:
    assert node.ask("POST", "/api/definitions", document(250)).status == 204
    assert bound(node) == 250
    assert node.ask("POST", "/api/definitions", document(250)).status == 204
    assert bound(node) == 250


def test_bindings_of_an_auto_delete_exchange_can_be_made_at_once(node: Node) -> None:
    assert node.ask("POST", "/api/definitions", document(1)).status == 204
    statuses: list[int] = []

    def bind(number: int) -> None:
        answer = node.ask("POST", f"/api/bindings/{VHOST}/e/passing/q/q", {"routing_key": f"at-once-{number}"})
        statuses.append(answer.status)

    threads = [threading.Thread(target=bind, args=(number,)) for number in range(12)]
    before = bound(node)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 12
    assert bound(node) == before + 12


def test_an_auto_delete_exchange_goes_with_the_queue_that_all_its_bindings_lead_to(node: Node) -> None:
    assert node.ask("POST", "/api/definitions", document(150)).status == 204
    assert node.ask("DELETE", f"/api/queues/{VHOST}/q").status == 204
    assert node.ask("GET", f"/api/exchanges/{VHOST}/passing").status == 404
