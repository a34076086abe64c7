"""Writes down whom RabbitMQ refuses what: `python -m admin.rights.record`, with `tests` and `src` in the path."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from admin.rabbitmq import RabbitMQ
from admin.rights.matrix import Matrix, Request
from mirrormq.admin.routes import ROUTES

FACTS = Path(__file__).with_name("facts.json")
OURS = ("/api/cluster", "/api/environment", "/metrics", "/metrics/per-object", "/metrics/detailed", "/", "/api",
        "/api/index.html", "/api/openapi.json", "/api/nodes/{node}/stop-forecast",
        "/api/deprecated-features", "/api/deprecated-features/used", "/api/users/{user}/limits")
"""Routes that RabbitMQ 3.10 does not have, or that are pages."""
LATER = (("DELETE", "/api/connections/username/{user}"), ("GET", "/api/rebalance/queues"))
"""Requests that came with a later RabbitMQ, or that only we answer."""
OF_THE_PAGE = ("/static/", "/api/session", "/api/undo/", "/api/cluster-map", "/api/feed/", "/api/lake-mirrors/")
OF_A_RING = ("/messages", "/messages/{index}", "/ring", "/failovers", "/quarantine", "/quarantine/{item}")


def is_of_the_page(path: str) -> bool:
    """Routes of the page and of the lake: their own tests ask who may use them."""
    return path.startswith(OF_THE_PAGE) or (path.startswith("/api/queues/{vhost}/{name}/") and path.endswith(OF_A_RING))


def shared() -> list[Request]:
    """What both have."""
    return [Request(method, path) for method, path, *_ in ROUTES
            if path.startswith("/api/") and path not in OURS and (method, path) not in LATER and not is_of_the_page(path)]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        rabbit = RabbitMQ(Path(directory))
        rabbit.start()
        try:
            cells = Matrix(rabbit, rabbit.name).ask(shared())
        finally:
            rabbit.stop()
    FACTS.write_text(json.dumps(cells, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
