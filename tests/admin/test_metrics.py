"""What Prometheus gets: RabbitMQ's names and types, in a form that parses, and a board that finds all its series."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from compat.support import eventually, free_port

from .conftest import Connect
from .rabbitmq import ROOT, RabbitMQ
from .support import Node

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
FACTS = Path(__file__).with_name("metrics_facts.json")
BOARD = ROOT / "deploy" / "grafana" / "mirrormq-overview.json"
NO_QUORUM = "of quorum queues, of which there are none"
MISSING = dict.fromkeys((
    "rabbitmq_raft_entry_commit_latency_seconds", "rabbitmq_raft_log_commit_index", "rabbitmq_raft_log_last_applied_index",
    "rabbitmq_raft_log_last_written_index", "rabbitmq_raft_log_snapshot_index", "rabbitmq_raft_term_total"), NO_QUORUM)
GAUGES_HERE = {"rabbitmq_alarms_file_descriptor_limit", "rabbitmq_alarms_free_disk_space_watermark",
               "rabbitmq_alarms_memory_used_watermark"}      # RabbitMQ says nothing about their type
OF_OBJECTS = ("rabbitmq_queue_consumer_capacity", "rabbitmq_queue_head_message_timestamp",
              "rabbitmq_queue_messages_persistent_bytes", "rabbitmq_queue_messages_published_total")


def scrape(node: Node, path: str = "/metrics") -> str:
    reply = node.ask("GET", path)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return str(reply.body)


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def types(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def value(text: str, sample: str) -> float:
    return float(next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(sample)))


def test_every_metric_of_rabbitmq_is_there_with_its_type(node: Node):
    wanted, found = json.loads(FACTS.read_text()), types(scrape(node)) | types(scrape(node, "/metrics/per-object"))
    for name, kind in wanted.items():
        if name in MISSING or (name in OF_OBJECTS and name not in found):
            continue
        assert name in found
        assert found[name] == ("gauge" if name in GAUGES_HERE else kind), name


@pytest.mark.chaos
def test_rabbitmq_still_has_these_metrics(rabbit: RabbitMQ):
    with urllib.request.urlopen(f"http://127.0.0.1:{rabbit.prometheus_port}/metrics") as answer:
        found = types(answer.read().decode())
    assert {name: kind for name, kind in found.items() if name.startswith("rabbitmq_")} == json.loads(FACTS.read_text())


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics"])
def test_a_scrape_parses(node: Node, path: str, vhost: str):
    node.api("PUT", f'/api/queues/{vhost}/{"hostile%22%0A%5Cname"}', {})
    found = families(scrape(node, path))
    assert found
    for family in found.values():
        assert family.documentation


def test_sums_do_not_grow_with_objects_and_objects_have_labels(node: Node, vhost: str):
    before = len(scrape(node).splitlines())
    for number in range(5):
        node.api("PUT", f"/api/queues/{vhost}/q{number}", {})
    assert len(scrape(node).splitlines()) == before
    whole = scrape(node, "/metrics/per-object")
    for number in range(5):
        assert f'rabbitmq_queue_messages_ready{{vhost="{vhost}",queue="q{number}"}} 0' in whole


def test_detailed_metrics_are_of_the_families_and_virtual_hosts_that_were_asked_for(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/only", {})
    node.api("PUT", "/api/queues/%2F/other", {})
    text = scrape(node, f"/metrics/detailed?family=queue_coarse_metrics&family=nope&vhost={vhost}")
    assert f'rabbitmq_detailed_queue_messages{{vhost="{vhost}",queue="only"}} 0' in text
    assert 'queue="other"' not in text
    assert set(types(text)) == {f"rabbitmq_detailed_queue_{name}" for name in (
        "messages_ready", "messages_unacked", "messages", "process_reductions_total")}
    node.api("DELETE", "/api/queues/%2F/other")


def test_counters_count(node: Node, connect: Connect):
    before = scrape(node)
    channel = connect().channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", queue, b"x" * number, pika.BasicProperties(delivery_mode=2))
    channel.basic_publish("amq.fanout", "nowhere", b"lost")
    for _ in range(4):
        channel.basic_get(queue, auto_ack=True)
    after = scrape(node)
    received, nowhere, got = (f"rabbitmq_global_messages_{name}_total" for name in (
        "received", "unroutable_dropped", "delivered_get_auto_ack"))
    for name, more in ((received, 11), (nowhere, 1), (got, 4), ("rabbitmq_channels_opened_total", 1)):
        assert value(after, name) - value(before, name) == more, name
    assert value(after, "rabbitmq_queue_messages_ready ") - value(before, "rabbitmq_queue_messages_ready ") == 6


def test_the_oldest_message_ages(node: Node, connect: Connect):
    channel = connect().channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    sample = f'queue="{queue}"}}'

    def age() -> float:
        text = scrape(node, "/metrics/per-object")
        return float(next(line for line in text.splitlines() if "oldest_message_age" in line and sample in line).split()[-1])

    assert age() == 0
    channel.basic_publish("", queue, b"old")
    assert eventually(lambda: age() > 0.2)
    channel.basic_get(queue, auto_ack=True)
    assert age() == 0


def test_metrics_need_a_monitoring_user_at_the_management_port(node: Node, user, vhost: str):
    assert node.ask("GET", "/metrics", user=None).status == 401
    assert node.ask("GET", "/metrics", user=user("management", vhost)).status == 401
    assert node.ask("GET", "/metrics", user=user("monitoring")).status == 200


@pytest.fixture
def scraped(run_directory: None, tmp_path: Path) -> Iterator[tuple[Node, int]]:
    port = free_port()
    (tmp_path / "node.conf").write_text(
        f"prometheus.tcp.port = {port}\nprometheus.tcp.ip = 127.0.0.1\nprometheus.return_per_object_metrics = true\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="scraped@localhost")
    server.start()
    yield server, port
    server.stop()


def test_a_port_of_its_own_serves_metrics_and_nothing_else_without_a_login(scraped: tuple[Node, int]):
    node, port = scraped
    node.api("PUT", "/api/queues/%2F/seen", {})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert 'rabbitmq_queue_messages{vhost="/",queue="seen"} 0' in answer.read().decode()
    for path in ("/api/overview", "/", "/api/definitions"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}")
    assert "http/prometheus" in node.ctl("listeners").out


def test_the_board_names_only_metrics_that_exist(node: Node, vhost: str):
    node.set_policy(vhost, "ha", "^ha", {"ha-mode": "all"})
    node.api("PUT", f"/api/queues/{vhost}/ha", {})
    existing = set(types(scrape(node))) | set(types(scrape(node, "/metrics/per-object")))
    board = json.loads(BOARD.read_text())
    named: set[str] = set()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            named |= set(re.findall(r"\b(?:rabbitmq|mirrormq)_[a-z_]+\b", target["expr"]))
    named -= {"rabbitmq_cluster", "rabbitmq_node"}
    assert len(named) > 25
    assert named <= existing, named - existing
