"""The fields that monitoring tools for RabbitMQ read are all there, with their types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compat.support import eventually

from .conftest import Connect
from .support import NODE, Node, quote

pytestmark = pytest.mark.live

NUMBER = (int, float)
QUEUE: dict[str, Any] = {
    "arguments": dict, "auto_delete": bool, "backing_queue_status": dict, "consumer_capacity": NUMBER,
    "consumer_utilisation": NUMBER, "consumers": int, "durable": bool, "effective_policy_definition": dict,
    "exclusive": bool, "exclusive_consumer_tag": (str, type(None)), "garbage_collection": dict,
    "head_message_timestamp": (int, type(None)), "memory": int, "message_bytes": int, "message_bytes_paged_out": int,
    "message_bytes_persistent": int, "message_bytes_ram": int, "message_bytes_ready": int,
    "message_bytes_unacknowledged": int, "messages": int, "messages_details": dict, "messages_paged_out": int,
    "messages_persistent": int, "messages_ram": int, "messages_ready": int, "messages_ready_details": dict,
    "messages_ready_ram": int, "messages_unacknowledged": int, "messages_unacknowledged_details": dict,
    "messages_unacknowledged_ram": int, "name": str, "node": str, "operator_policy": (str, type(None)),
    "policy": (str, type(None)), "recoverable_slaves": (list, type(None)), "reductions": int,
    "reductions_details": dict, "single_active_consumer_tag": (str, type(None)), "state": str, "type": str,
    "vhost": str,
}  # fmt: skip
CONNECTION: dict[str, Any] = {
    "auth_mechanism": str, "channel_max": int, "channels": int, "client_properties": dict, "connected_at": int,
    "frame_max": int, "garbage_collection": dict, "host": str, "name": str, "node": str, "peer_cert_issuer": str,
    "peer_cert_subject": str, "peer_cert_validity": str, "peer_host": str, "peer_port": int, "port": int,
    "protocol": str, "recv_cnt": int, "recv_oct": int, "recv_oct_details": dict, "reductions": int, "send_cnt": int,
    "send_oct": int, "send_oct_details": dict, "send_pend": int, "ssl": bool, "ssl_cipher": str, "ssl_hash": str,
    "ssl_key_exchange": str, "ssl_protocol": str, "state": str, "timeout": int, "type": str, "user": str,
    "user_who_performed_action": str, "vhost": str,
}  # fmt: skip
CHANNEL: dict[str, Any] = {
    "acks_uncommitted": int, "confirm": bool, "connection_details": dict, "consumer_count": int,
    "garbage_collection": dict, "global_prefetch_count": int, "message_stats": dict, "messages_unacknowledged": int,
    "messages_uncommitted": int, "messages_unconfirmed": int, "name": str, "node": str, "number": int,
    "pending_raft_commands": int, "prefetch_count": int, "reductions": int, "state": str, "transactional": bool,
    "user": str, "user_who_performed_action": str, "vhost": str,
}  # fmt: skip
EXCHANGE: dict[str, Any] = {
    "arguments": dict, "auto_delete": bool, "durable": bool, "internal": bool, "name": str, "type": str,
    "user_who_performed_action": str, "vhost": str,
}  # fmt: skip
CONSUMER: dict[str, Any] = {
    "ack_required": bool, "active": bool, "activity_status": str, "arguments": dict, "channel_details": dict,
    "consumer_tag": str, "exclusive": bool, "prefetch_count": int, "queue": dict,
}  # fmt: skip
OVERVIEW: dict[str, Any] = {
    "churn_rates": dict, "cluster_name": str, "contexts": list, "disable_stats": bool, "enable_queue_totals": bool,
    "erlang_full_version": str, "erlang_version": str, "exchange_types": list, "listeners": list,
    "management_version": str, "message_stats": dict, "node": str, "object_totals": dict, "product_name": str,
    "product_version": str, "queue_totals": dict, "rabbitmq_version": str, "rates_mode": str,
    "release_series_support_status": str, "sample_retention_policies": dict, "statistics_db_event_queue": int,
}  # fmt: skip
NODE_FIELDS: dict[str, Any] = {
    "applications": list, "auth_mechanisms": list, "cluster_links": list, "config_files": list,
    "context_switches": int, "contexts": list, "db_dir": str, "disk_free": int, "disk_free_alarm": bool,
    "disk_free_limit": int, "enabled_plugins": list, "exchange_types": list, "fd_total": int, "fd_used": int,
    "gc_num": int, "io_sync_count": int, "io_write_bytes": int, "io_write_count": int, "log_files": list,
    "mem_alarm": bool, "mem_calculation_strategy": str, "mem_limit": int, "mem_used": int, "mem_used_details": dict,
    "name": str, "net_ticktime": int, "os_pid": str, "partitions": list, "proc_total": int, "proc_used": int,
    "processors": int, "rates_mode": str, "run_queue": int, "running": bool, "sockets_total": int,
    "sockets_used": int, "type": str, "uptime": int,
}  # fmt: skip
VHOST: dict[str, Any] = {
    "cluster_state": dict, "default_queue_type": str, "description": str, "messages": int, "messages_ready": int,
    "messages_unacknowledged": int, "metadata": dict, "name": str, "recv_oct": int, "send_oct": int, "tags": list,
    "tracing": bool, "message_stats": dict,
}  # fmt: skip
FLOWS = ("ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "publish", "redeliver")


def check(row: dict[str, Any], fields: dict[str, Any]) -> None:
    assert not fields.keys() - row.keys()
    wrong = {name: row[name] for name, kind in fields.items() if not isinstance(row[name], kind)}
    assert not wrong
    flags = {name for name, kind in fields.items() if kind is not bool and isinstance(row[name], bool)}
    assert not flags


@pytest.fixture
def busy(vhost: str, connect: Connect) -> str:
    """A queue that messages go through."""
    channel = connect().channel()
    channel.confirm_delivery()
    channel.queue_declare("busy", durable=True)
    channel.basic_consume("busy", lambda *_: None, consumer_tag="tag", arguments={"x-priority": 5})
    for _ in range(3):
        channel.basic_publish("", "busy", b"hello")
    return vhost


def test_objects_have_the_fields_of_rabbitmq(node: Node, busy: str):
    queue = node.api("GET", f"/api/queues/{busy}/busy")
    check(queue, QUEUE)
    assert set(FLOWS) <= queue["message_stats"].keys()
    assert all(queue["message_stats"][f"{name}_details"].keys() == {"rate"} for name in FLOWS)
    [consumer] = queue["consumer_details"]
    check(consumer, CONSUMER)
    check(node.api("GET", f"/api/queues/{busy}")[0], QUEUE)
    [connection] = node.api("GET", f"/api/vhosts/{busy}/connections")
    check(connection, CONNECTION)
    [channel] = node.api("GET", f"/api/vhosts/{busy}/channels")
    check(channel, CHANNEL)
    assert channel["message_stats"]["publish"] == channel["message_stats"]["confirm"] == 3
    whole = node.api("GET", f"/api/channels/{quote(channel['name'])}")
    assert {"consumer_details", "deliveries", "publishes"} <= whole.keys()
    for exchange in node.api("GET", f"/api/exchanges/{busy}"):
        check(exchange, EXCHANGE)
    check(node.api("GET", f"/api/vhosts/{busy}"), VHOST)


def test_the_node_and_the_overview_have_the_fields_of_rabbitmq(node: Node, busy: str):
    overview = node.api("GET", "/api/overview")
    check(overview, OVERVIEW)
    assert overview["object_totals"].keys() == {"channels", "connections", "consumers", "exchanges", "queues"}
    assert overview["queue_totals"]["messages_unacknowledged"] >= 3
    assert {(row["protocol"], row["port"]) for row in overview["listeners"]} >= {
        ("amqp", node.port), ("http", node.http_port)}
    check(node.api("GET", f"/api/nodes/{NODE}"), NODE_FIELDS)
    check(node.api("GET", "/api/nodes")[0], NODE_FIELDS)
    assert node.api("GET", f"/api/nodes/{NODE}/memory")["memory"]["total"]["rss"] > 0
    assert node.ask("GET", "/api/nodes/nope@x").status == 404


def test_counts_of_messages_are_right_at_once(node: Node, busy: str):
    row = node.api("GET", f"/api/queues/{busy}/busy")
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (3, 0, 3)
    assert (row["message_bytes"], row["message_stats"]["publish"], row["message_stats"]["deliver"]) == (15, 3, 3)


def test_rates_follow_what_happens(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("q")
    path = f"/api/queues/{vhost}/q"
    node.api("GET", path)

    def rate() -> float:
        channel.basic_publish("", "q", b"x")
        return float(node.api("GET", path).get("message_stats", {}).get("publish_details", {}).get("rate", 0.0))

    assert eventually(rate) > 0


def test_samples_are_there_for_those_who_ask(node: Node, busy: str):
    query = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"
    row = node.api("GET", f"/api/queues/{busy}/busy?{query}")
    for detail in (row["messages_details"], row["message_stats"]["publish_details"]):
        assert detail.keys() == {"rate", "samples", "avg", "avg_rate"}
        assert all(sample.keys() == {"sample", "timestamp"} for sample in detail["samples"])


def test_without_statistics_only_the_essentials_are_shown(node: Node, busy: str):
    [row] = node.api("GET", f"/api/queues/{busy}?disable_stats=true&enable_queue_totals=true")
    assert row.keys() == {"arguments", "auto_delete", "durable", "exclusive", "messages", "messages_ready",
                          "messages_unacknowledged", "name", "node", "state", "type", "vhost"}


@pytest.mark.parametrize(("path", "status", "body"), [
    ("alarms", 200, {"status": "ok"}), ("local-alarms", 200, {"status": "ok"}),
    ("virtual-hosts", 200, {"status": "ok"}),
    ("node-is-mirror-sync-critical", 200, {"status": "ok", "reason": "single node cluster"}),
    ("protocol-listener/amqp", 200, {"status": "ok", "protocol": "amqp"}),
    ("protocol-listener/amqp091", 200, {"status": "ok", "protocol": "amqp091"}),
    ("certificate-expiration/1/months", 200, {"status": "ok"}),
    ("protocol-listener/mqtt", 503, {"status": "failed", "reason": "No active listener", "missing": "mqtt",
                                     "protocols": ["amqp", "http"]}),
    ("port-listener/x", 400, {"error": "bad_request", "reason": "Invalid port"}),
    ("certificate-expiration/x/months", 400, {"error": "bad_request", "reason": "Invalid expiration value."}),
    ("nope", 404, {"error": "Object Not Found", "reason": "Not Found"}),
])  # fmt: skip
def test_health_checks_answer_as_rabbitmq(node: Node, path: str, status: int, body: Any):
    reply = node.ask("GET", f"/api/health/checks/{path}")
    assert (reply.status, reply.body) == (status, body)


def test_an_alarm_is_shown_and_keeps_messages_out(run_directory: None, tmp_path: Path):
    (tmp_path / "node.conf").write_text("disk_free_limit.absolute = 1000TB\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="full@localhost")
    server.start()
    try:
        reply = eventually(lambda: (found := server.ask("GET", "/api/health/checks/alarms")).status == 503 and found)
        assert reply.body["alarms"] == [{"node": "full@localhost", "resource": "disk"}]
        assert server.api("GET", "/api/nodes/full@localhost")["disk_free_alarm"] is True
        message = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
        assert server.ask("POST", "/api/exchanges/%2F/amq.default/publish", message).status == 503
        assert "disk alarm on node full@localhost" in server.ctl("status").lines
    finally:
        server.stop()


def test_ports_are_checked(node: Node):
    assert node.api("GET", f"/api/health/checks/port-listener/{node.port}") == {"status": "ok", "port": node.port}
    reply = node.ask("GET", "/api/health/checks/port-listener/1")
    assert (reply.status, reply.body["missing"]) == (503, 1)
    assert reply.body["ports"] == sorted([node.port, node.http_port])
    assert node.api("GET", "/api/healthchecks/node") == {"status": "ok"}


def test_an_exchange_counts_what_came_in_and_what_went_to_queues(node: Node, vhost: str, connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.exchange_declare("counted", "topic")
    for name in ("one", "two"):
        channel.queue_declare(name)
        channel.queue_bind(name, "counted", "a.*")
    row = node.api("GET", f"/api/exchanges/{vhost}/counted")
    assert "message_stats" not in row
    for key in ("a.b", "a.c", "a.b", "nowhere"):
        channel.basic_publish("counted", key, b"x")
    channel.basic_publish("", "one", b"x")

    def stats(name: str) -> tuple[int, int]:
        found = node.api("GET", f"/api/exchanges/{vhost}/{name}").get("message_stats", {})
        return found.get("publish_in"), found.get("publish_out")

    eventually(lambda: (stats("counted"), stats("amq.default")) == ((4, 6), (1, 1)))
    channel.queue_bind("one", "counted", "nowhere")
    connection.close()
    row = node.api("GET", f"/api/exchanges/{vhost}/counted?msg_rates_age=60&msg_rates_incr=5")
    assert row["message_stats"]["publish_out"] == 6
    assert set(row["message_stats"]["publish_in_details"]) == {"rate", "samples", "avg", "avg_rate"}
    listed = {row["name"]: row for row in node.api("GET", f"/api/exchanges/{vhost}")}
    assert listed["counted"]["message_stats"]["publish_in"] == 4
