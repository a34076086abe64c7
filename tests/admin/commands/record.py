"""Writes down what RabbitMQ answers: `python -m admin.commands.record`, with `tests` in the path."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from admin.commands.normal import Answer, normal
from admin.commands.scenario import SHAPES, STEPS, Step, prepare
from admin.rabbitmq import RabbitMQ

FACTS = Path(__file__).with_name("facts.json")


def ask(rabbit: RabbitMQ, step: Step) -> Answer:
    words = [word.replace("{port}", str(rabbit.port)) for word in step.words]
    done = rabbit.run(step.tool, *words, stdin=step.stdin)
    return normal(step, rabbit.name, rabbit.port, Answer(done.returncode, done.stdout, done.stderr))


def record(rabbit: RabbitMQ) -> list[list[object]]:
    prepare(rabbit)
    told: list[list[object]] = [[step.title, *ask(rabbit, step)] for step in STEPS]
    for step in SHAPES:
        answer = ask(rabbit, step)
        told.append([step.title, answer.code, shape(answer.out), ""])
    return told


def shape(text: str) -> str:
    """The first line, or the keys of JSON."""
    return " ".join(sorted(json.loads(text.replace("PORT", "0")))) if text.startswith("{") else text.partition("\n")[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        rabbit = RabbitMQ(Path(directory))
        rabbit.start()
        try:
            FACTS.write_text(json.dumps(record(rabbit), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        finally:
            rabbit.stop()


if __name__ == "__main__":
    main()
