"""A local cluster that agrees through etcd: the same commands, the same answers."""

from __future__ import annotations

import json
from pathlib import Path

import pika

from cluster.etcd import etcd_cluster
from cluster.local import LocalCluster
from compat.support import eventually


def members(cluster: LocalCluster, node: int) -> list[str]:
    found: list[str] = json.loads(cluster.must(node, "cluster_status", "--formatter", "json").out)["disk_nodes"]
    return found


def test_nodes_that_agree_through_etcd_are_one_cluster(tmp_path: Path):
    with etcd_cluster(tmp_path / "etcd", 1) as etcd:
        ours, theirs = (tmp_path / name for name in ("ours", "theirs"))
        with LocalCluster(ours, nodes=2, coordination=f"{etcd.spec}?namespace=ours", names=["a@one", "b@two"]) as cluster, \
                LocalCluster(theirs, nodes=1, coordination=f"{etcd.spec}?namespace=theirs") as other:
            connection = pika.BlockingConnection(pika.URLParameters(cluster.url("a@one")))
            connection.channel().queue_declare("q", durable=True)
            connection.close()
            assert cluster.must(1, "list_queues", "-q", "--no-table-headers", "name").lines == ["q"]
            assert other.must(0, "list_queues", "-q", "--no-table-headers", "name").lines == []
            cluster.kill(1)
            cluster.await_all([0])
            cluster.restart(1)
            cluster.await_all()
            cluster.must(1, "stop_app")
            cluster.must(1, "reset")
            eventually(lambda: members(cluster, 0) == ["a@one"])
            cluster.must(1, "start_app")
            assert members(cluster, 1) == ["a@one", "b@two"]
            assert members(other, 0) == ["rabbit1@localhost"]
