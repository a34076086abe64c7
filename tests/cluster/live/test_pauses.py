"""A node that reaches neither etcd nor the others, in a mode in which it pauses: it closes its clients, the others go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pika
import pytest
from pika.exceptions import AMQPError

from compat.support import eventually, taken

from .nodes import Node
from .test_branches import CUT, LONG, Lonely, channel_at, declare, lonely, publish

MODES = ["pause_minority", pytest.param("pause_if_all_down", marks=pytest.mark.chaos)]
LISTED = """
cluster_partition_handling.pause_if_all_down.recover = autoheal
cluster_partition_handling.pause_if_all_down.nodes.1 = rabbit2@localhost
"""


@pytest.fixture(params=MODES)
def nodes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lonely]:
    mode = str(request.param)
    with lonely(tmp_path_factory.mktemp("pauses"), mode + (LISTED if mode == "pause_if_all_down" else "")) as nodes:
        yield nodes


def is_served(node: Node) -> bool:
    try:
        pika.BlockingConnection(pika.URLParameters(node.url(query="?connection_attempts=1&socket_timeout=15"))).close()
    except (AMQPError, OSError, socket.gaierror):
        return False
    return True


def is_closed(connection: pika.BlockingConnection) -> bool:
    try:
        connection.process_data_events(time_limit=0.05)
    except AMQPError:
        return True
    return bool(connection.is_closed)


@pytest.mark.timeout(300)
def test_a_minority_serves_nobody_until_it_is_healed_and_nothing_confirmed_is_missing(nodes: Lonely) -> None:
    declare(nodes, CUT, "ha-lonely")
    publish(nodes[CUT], "ha-lonely", b"before")
    there = pika.BlockingConnection(pika.URLParameters(nodes[CUT].url(query="?heartbeat=0")))
    nodes.cut()
    eventually(lambda: is_closed(there), within=LONG)
    assert not is_served(nodes[CUT])
    eventually(lambda: nodes[0].api("GET", "/api/queues/%2F/ha-lonely")["node"] != nodes.names[CUT], within=LONG)
    publish(nodes[0], "ha-lonely", b"meanwhile")
    nodes.heal()
    eventually(lambda: is_served(nodes[CUT]), within=LONG)
    nodes.until_whole(LONG)
    publish(nodes[CUT], "ha-lonely", b"after")
    with channel_at(nodes[1]) as channel:
        assert taken(channel, "ha-lonely") == [b"before", b"meanwhile", b"after"]
    row = nodes[CUT].api("GET", "/api/queues/%2F/ha-lonely")
    assert row["node"] != nodes.names[CUT], "it has not taken the lead back"
