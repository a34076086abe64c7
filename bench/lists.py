"""Lists of a broker that has much to list: how long they take beside RabbitMQ's, and what looking costs those who publish.

Both brokers get the same queues, connections, channels and consumers. Lists are asked for in turn (A B A B). Then each broker is
alone, for even an idle one takes processor time: messages are published for a while with nobody looking, then for a while with
every list asked for each second, and so on, several times.

    python bench/lists.py --queues 3000 --connections 500
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import click
import pika
from pika.adapters.blocking_connection import BlockingChannel

import rabbitmq
from generators import Perf
from node import Node
from processes import Failed
from scenarios import SCENARIOS

HERE = Path(__file__).resolve().parent
PATHS = ("/api/queues", "/api/queues?page=1&page_size=100", "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
         "/api/connections", "/api/channels", "/api/exchanges", "/api/overview")
LOAD = next(one for one in SCENARIOS if one.name == "persistent-1q-100b")
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
SETTLE = 6.0            # seconds until RabbitMQ has gathered its statistics
PAIRS = 5               # of runs of publishing, alone and polled
Contender = Node | rabbitmq.RabbitMQ


class Reader:
    """Somebody who looks at lists, over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def seconds(self, path: str) -> float:
        began = time.perf_counter()
        self._connection.request("GET", path, headers=LOGIN)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise Failed(f"{path} was answered with {answer.status}")
        return time.perf_counter() - began


class Crowd:
    """The queues, and those who are connected; every third queue has a message, every connection a consumer."""

    def __init__(self, port: int, queues: int, connections: int) -> None:
        self._port = port
        self._opened = [self._open() for _ in range(connections)]
        self._declare(queues)
        for number, connection in enumerate(self._opened):
            connection.channel().basic_consume(f"list.{3 * number + 1:05}", lambda *_: None)

    def _open(self) -> pika.BlockingConnection:
        login = pika.PlainCredentials("guest", "guest")
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port, "/", login, heartbeat=0))

    def _declare(self, queues: int) -> None:
        connection = self._open()
        channel: BlockingChannel = connection.channel()
        for number in range(queues):
            channel.queue_declare(f"list.{number:05}", durable=True)
            if number % 3 == 0:
                channel.basic_publish("", f"list.{number:05}", b"x" * 100, pika.BasicProperties(delivery_mode=2))
        connection.close()

    def leave(self) -> None:
        for connection in self._opened:
            connection.close()


class Polling:
    """Every list, once a second, as long as it is entered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _poll(self) -> None:
        reader = Reader(self._port)
        while not self._is_over.is_set():
            began = time.monotonic()
            for path in PATHS:
                reader.seconds(path)
            self._is_over.wait(max(0.0, 1.0 - (time.monotonic() - began)))


def time_lists(contenders: dict[str, Contender], turns: int) -> dict[str, dict[str, float]]:
    """Milliseconds, the median of so many turns, by path and contender."""
    readers = {name: Reader(one.http_port) for name, one in contenders.items()}
    found: dict[str, dict[str, list[float]]] = {path: {name: [] for name in contenders} for path in PATHS}
    for _ in range(turns):
        for path, of_path in found.items():
            for name, reader in readers.items():
                of_path[name].append(1000 * reader.seconds(path))
    return {path: {name: round(median(values), 1) for name, values in of_path.items()} for path, of_path in found.items()}


def time_publishing(contender: Contender, command: str, seconds: float) -> dict[str, float]:
    """Messages a second alone and while lists are polled, in turn; and by how many per cent the second of a pair is less."""
    alone, polled = [], []
    for turn in range(PAIRS):
        alone.append(publish(contender, command, f"alone-{turn}", seconds))
        with Polling(contender.http_port):
            polled.append(publish(contender, command, f"polled-{turn}", seconds))
    fall = 100 * (1 - median(second / first for first, second in zip(alone, polled, strict=True)))
    return {"alone": round(median(alone)), "polled": round(median(polled)), "fall_percent": round(fall, 1)}


def publish(contender: Contender, command: str, queue: str, seconds: float) -> float:
    os.sync()       # what earlier runs have left to be written is not this one's to wait for
    return Perf([command]).run(LOAD, contender.port, queue, seconds, min(1.0, seconds / 2)).confirmed


@contextmanager
def filled(contender: Contender, queues: int, connections: int) -> Iterator[None]:
    """The broker is up, with its crowd."""
    try:
        contender.start()
        crowd = Crowd(contender.port, queues, connections)
        yield
        crowd.leave()
    finally:
        contender.stop()


def measure_lists(contenders: dict[str, Contender], turns: int) -> dict[str, dict[str, float]]:
    time.sleep(SETTLE)
    time_lists(contenders, 1)
    time.sleep(SETTLE)      # the first look is not like the others: from the second on rates are known
    lists = time_lists(contenders, turns)
    for path, row in lists.items():
        click.echo(f"{path:66}" + "".join(f"  {name} {value:8.1f} ms" for name, value in row.items()), err=True)
    return lists


def measure_publishing(name: str, contender: Contender, command: str, seconds: float) -> dict[str, float]:
    time.sleep(SETTLE)
    row = time_publishing(contender, command, seconds)
    words = f"{row['alone']:,.0f} messages/s alone, {row['polled']:,.0f} polled"
    click.echo(f"{name}: {words}: {row['fall_percent']} % less", err=True)
    return row


def measure(contenders: dict[str, Contender], crowd: tuple[int, int], command: str, *, turns: int,
            seconds: float) -> dict[str, Any]:
    with ExitStack() as stack:
        for one in contenders.values():
            stack.enter_context(filled(one, *crowd))
        lists = measure_lists(contenders, turns)
    publishing = {}
    for name, one in contenders.items():
        with filled(one, *crowd):
            publishing[name] = measure_publishing(name, one, command, seconds)
    return {"milliseconds": lists, "publishing": publishing}


@click.command()
@click.option("--queues", default=3000)
@click.option("--connections", default=500)
@click.option("--turns", default=7, help="How often each list is asked for.")
@click.option("--seconds", default=5.0, help="Of each run of publishing; there are ten for each broker.")
@click.option("--no-rabbitmq", is_flag=True, help="Our node alone.")
@click.option("--pure", is_flag=True, help="Our node uncompiled.")
@click.option("--mirrormq", "command", default=str(Path(sys.executable).parent / "mirrormq"), help="The mirrormq command.")
def main(*, queues: int, connections: int, turns: int, seconds: float, no_rabbitmq: bool, pure: bool, command: str) -> None:
    """Print the figures as JSON, and progress beside it."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    script = None if no_rabbitmq else rabbitmq.find()
    with tempfile.TemporaryDirectory(prefix="lists-") as place:
        folder = Path(place)
        contenders: dict[str, Contender] = {"mirrormq": Node([command], folder / "mirrormq", pure=pure)}
        if script is not None:
            contenders["rabbitmq"] = rabbitmq.RabbitMQ(script, folder / "rabbitmq", management=True)
        found = measure(contenders, (queues, connections), command, turns=turns, seconds=seconds)
    click.echo(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
