"""The coordination store is wholly away: what runs goes on, what needs agreement is refused in time, and all agree afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from cluster.etcd import EtcdCluster, etcd_cluster
from cluster.local import PATIENCE
from compat.support import eventually

from .couriers import Courier, Taker, check
from .nodes import Node, Nodes, running

SECONDS = float(os.environ.get("MIRRORMQ_OUTAGE_SECONDS", "12"))
PROMPT = 20.0
"""Seconds within which a declare is refused: five, and the rest for a busy machine."""


def connect(node: Node) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.url(query="?heartbeat=0")))


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdCluster]:
    with etcd_cluster(tmp_path / "etcd") as cluster:
        yield cluster


@pytest.fixture
def cluster(etcd: EtcdCluster, tmp_path: Path) -> Iterator[Nodes]:
    with running(tmp_path, coordination=etcd.spec) as nodes:
        yield nodes


@pytest.mark.long
@pytest.mark.timeout(300)
def test_publishers_and_consumers_go_on_while_etcd_is_wholly_down(etcd: EtcdCluster, cluster: Nodes) -> None:
    homes = [connect(node) for node in cluster]
    for index, home in enumerate(homes):
        home.channel().queue_declare(f"q{index}", durable=True)
    own = homes[2].channel()
    own.queue_declare("own", exclusive=True)
    couriers = [Courier(number, cluster[number].port, ["q0", "q1", "q2"]) for number in range(3)]
    takers = [Taker(cluster[(number + 1) % 3].port, f"q{number}") for number in range(3)]
    for thread in (*takers, *couriers):
        thread.start()
    etcd.stop()
    until = time.monotonic() + SECONDS
    before = [sum(map(len, courier.confirmed.values())) for courier in couriers]
    for node in cluster:
        asked = time.monotonic()
        connection = connect(node)
        with pytest.raises(ChannelClosedByBroker) as refusal:
            connection.channel().queue_declare("new", durable=True)
        connection.close()
        assert refusal.value.reply_code == 541
        assert "agree" in refusal.value.reply_text
        assert time.monotonic() - asked < PROMPT
    while time.monotonic() < until:
        time.sleep(0.1)
    for courier, count in zip(couriers, before, strict=True):
        assert sum(map(len, courier.confirmed.values())) > count, "confirms stopped with the store"
        assert courier.reconnects == 0
    etcd.start()
    eventually(lambda: declared(cluster[0], "new"), within=PATIENCE)
    for node in cluster:
        eventually(lambda node=node: declared(node, "new"), within=PATIENCE)
    assert own.queue_declare("own", passive=True).method.queue == "own"
    for courier in couriers:
        courier.stopping.set()
        courier.join(90)
    for taker in takers:
        taker.stopping.set()
        taker.join(90)
    assert check(couriers, takers) > 100
    for home in homes:
        home.close()


def declared(node: Node, queue: str) -> bool:
    connection = connect(node)
    try:
        connection.channel().queue_declare(queue, durable=True)
        return True
    except ChannelClosedByBroker:
        return False
    finally:
        connection.close()
