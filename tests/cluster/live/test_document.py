"""A published recipe for testing a cluster, as one test: two nodes, four queues, five consumers, and what each must receive.

Step 1 sets everything up, every queue mirrored on both nodes. Step 2 declares a queue of the other node again: no new queue, one
more binding. Steps 3 to 6 publish through either node and tell which consumers receive the message. Step 7 kills a node: the
other leads its queues, and goes on leading when the node is back. Step 8 does so while a message is not acknowledged: it comes
again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika

from cluster.local import LocalCluster
from compat.support import eventually

ONE, TWO = "rabbit@clusterRabbit1", "rabbit@clusterRabbit2"
VHOST, EXCHANGE, USER = "cluster", "cluster", "api_management"
QUEUES = {  # name: the node on which it is declared, and its routing key
    "clusterRabbit1Queue1": (ONE, "clusterRabbit1key"),
    "clusterRabbit1Queue2": (ONE, "clusterRabbitCommonKey"),
    "clusterRabbit2Queue1": (TWO, "clusterRabbit2key"),
    "clusterRabbit2Queue2": (TWO, "clusterRabbitCommonKey"),
}
CONSUMERS = {  # name: the node that it is connected to, and its queue
    "one": (ONE, "clusterRabbit1Queue1"),
    "two": (ONE, "clusterRabbit1Queue2"),
    "three": (TWO, "clusterRabbit2Queue1"),
    "four": (ONE, "clusterRabbit2Queue1"),
    "five": (TWO, "clusterRabbit2Queue2"),
}


class Consumer:
    """Receives in a thread of its own and acknowledges each message."""

    def __init__(self, url: str, queue: str) -> None:
        self.received: list[bytes] = []
        self.is_slow = False        # from then on it acknowledges nothing until it is told to
        self.is_lost = False        # its connection broke
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = self._connection.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, self._take)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _take(self, channel, method, _properties, body: bytes) -> None:
        self.received.append(body)
        if self.is_slow:
            self._held = (channel, method.delivery_tag)
        else:
            channel.basic_ack(method.delivery_tag)

    def acknowledge_late(self) -> None:
        self.is_slow = False
        channel, tag = self._held
        self._connection.add_callback_threadsafe(lambda: channel.basic_ack(tag))

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._connection.process_data_events(0.05)
            self._connection.close()
        except pika.exceptions.AMQPError:
            self.is_lost = True

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(90)


@contextmanager
def channel_at(cluster: LocalCluster, node: str) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url(cluster, node)))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        connection.close()


def url(cluster: LocalCluster, node: str) -> str:
    return cluster.url(node, VHOST, USER, USER)


def set_up(cluster: LocalCluster) -> None:
    cluster.must(ONE, "add_vhost", VHOST)
    cluster.must(ONE, "add_user", USER, USER)
    cluster.must(ONE, "set_user_tags", USER, "administrator")
    cluster.must(TWO, "set_permissions", "-p", VHOST, USER, ".*", ".*", ".*")
    cluster.must(ONE, "set_policy", "-p", VHOST, "ha-all", "^", '{"ha-mode":"all"}')
    for node in (ONE, TWO):
        with channel_at(cluster, node) as channel:
            channel.exchange_declare(EXCHANGE, "direct", durable=True)
            for name, (home, key) in QUEUES.items():
                if home == node:
                    channel.queue_declare(name, durable=True)
                    channel.queue_bind(name, EXCHANGE, key)


def publish(cluster: LocalCluster, node: str, key: str, *bodies: bytes) -> None:
    with channel_at(cluster, node) as channel:
        for body in bodies:
            channel.basic_publish(EXCHANGE, key, body, pika.BasicProperties(delivery_mode=2), mandatory=True)


def test_the_cluster_test_of_the_document(tmp_path: Path):
    with LocalCluster(tmp_path, names=[ONE, TWO], nodes=2) as cluster, ExitStack() as stack:
        set_up(cluster)
        told = json.loads(cluster.must(TWO, "cluster_status", "--formatter", "json").out)
        assert told["disk_nodes"] == told["running_nodes"] == [ONE, TWO]
        consumers = {name: Consumer(url(cluster, node), queue) for name, (node, queue) in CONSUMERS.items()}
        for consumer in consumers.values():
            stack.callback(consumer.close)

        def received(**expected: list[bytes]) -> bool:
            return {name: consumer.received for name, consumer in consumers.items() if consumer.received} == expected

        def begin_anew() -> None:
            for consumer in consumers.values():
                consumer.received.clear()

        # 2: the same name on the other node is the same queue, and gets one more binding
        with channel_at(cluster, TWO) as channel:
            channel.queue_declare("clusterRabbit1Queue1", durable=True)
            channel.queue_bind("clusterRabbit1Queue1", EXCHANGE, "clusterRabbit2key")
        assert eventually(lambda: leaders(cluster, TWO) == {name: home for name, (home, _) in QUEUES.items()})
        assert bindings(cluster, ONE) == bindings(cluster, TWO) == {
            ("clusterRabbit1Queue1", "clusterRabbit1key"), ("clusterRabbit1Queue1", "clusterRabbit2key"),
            ("clusterRabbit1Queue2", "clusterRabbitCommonKey"), ("clusterRabbit2Queue1", "clusterRabbit2key"),
            ("clusterRabbit2Queue2", "clusterRabbitCommonKey")}
        with channel_at(cluster, TWO) as channel:
            channel.queue_unbind("clusterRabbit1Queue1", EXCHANGE, "clusterRabbit2key")   # the later steps are without it

        # 3: through node one, to a queue of node one
        publish(cluster, ONE, "clusterRabbit1key", b"3")
        assert eventually(lambda: received(one=[b"3"]))
        begin_anew()

        # 4: through node two, to a queue of node one
        publish(cluster, TWO, "clusterRabbit1key", b"4")
        assert eventually(lambda: received(one=[b"4"]))
        begin_anew()

        # 5: one key that queues of both nodes are bound with
        publish(cluster, ONE, "clusterRabbitCommonKey", b"5")
        assert eventually(lambda: received(two=[b"5"], five=[b"5"]))
        begin_anew()

        # 6: two consumers of one queue, on different nodes, take turns
        bodies = [b"6-%d" % number for number in range(6)]
        for body in bodies:
            publish(cluster, ONE, "clusterRabbit2key", body)
            assert eventually(lambda done=body: any(done in consumer.received for consumer in consumers.values()))
            eventually(lambda: is_empty(cluster))       # who has not acknowledged yet misses its turn
        three, four = consumers["three"].received, consumers["four"].received
        assert sorted([three, four]) == [bodies[0::2], bodies[1::2]]
        assert received(three=three, four=four)
        begin_anew()

        # 7: node two goes; who is connected to node one goes on, and node one leads, also when node two is back
        cluster.kill(TWO)
        publish(cluster, ONE, "clusterRabbit2key", b"7")
        assert eventually(lambda: received(four=[b"7"]))
        assert eventually(lambda: consumers["three"].is_lost and consumers["five"].is_lost)
        assert not any(consumers[name].is_lost for name in ("one", "two", "four"))
        assert eventually(lambda: leaders(cluster, ONE) == dict.fromkeys(QUEUES, ONE))
        begin_anew()
        cluster.restart(TWO)
        assert eventually(lambda: mirrors(cluster, ONE) == {name: [TWO] for name in QUEUES})
        assert eventually(lambda: leaders(cluster, TWO) == dict.fromkeys(QUEUES, ONE))

        # 8: the leader goes before an acknowledgement has come to it
        cluster.must(ONE, "set_policy", "-p", VHOST, "two-leads", "^clusterRabbit2Queue1$", "--priority", "1",
                     json.dumps({"ha-mode": "nodes", "ha-params": [TWO]}))
        assert eventually(lambda: leaders(cluster, ONE)["clusterRabbit2Queue1"] == TWO)
        cluster.must(ONE, "clear_policy", "-p", VHOST, "two-leads")
        assert eventually(lambda: mirrors(cluster, ONE)["clusterRabbit2Queue1"] == [ONE])
        consumers["four"].is_slow = True
        publish(cluster, ONE, "clusterRabbit2key", b"8")
        assert eventually(lambda: received(four=[b"8"]))
        cluster.kill(TWO)
        assert eventually(lambda: received(four=[b"8", b"8"]))
        assert not consumers["four"].is_lost
        consumers["four"].acknowledge_late()
        assert eventually(lambda: is_empty(cluster))


def is_empty(cluster: LocalCluster) -> bool:
    """Everything in the queue with two consumers has been acknowledged."""
    row = cluster.api(ONE, "GET", f"/api/queues/{VHOST}/clusterRabbit2Queue1", user=USER)
    return bool(row.get("messages") == 0)


def leaders(cluster: LocalCluster, node: str) -> dict[str, str]:
    return {row["name"]: row["node"] for row in cluster.api(node, "GET", f"/api/queues/{VHOST}", user=USER)}


def mirrors(cluster: LocalCluster, node: str) -> dict[str, list[str]]:
    """Those in sync."""
    rows = cluster.api(node, "GET", f"/api/queues/{VHOST}", user=USER)
    return {row["name"]: row["synchronised_slave_nodes"] for row in rows}


def bindings(cluster: LocalCluster, node: str) -> set[tuple[str, str]]:
    lines = cluster.must(node, "list_bindings", "-p", VHOST, "-q", "--no-table-headers", "source_name", "destination_name",
                         "routing_key").lines
    found = [tuple(line.split("\t")) for line in lines]
    return {(destination, key) for source, destination, key in found if source == EXCHANGE}
