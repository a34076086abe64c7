"""Writes down the fields of RabbitMQ's answers: `python -m admin.fields.record`, with `tests` in the path."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from admin.fields.scene import played, shape
from admin.rabbitmq import RabbitMQ
from compat.support import Broker

FACTS = Path(__file__).with_name("facts.json")


def shapes(broker: Broker) -> dict[str, dict[str, str]]:
    with played(broker) as answers:
        return {name: shape(answer) for name, answer in answers.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        rabbit = RabbitMQ(Path(directory))
        rabbit.start()
        try:
            found = shapes(rabbit)
        finally:
            rabbit.stop()
    FACTS.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
