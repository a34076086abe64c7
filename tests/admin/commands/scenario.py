"""The list of commands that RabbitMQ and MirrorMQ both answer, in the order in which they are given.

Each line is a tool and its words. `{port}` is the port of the AMQP listener. They are given to a node that holds what `prepare`
makes, and each may build on what the ones before it have done.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

VHOST: Final = "shop"


class Step(NamedTuple):
    tool: str
    words: tuple[str, ...]
    stdin: str = ""

    @property
    def title(self) -> str:
        return " ".join((self.tool, *self.words))


class Api(Protocol):
    def api(self, method: str, path: str, json: Any = None) -> Any: ...


def prepare(node: Api) -> None:
    """Queues, bindings and messages; what the command line cannot make."""
    node.api("PUT", f"/api/vhosts/{VHOST}", {})
    node.api("PUT", f"/api/permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    for name, arguments in (("orders", {"x-max-priority": 10}), ("ha-one", {}), ("temporary", {})):
        node.api("PUT", f"/api/queues/{VHOST}/{name}", {"durable": name != "temporary", "arguments": arguments})
    node.api("PUT", f"/api/exchanges/{VHOST}/sales", {"type": "topic", "durable": True})
    node.api("POST", f"/api/bindings/{VHOST}/e/sales/q/orders", {"routing_key": "eu.*", "arguments": {"x": 1}})
    for number in range(3):
        node.api("POST", f"/api/exchanges/{VHOST}/amq.default/publish", {
            "properties": {"delivery_mode": 2}, "routing_key": "orders",
            "payload": f"order {number}", "payload_encoding": "string"})


def _ctl(*words: str, stdin: str = "") -> Step:
    return Step("rabbitmqctl", words, stdin)


def _diagnose(*words: str) -> Step:
    return Step("rabbitmq-diagnostics", words)


def _queues(*words: str) -> Step:
    return Step("rabbitmq-queues", words)


def _upgrade(*words: str) -> Step:
    return Step("rabbitmq-upgrade", words)


USERS: Final = (
    _ctl("list_users"),
    _ctl("add_user", "alice", "secret"),
    _ctl("add_user", "alice", "secret"),
    _ctl("add_user", "bob", "secret", "--formatter", "json"),
    _ctl("add_user", "carol", stdin="secret\n"),
    _ctl("authenticate_user", "alice", "secret"),
    _ctl("authenticate_user", "alice", "wrong"),
    _ctl("change_password", "alice", "better"),
    _ctl("change_password", "nobody", "better"),
    _ctl("set_user_tags", "alice", "monitoring", "policymaker"),
    _ctl("set_user_tags", "nobody", "monitoring"),
    _ctl("list_users", "--quiet"),
    _ctl("list_users", "--silent"),
    _ctl("list_users", "--no-table-headers"),
    _ctl("list_users", "--formatter", "json"),
    _ctl("list_users", "--formatter", "csv"),
    _ctl("list_users", "--formatter", "pretty_table"),
    _ctl("list_users", "--formatter=erlang"),
    _ctl("clear_password", "bob"),
    _ctl("set_user_limits", "alice", '{"max-connections":5}'),
    _ctl("list_user_limits", "--user", "alice"),
    _ctl("list_user_limits", "--global"),
    _ctl("clear_user_limits", "alice", "max-connections"),
    _ctl("delete_user", "bob"),
    _ctl("delete_user", "nobody"),
)
VHOSTS: Final = (
    _ctl("add_vhost", "audit", "--description", "for auditors", "--tags", "audit,eu"),
    _ctl("list_vhosts", "--timeout", "30"),
    _ctl("list_vhosts", "name", "tracing", "tags", "description"),
    _ctl("list_vhosts", "name", "--formatter", "json"),
    _ctl("list_vhosts", "nope"),
    _ctl("set_vhost_limits", "-p", "audit", '{"max-queues":7}'),
    _ctl("list_vhost_limits", "-p", "audit"),
    _ctl("list_vhost_limits", "--global"),
    _ctl("clear_vhost_limits", "-p", "audit"),
    _ctl("set_vhost_tags", "audit", "tested"),
    _ctl("trace_on", "-p", "audit"),
    _ctl("list_vhosts", "name", "tracing"),
    _ctl("trace_off", "-p", "audit"),
    _ctl("trace_on", "-p", "nope"),
    _ctl("delete_vhost", "nope"),
    _ctl("restart_vhost", "--vhost", "audit"),
)
RIGHTS: Final = (
    _ctl("set_permissions", "-p", VHOST, "alice", "^a-.*", ".*", ".*"),
    _ctl("set_permissions", "-p", VHOST, "nobody", ".*", ".*", ".*"),
    _ctl("set_permissions", "-p", "nope", "alice", ".*", ".*", ".*"),
    _ctl("list_permissions", "--vhost", VHOST),
    _ctl("list_permissions", "-p", "nope"),
    _ctl("list_user_permissions", "alice"),
    _ctl("list_user_permissions", "nobody"),
    _ctl("set_topic_permissions", "-p", VHOST, "alice", "sales", "^eu", "^eu"),
    _ctl("list_topic_permissions", "-p", VHOST),
    _ctl("list_user_topic_permissions", "alice"),
    _ctl("clear_topic_permissions", "-p", VHOST, "alice", "sales"),
    _ctl("clear_permissions", "-p", VHOST, "alice"),
)
POLICIES: Final = (
    _ctl("set_policy", "-p", VHOST, "ha", "^ha-", '{"ha-mode":"all","ha-sync-mode":"automatic"}', "--apply-to", "queues",
         "--priority", "2"),
    _ctl("set_policy", "-p", VHOST, "bad", ".*", '{"nope":1}'),
    _ctl("set_policy", "-p", VHOST, "bad", ".*", "{"),
    _ctl("set_policy", "-p", "nope", "ha", ".*", '{"ha-mode":"all"}'),
    _ctl("set_policy", "bad", ".*"),
    _ctl("list_policies", "-p", VHOST),
    _ctl("list_policies", "-p", VHOST, "--formatter", "json"),
    _ctl("clear_policy", "-p", VHOST, "nope"),
    _ctl("set_operator_policy", "-p", VHOST, "short", ".*", '{"max-length":1000}'),
    _ctl("list_operator_policies", "-p", VHOST),
    _ctl("clear_operator_policy", "-p", VHOST, "short"),
    _ctl("set_parameter", "-p", VHOST, "nope", "x", "{}"),
    _ctl("list_parameters", "-p", VHOST),
    _ctl("set_global_parameter", "note", '"hello"'),
    _ctl("list_global_parameters"),
    _ctl("clear_global_parameter", "note"),
)
OBJECTS: Final = (
    _ctl("list_queues", "-p", VHOST),
    _ctl("list_queues", "-p", VHOST, "name", "messages", "policy", "slave_pids", "synchronised_slave_pids"),
    _ctl("list_queues", "-p", VHOST, "name", "durable", "auto_delete", "arguments", "state", "--formatter", "json"),
    _ctl("list_queues", "-p", VHOST, "name,consumers,type", "--formatter", "csv"),
    _ctl("list_queues", "-p", VHOST, "--local", "-q"),
    _ctl("list_queues", "-p", "nope"),
    _ctl("list_queues", "nope"),
    _ctl("list_exchanges", "-p", VHOST),
    _ctl("list_exchanges", "-p", VHOST, "name", "type", "durable", "auto_delete", "internal", "arguments", "policy"),
    _ctl("list_bindings", "-p", VHOST),
    _ctl("list_bindings", "-p", VHOST, "destination_name", "routing_key"),
    _ctl("list_connections"),
    _ctl("list_connections", "nope"),
    _ctl("list_channels"),
    _ctl("list_consumers", "-p", VHOST),
    _ctl("sync_queue", "-p", VHOST, "ha-one"),
    _ctl("sync_queue", "-p", VHOST, "orders"),
    _ctl("sync_queue", "-p", VHOST, "nope"),
    _ctl("cancel_sync_queue", "-p", VHOST, "ha-one"),
    _ctl("cancel_sync_queue", "-p", VHOST, "orders"),
    _queues("rebalance", "all"),
    _queues("rebalance", "classic", "--vhost-pattern", VHOST, "--queue-pattern", "ha-.*"),
    _queues("rebalance", "nope"),
    _queues("check_if_node_is_mirror_sync_critical"),
    _queues("check_if_node_is_mirror_sync_critical", "--formatter", "json"),
    _queues("check_if_node_is_quorum_critical"),
    _queues("peek", "-p", VHOST, "orders", "1"),
    _ctl("list_unresponsive_queues", "-p", VHOST),
    _ctl("purge_queue", "-p", VHOST, "orders"),
    _ctl("purge_queue", "-p", VHOST, "nope"),
    _ctl("delete_queue", "-p", VHOST, "temporary", "--if-empty", "--if-unused"),
    _ctl("delete_queue", "-p", VHOST, "temporary"),
    _ctl("close_connection", "nope", "because"),
    _ctl("close_all_connections", "-p", VHOST, "because"),
    _ctl("close_all_user_connections", "alice", "because"),
)
NODES: Final = (
    _ctl("ping"),
    _ctl("ping", "--formatter", "json"),
    _ctl("await_startup"),
    _ctl("await_online_nodes", "1"),
    _ctl("await_online_nodes", "0"),
    _ctl("set_cluster_name", "branch"),
    _ctl("list_node_auth_attempt_stats"),
    _ctl("list_ciphers"),
    _ctl("list_hashes"),
    _ctl("force_gc"),
    _ctl("node_health_check"),
    _ctl("rotate_logs"),
    _ctl("set_log_level", "debug"),
    _ctl("set_log_level", "loud"),
    _ctl("set_log_level", "info"),
    _ctl("set_disk_free_limit", "50MB"),
    _ctl("set_disk_free_limit", "mem_relative", "0.01"),
    _ctl("set_disk_free_limit", "much"),
    _ctl("set_vm_memory_high_watermark", "0.4"),
    _ctl("set_vm_memory_high_watermark", "absolute", "4GB"),
    _ctl("set_vm_memory_high_watermark", "absolute", "much"),
    _ctl("enable_feature_flag", "all"),
    _ctl("force_boot"),
    _ctl("reset"),
    _ctl("version"),
    _upgrade("await_online_synchronized_mirror", "--timeout", "5"),
    _upgrade("await_online_quorum_plus_one", "--timeout", "5"),
    _upgrade("drain"),
    _upgrade("revive"),
    _ctl("suspend_listeners"),
    _ctl("resume_listeners"),
)
HEALTH: Final = (
    _diagnose("alarms"),
    _diagnose("check_alarms"),
    _diagnose("check_alarms", "--formatter", "json"),
    _diagnose("check_local_alarms"),
    _diagnose("check_port_connectivity"),
    _diagnose("check_port_listener", "{port}"),
    _diagnose("check_port_listener", "1"),
    _diagnose("check_port_listener", "many"),
    _diagnose("check_protocol_listener", "amqp"),
    _diagnose("check_protocol_listener", "amqp091"),
    _diagnose("check_protocol_listener", "mqtt"),
    _diagnose("check_running"),
    _diagnose("check_running", "--formatter", "json"),
    _diagnose("check_virtual_hosts"),
    _diagnose("check_certificate_expiration", "--unit", "weeks", "--within", "5"),
    _diagnose("check_certificate_expiration", "--unit", "eons", "--within", "5"),
    _diagnose("is_running"),
    _diagnose("is_booting"),
    _diagnose("listeners"),
    _diagnose("server_version"),
    _diagnose("erlang_version"),
    _diagnose("log_location"),
    _diagnose("tls_versions"),
    _diagnose("certificates"),
    _diagnose("discover_peers"),
    _diagnose("memory_breakdown"),
    _diagnose("list_network_interfaces"),
    _diagnose("resolve_hostname", "localhost"),
)
MISTAKES: Final = (
    _ctl("list_quues"),
    _ctl("list_users", "extra"),
    _ctl("add_user"),
    _ctl("list_queues", "--nope"),
    _ctl("list_queues", "--formatter", "nope"),
    _ctl("list_queues", "--timeout", "soon"),
    _ctl("list_users", "--timeout", "infinity"),
    _ctl("list_users", "--timeout", "0"),
    _ctl("await_startup", "--timeout", "0"),
    _ctl("zzz"),
)
SHAPES: Final = (
    _ctl("status"),
    _ctl("status", "--formatter", "json"),
    _ctl("cluster_status"),
    _ctl("cluster_status", "--formatter", "json"),
    _ctl("environment"),
    _ctl("list_feature_flags"),
    _ctl("report"),
    _ctl("schema_info"),
    _ctl("hash_password", "secret"),
    _diagnose("os_env"),
    _diagnose("runtime_thread_stats", "--sample-interval", "1"),
    _diagnose("command_line_arguments"),
)
"""Commands whose text is about the node itself: only exit codes, and titles where there are any, can be the same."""

STEPS: Final = (*USERS, *VHOSTS, *RIGHTS, *POLICIES, *OBJECTS, *NODES, *HEALTH, *MISTAKES)
