"""Every key that a configuration file may hold: what its value is, and which field of the configuration it sets.

Rules:

- `KEYS` is the whole list of keys that change something. Names are RabbitMQ's; `$name` stands for any one word.
- A target is a field of `NodeConfig`, or `group.field` for its nested records.
- RabbitMQ's keys that set nothing here are in `config_foreign`.
- `OVERRIDES` are the names that only environment variables and command-line options may use.
"""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple

from mirrormq.node.config_foreign import NO_EFFECT, REFUSED, is_listed
from mirrormq.node.config_format import (
    Parser,
    address,
    bytesize,
    duration,
    flag,
    fraction,
    information_unit,
    integer,
    integer_or,
    join_key,
    listener,
    names,
    node_name,
    one_of,
    path,
    period,
    readable_file,
    readable_files,
    regular_expression,
    split_key,
    text,
)
from mirrormq.node.config_mirroring import mirroring_policy, rebalance_strategy, rebalance_trigger

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none")


class Key(NamedTuple):
    name: str
    parse: Parser
    target: str
    gather: str = ""
    """How the keys that match a `$name` make one value: "values" in file order, or "names" of those set to true."""


def none(value: str) -> tuple[()]:
    if value != "none":
        raise ValueError("'none'; to set one, give it a name: 'key.1 = …'")
    return ()


def log_file(value: str) -> str | None:
    return None if value == "false" else text(value)


def frame_size(value: str) -> int:
    size = bytesize(value)
    if 0 < size < 4096:
        raise ValueError("0 (no limit) or at least 4096 bytes, the smallest frame that AMQP allows")
    if size > 0xFFFFFFFF:
        raise ValueError("less than 4 GiB, the largest frame that AMQP can name")
    return size


def first_frame_size(value: str) -> int:
    size = bytesize(value)
    if size < 4096:
        raise ValueError("at least 4096 bytes, the smallest frame that AMQP allows; who has not logged in must have a limit")
    return size


def auth_backend(value: str) -> str:
    if value.removeprefix("rabbit_auth_backend_") != "internal":
        raise ValueError("a supported authentication backend: only 'internal' is")
    return value


def definitions_backend(value: str) -> str:
    if not value.endswith(("local_filesystem", "local")):
        raise ValueError("a supported source of definitions: only 'local_filesystem' is")
    return value


def queue_type(value: str) -> str:
    if value not in ("classic", "rabbit_classic_queue"):
        raise ValueError("'classic', the only queue type that is supported; a queue is replicated by an 'ha-mode' policy")
    return value


def coordination(value: str) -> str:
    if not value.startswith(("sqlite:", "etcd:")) or value.endswith(":"):
        raise ValueError("a coordination store: sqlite:/path/file.sqlite, or etcd:http://host:2379,http://host:2379")
    return value


_LOCATOR: Final = one_of("client-local", "min-masters", "random", balanced="min-masters")
_PARTITION: Final = one_of(
    "pause_minority",
    "ignore",
    "autoheal",
    "pause_if_all_down",
    pause="pause_minority",
    stop_processing="pause_minority",
    autoupgrade="autoheal",
)
_HASHING: Final = one_of(
    "sha256",
    "sha512",
    "md5",
    **{f"rabbit_password_hashing_{name}": name for name in ("sha256", "sha512", "md5")},
)
_PORT: Final = integer(0, 65535)
_INT: Final = (1 << 31) - 1          # the largest number that the system takes for an option of a socket


def _tls_keys(prefix: str, group: str) -> tuple[Key, ...]:
    return (
        Key(f"{prefix}.cacertfile", readable_file, f"{group}.cacertfile"),
        Key(f"{prefix}.certfile", readable_file, f"{group}.certfile"),
        Key(f"{prefix}.keyfile", readable_file, f"{group}.keyfile"),
        Key(f"{prefix}.password", text, f"{group}.password"),
        Key(f"{prefix}.verify", one_of("verify_peer", "verify_none"), f"{group}.verify"),
        Key(f"{prefix}.fail_if_no_peer_cert", flag, f"{group}.fail_if_no_peer_cert"),
        Key(f"{prefix}.versions.$n", one_of("tlsv1.3", "tlsv1.2", "tlsv1.1", "tlsv1"), f"{group}.versions", "values"),
        Key(f"{prefix}.ciphers.$n", text, f"{group}.ciphers", "values"),
        Key(f"{prefix}.honor_cipher_order", flag, f"{group}.honor_cipher_order"),
        Key(f"{prefix}.dhfile", readable_file, f"{group}.dhfile"),
    )


KEYS: Final[tuple[Key, ...]] = (
    # Listeners
    Key("listeners.tcp", none, "tcp_listeners"),
    Key("listeners.tcp.$name", listener, "tcp_listeners", "values"),
    Key("listeners.ssl", none, "ssl_listeners"),
    Key("listeners.ssl.$name", listener, "ssl_listeners", "values"),
    Key("tcp_listen_options.backlog", integer(1, _INT), "tcp.backlog"),
    Key("tcp_listen_options.nodelay", flag, "tcp.nodelay"),
    Key("tcp_listen_options.keepalive", flag, "tcp.keepalive"),
    Key("tcp_listen_options.sndbuf", integer(1, _INT), "tcp.sndbuf"),
    Key("tcp_listen_options.recbuf", integer(1, _INT), "tcp.recbuf"),
    Key("tcp_listen_options.linger.on", flag, "tcp.linger"),
    Key("tcp_listen_options.linger.timeout", integer(), "tcp.linger_timeout"),
    Key("proxy_protocol", flag, "proxy_protocol"),
    *_tls_keys("ssl_options", "tls"),
    Key("ssl_handshake_timeout", integer(1), "ssl_handshake_timeout_ms"),
    # Connections
    Key("handshake_timeout", integer_or("infinity", 1), "handshake_timeout_ms"),
    Key("heartbeat", integer(0, 65535), "heartbeat"),
    Key("frame_max", frame_size, "frame_max"),
    Key("initial_frame_max", first_frame_size, "initial_frame_max"),
    Key("channel_max", integer(0, 65535), "channel_max"),
    Key("max_channels_per_connection", integer(0, 65535), "channel_max"),
    Key("connection_max", integer_or("infinity"), "connection_max"),
    Key("max_connections", integer_or("infinity"), "connection_max"),
    Key("channel_max_per_node", integer_or("infinity", 1), "channel_max_per_node"),
    Key("consumer_max_per_channel", integer_or("infinity", 1), "consumer_max_per_channel"),
    Key("vhost_max", integer_or("infinity"), "vhost_max"),
    Key("cluster_queue_limit", integer_or("infinity", 1), "cluster_queue_limit"),
    Key("max_message_size", integer(1, 536870912), "max_message_size"),
    Key("consumer_timeout", integer_or("infinity", 1), "consumer_timeout_ms"),
    Key("channel_tick_interval", integer(1), "channel_tick_interval_ms"),
    # Alarms
    Key("vm_memory_high_watermark", fraction(1), "memory_relative"),
    Key("vm_memory_high_watermark.relative", fraction(1), "memory_relative"),
    Key("vm_memory_high_watermark.absolute", information_unit, "memory_absolute"),
    Key("total_memory_available_override_value", information_unit, "memory_total"),
    Key("memory_monitor_interval", integer(1), "memory_monitor_interval_ms"),
    Key("disk_free_limit", information_unit, "disk_absolute"),
    Key("disk_free_limit.absolute", information_unit, "disk_absolute"),
    Key("disk_free_limit.relative", fraction(), "disk_relative"),
    # Users
    Key("default_vhost", text, "default_vhost"),
    Key("default_user", text, "default_user"),
    Key("default_pass", text, "default_pass"),
    Key("default_user_tags.$tag", flag, "default_user_tags", "names"),
    Key("default_permissions.configure", regular_expression, "default_configure"),
    Key("default_permissions.write", regular_expression, "default_write"),
    Key("default_permissions.read", regular_expression, "default_read"),
    Key("loopback_users", none, "loopback_users"),
    Key("loopback_users.$user", flag, "loopback_users", "names"),
    Key("auth_mechanisms.$n", one_of("PLAIN", "AMQPLAIN", "EXTERNAL"), "auth_mechanisms", "values"),
    Key("auth_backends.$n", auth_backend, "auth_backends", "values"),
    Key("auth_backends.$n.authn", auth_backend, "auth_backends", "values"),
    Key("auth_backends.$n.authz", auth_backend, "auth_backends", "values"),
    Key(
        "ssl_cert_login_from",
        one_of(
            "distinguished_name",
            "common_name",
            "subject_alternative_name",
            subject_alt_name="subject_alternative_name",
        ),
        "ssl_cert_login_from",
    ),
    Key("ssl_cert_login_san_type", one_of("dns", "ip", "email", "uri"), "ssl_cert_login_san_type"),
    Key("ssl_cert_login_san_index", integer(), "ssl_cert_login_san_index"),
    Key("password_hashing_module", _HASHING, "hashing"),
    Key("load_definitions", readable_files, "load_definitions"),
    Key("definitions.local.path", readable_files, "load_definitions"),
    Key("management.load_definitions", readable_files, "load_definitions"),
    Key("definitions.import_backend", definitions_backend, "definitions_backend"),
    # Management
    Key("management.tcp.port", _PORT, "management_port"),
    Key("management.tcp.ip", address, "management_ip"),
    Key("management.listener.port", _PORT, "management_port"),
    Key("management.listener.ip", address, "management_ip"),
    Key("management.ssl.port", _PORT, "management_ssl_port"),
    Key("management.ssl.ip", address, "management_ssl_ip"),
    *_tls_keys("management.ssl", "management_tls"),
    Key("management.path_prefix", text, "management_path_prefix"),
    Key("management.cors.allow_origins", none, "management_cors_origins"),
    Key("management.cors.allow_origins.$n", text, "management_cors_origins", "values"),
    Key("prometheus.tcp.port", _PORT, "prometheus_port"),
    Key("prometheus.tcp.ip", address, "prometheus_ip"),
    Key("prometheus.return_per_object_metrics", flag, "prometheus_per_object"),
    Key("collect_statistics_interval", integer(1), "collect_statistics_interval_ms"),
    # Log
    Key("log.dir", path, "log_dir"),
    Key("log.file", log_file, "log_file"),
    Key("log.file.level", one_of(*_LEVELS), "log_file_level"),
    Key("log.file.formatter", one_of("plaintext", "json"), "log_file_formatter"),
    Key("log.file.rotation.size", integer(), "log_file_rotation_size"),
    Key("log.file.rotation.count", integer(), "log_file_rotation_count"),
    Key("log.console", flag, "log_console"),
    Key("log.console.level", one_of(*_LEVELS), "log_console_level"),
    Key("log.console.formatter", one_of("plaintext", "json"), "log_console_formatter"),
    Key("log.default.level", one_of(*_LEVELS), "log_default_level"),
    # Cluster
    Key("coordination", coordination, "coordination"),
    Key("cluster.advertised_host", text, "advertised_host"),
    Key("cluster.advertised_port", _PORT, "advertised_port"),
    Key("cluster.cookie_file", path, "secret_file"),
    Key("distribution.listener.interface", address, "link_host"),
    Key("distribution.listener.port_range.min", _PORT, "link_port"),
    Key("cluster_name", text, "cluster_name"),
    Key("net_ticktime", integer(1), "net_ticktime"),
    Key("cluster_partition_handling", _PARTITION, "cluster_partition_handling"),
    Key("cluster_partition_handling.pause_if_all_down.recover", one_of("ignore", "autoheal"), "pause_recover"),
    Key("cluster_partition_handling.pause_if_all_down.nodes.$n", text, "pause_nodes", "values"),
    Key("cluster_formation.peer_discovery_backend", text, "peer_discovery_backend"),
    Key("cluster_formation.classic_config.nodes.$n", text, "cluster_nodes", "values"),
    Key("cluster_formation.target_cluster_size_hint", integer(1), "target_cluster_size"),
    Key("cluster_formation.etcd.endpoints.$n", text, "etcd_endpoints", "values"),
    Key("cluster_formation.etcd.key_prefix", text, "etcd_key_prefix"),
    Key("cluster_formation.etcd.username", text, "etcd_username"),
    Key("cluster_formation.etcd.password", text, "etcd_password"),
    # Mirrored queues
    Key("cluster_nodes.disc_copies", names, "disc_copies"),
    Key("disc_copies", names, "disc_copies"),
    Key("mirroring_policy", mirroring_policy, "mirroring_policy"),
    Key("mirroring_policy.pattern", text, "mirroring_policy_pattern"),
    Key("cluster_rebalance", rebalance_trigger, "cluster_rebalance"),
    Key("cluster_rebalance.interval", duration, "cluster_rebalance_interval"),
    Key("cluster_rebalance.strategy", rebalance_strategy, "cluster_rebalance_strategy"),
    Key("sync_interval", period, "sync_interval"),
    Key("default_queue_type", queue_type, "default_queue_type"),
    Key("queue_leader_locator", _LOCATOR, "queue_master_locator"),
    Key("queue_master_locator", _LOCATOR, "queue_master_locator"),
    Key("mirroring_sync_batch_size", integer(1, 1_000_000), "mirroring_sync_batch_size"),
    Key("mirroring_sync_max_throughput", information_unit, "mirroring_sync_max_throughput"),
    Key("mirroring_flow_control", flag, "mirroring_flow_control"),
)

OVERRIDES: Final[tuple[Key, ...]] = (
    Key("node_name", node_name, "node_name"),
    Key("data_dir", path, "data_dir"),
    Key("data_base", path, "data_base"),
    Key("host", address, "host"),
    Key("port", _PORT, "port"),
    Key("http_port", _PORT, "management_port"),
    Key("link_port", _PORT, "link_port"),
    Key("cookie_file", path, "secret_file"),
    Key("advertised_host", text, "advertised_host"),
)

class Unknown(NamedTuple):
    """A key that sets nothing: fatal or not, and the sentence about it."""

    fatal: bool
    text: str


def find(words: tuple[str, ...], *, overrides: bool = False) -> Key | Unknown:
    for key in (*KEYS, *OVERRIDES) if overrides else KEYS:
        if _matches(split_key(key.name), words):
            return key
    return _unknown(words)


def _matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if len(pattern) != len(words):
        return False
    return all(part == word or part.startswith("$") for part, word in zip(pattern, words, strict=True))


def _unknown(words: tuple[str, ...]) -> Unknown:
    name = join_key(words)
    for reason, patterns in NO_EFFECT:
        if is_listed(words, patterns):
            return Unknown(fatal=False, text=f"'{name}' has no effect here: {reason}")
    for reason, patterns in REFUSED:
        if is_listed(words, patterns):
            return Unknown(fatal=True, text=f"'{name}' is not supported: {reason}")
    return Unknown(fatal=True, text=f"unknown key '{name}'{_suggest(words)}")


def _suggest(words: tuple[str, ...]) -> str:
    """The nearest key, with the user's own words where the key takes any word. Those words must not make it look near."""
    own = {join_key(_filled(split_key(key.name), words)): split_key(key.name) for key in KEYS}
    candidates = [name for name, pattern in own.items() if _is_near(pattern, words)]
    near = difflib.get_close_matches(join_key(words), sorted(candidates), n=1, cutoff=0.8)
    return f"; did you mean '{near[0]}'?" if near else ""


def _is_near(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    fixed = [(part, word) for part, word in zip(pattern, words, strict=False) if not part.startswith("$")]
    return all(difflib.SequenceMatcher(None, part, word).ratio() > 0.6 for part, word in fixed)


def _filled(pattern: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        words[i] if part.startswith("$") and i < len(words) else part.removeprefix("$")
        for i, part in enumerate(pattern)
    )
