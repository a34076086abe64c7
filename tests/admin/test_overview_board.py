"""RabbitMQ's own overview board finds its series in our scrape, and they move when there is something to tell.

`overview_board.json` has what the queries of that board name, in its form before RabbitMQ 3.9 (counters of channels) and in those
since (counters of the node). A query multiplies a series by `rabbitmq_identity_info` on the instance, to get the names of cluster
and node, and adds or subtracts two series only where their labels are the same. The labels instance, job and namespace are
Prometheus' own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError
from prometheus_client.parser import text_string_to_metric_families

from compat.support import eventually

from .support import Node

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
BOARD = json.loads(Path(__file__).with_name("overview_board.json").read_text())
KEPT = pika.BasicProperties(delivery_mode=2)
MAY_BE_ZERO = {"rabbitmq_channel_messages_unconfirmed"}
Sample = tuple[dict[str, str], float]
Scraped = dict[str, list[Sample]]


def scrape(node: Node) -> Scraped:
    found: Scraped = {}
    for family in text_string_to_metric_families(str(node.ask("GET", "/metrics").body)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture(scope="module")
def busy(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose clients have done everything that the board tells of, and are still there."""
    server = Node(tmp_path_factory.mktemp("board"), name="board@localhost")
    server.start()
    connections = [_connect(server) for _ in range(2)]
    channel = connections[0].channel()
    channel.confirm_delivery()
    _publish(channel)
    _consume(channel)
    connections[1].channel().close()
    connections[1].close()
    yield server
    connections[0].close()
    server.stop()


def _connect(node: Node) -> pika.BlockingConnection:
    login = pika.PlainCredentials("guest", "guest")
    return pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port, "/", login, heartbeat=0))


def _publish(channel: BlockingChannel) -> None:
    channel.queue_declare("gone")
    channel.queue_delete("gone")
    channel.queue_declare("q", durable=True)
    for number in range(9):
        channel.basic_publish("", "q", b"%d" % number, KEPT)
    channel.basic_publish("amq.fanout", "nowhere", b"dropped")
    with suppress(UnroutableError):
        channel.basic_publish("amq.fanout", "nowhere", b"returned", mandatory=True)


def _consume(channel: BlockingChannel) -> None:
    """Some are acknowledged, some not, one comes back, one get finds nothing; one stays unacknowledged, and some ready."""
    channel.queue_declare("empty", exclusive=True)
    channel.basic_get("empty")
    channel.basic_get("q", auto_ack=True)
    method, _, _ = channel.basic_get("q")
    channel.basic_nack(method.delivery_tag, requeue=True)
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    channel.basic_qos(prefetch_count=1)
    for auto_ack, key in ((True, "swift"), (False, "careful")):
        channel.queue_declare(key, exclusive=True)
        channel.basic_publish("", key, b"1")
        seen: list[int] = []
        channel.basic_consume(key, lambda *got, seen=seen: seen.append(got[1].delivery_tag), auto_ack=auto_ack)
        while not seen:
            channel.connection.process_data_events(1)
        if not auto_ack:
            channel.basic_ack(seen[0])
    channel.basic_get("q")


def wanted(board: str) -> list[str]:
    return [*BOARD["series"]["always"], *BOARD["series"][board]]


@pytest.mark.parametrize("board", ["of the board before 3.9", "of the boards since"])
def test_every_series_of_the_board_is_there_and_counts(busy: Node, board: str):
    def all_count() -> bool:
        found = scrape(busy)
        assert set(wanted(board)) <= set(found), set(wanted(board)) - set(found)
        assert {name for name in wanted(board) if not sum(value for _, value in found[name])} <= MAY_BE_ZERO
        return True

    eventually(all_count)


def test_every_series_can_be_joined_with_the_names_of_cluster_and_node(busy: Node):
    """Of the identity there is one line, and no series brings labels of its own for what is joined."""
    found = scrape(busy)
    for name, labels in (BOARD["joined"] | BOARD["table"]).items():
        [(has, value)] = found[name]
        assert value == 1
        assert set(labels) <= set(has), name
    taken = {label for labels in BOARD["joined"].values() for label in labels} | {"instance", "job", "namespace"}
    for board in BOARD["series"].values():
        for name in board:
            assert all(taken.isdisjoint(labels) for labels, _ in found[name]), name


def test_what_the_board_shows_as_one_line_for_each_node_is_one_line(busy: Node):
    found = scrape(busy)
    for name in BOARD["one_line_each"]:
        assert [labels for labels, _ in found[name]] == [{}], name


@pytest.mark.parametrize("pair", BOARD["reckoned_together"], ids=lambda pair: pair[0])
def test_what_the_board_adds_or_subtracts_has_the_same_labels(busy: Node, pair: tuple[str, str]):
    first, second = (sorted(tuple(sorted(labels.items())) for labels, _ in scrape(busy)[name]) for name in pair)
    assert first == second
