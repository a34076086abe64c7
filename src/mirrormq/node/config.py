"""The configuration of a node: one immutable record, made once at the start from a file, the environment and options.

Rules:

- Command-line options win over environment variables, which win over the file; `MIRRORMQ_…` wins over `RABBITMQ_…`.
- A wrong key or value stops the start. All problems are reported at once, each with its file and line.
- What the node passed over (a key that means nothing here) is in `notes`, for the log.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mirrormq.node import deadlines
from mirrormq.node.config_format import Listener, Problem, Setting, read_settings, split_key
from mirrormq.node.config_values import Values

ANY_QUEUE: Final = ".*"
DEFAULT_FILE: Final = Path("/etc/mirrormq/mirrormq.conf")

ENVIRONMENT: Final = {
    "RABBITMQ_NODENAME": "node_name",
    "RABBITMQ_NODE_PORT": "port",
    "RABBITMQ_NODE_IP_ADDRESS": "host",
    "RABBITMQ_MNESIA_BASE": "data_base",
    "RABBITMQ_MNESIA_DIR": "data_dir",
    "RABBITMQ_LOG_BASE": "log.dir",
    "RABBITMQ_DEFAULT_USER": "default_user",
    "RABBITMQ_DEFAULT_PASS": "default_pass",
    "RABBITMQ_DEFAULT_VHOST": "default_vhost",
    "MIRRORMQ_NODENAME": "node_name",
    "MIRRORMQ_NODE_PORT": "port",
    "MIRRORMQ_NODE_IP_ADDRESS": "host",
    "MIRRORMQ_HTTP_PORT": "http_port",
    "MIRRORMQ_DATA_BASE": "data_base",
    "MIRRORMQ_DATA_DIR": "data_dir",
    "MIRRORMQ_LOG_BASE": "log.dir",
    "MIRRORMQ_DEFAULT_USER": "default_user",
    "MIRRORMQ_DEFAULT_PASS": "default_pass",
    "MIRRORMQ_DEFAULT_VHOST": "default_vhost",
    "RABBITMQ_DIST_PORT": "link_port",
    "MIRRORMQ_DIST_PORT": "link_port",
    "MIRRORMQ_COORDINATION": "coordination",
    "MIRRORMQ_COOKIE_FILE": "cookie_file",
}
"""Environment variables and the key or option that each stands for; a later one wins over an earlier one."""

_FILE_VARIABLES: Final = ("MIRRORMQ_CONFIG_FILE", "RABBITMQ_CONFIG_FILE")

IDLE_VARIABLES: Final = {
    "RABBITMQ_ADVANCED_CONFIG_FILE": "Erlang's format is not read; write it as 'key = value' lines in the configuration file",
    "RABBITMQ_CONF_ENV_FILE": "set the variables themselves",
    "RABBITMQ_ERLANG_COOKIE": "give the cluster's secret as a file: MIRRORMQ_COOKIE_FILE",
    "RABBITMQ_LOGS": "use RABBITMQ_LOG_BASE, and 'log.file' in the configuration file",
    "RABBITMQ_USE_LONGNAME": "a node's name may have any host in it",
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "there is no Erlang runtime",
    "RABBITMQ_ENABLED_PLUGINS_FILE": "there are no plugins",
    "RABBITMQ_DEFAULT_USER_FILE": "use RABBITMQ_DEFAULT_USER",
    "RABBITMQ_DEFAULT_PASS_FILE": "use RABBITMQ_DEFAULT_PASS",
    "RABBITMQ_VM_MEMORY_HIGH_WATERMARK": "use 'vm_memory_high_watermark' in the configuration file",
}
"""RabbitMQ's variables that set nothing here, each with what to do; the log says so."""


class ConfigError(Exception):
    """The configuration is wrong; the text is one line for each problem."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems: Final = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    cacertfile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    password: str | None = field(default=None, repr=False)
    verify: str = "verify_none"
    fail_if_no_peer_cert: bool = False
    versions: tuple[str, ...] = ("tlsv1.3", "tlsv1.2")
    ciphers: tuple[str, ...] = ()
    honor_cipher_order: bool = True
    dhfile: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpOptions:
    backlog: int = 128
    nodelay: bool = True
    keepalive: bool = False
    sndbuf: int | None = None
    recbuf: int | None = None
    linger: bool = True
    linger_timeout: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Fields carry the names of RabbitMQ's keys, some shortened; times are seconds unless the name ends in `_ms`."""

    node_name: str
    data_dir: Path
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    tcp_listeners: tuple[Listener, ...] = (Listener("", 5672),)
    ssl_listeners: tuple[Listener, ...] = ()
    tcp: TcpOptions = TcpOptions()
    tls: TlsOptions = TlsOptions()
    proxy_protocol: bool = False
    ssl_handshake_timeout_ms: int = int(deadlines.TLS_HANDSHAKE * 1000)

    handshake_timeout_ms: int | None = int(deadlines.HANDSHAKE * 1000)
    heartbeat: int = deadlines.HEARTBEAT
    frame_max: int = 131_072
    initial_frame_max: int = 4096
    channel_max: int = 2047
    connection_max: int | None = None
    channel_max_per_node: int | None = None
    consumer_max_per_channel: int | None = None
    vhost_max: int | None = None
    cluster_queue_limit: int | None = None
    max_message_size: int = 134_217_728
    consumer_timeout_ms: int | None = int(deadlines.CONSUMER_ACK * 1000)
    channel_tick_interval_ms: int = int(deadlines.LOOK_FOR_OVERDUE * 1000)

    memory_relative: float = 0.4
    memory_absolute: int | None = None
    memory_total: int | None = None
    memory_monitor_interval_ms: int = int(deadlines.SAMPLE_MEMORY * 1000)
    disk_absolute: int | None = None
    disk_relative: float | None = None

    default_vhost: str = "/"
    default_user: str = "guest"
    default_pass: str = field(default="guest", repr=False)
    default_user_tags: tuple[str, ...] = ("administrator",)
    default_configure: str = ".*"
    default_write: str = ".*"
    default_read: str = ".*"
    loopback_users: tuple[str, ...] = ("guest",)
    auth_mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    auth_backends: tuple[str, ...] = ("internal",)
    ssl_cert_login_from: str = "distinguished_name"
    ssl_cert_login_san_type: str = "dns"
    ssl_cert_login_san_index: int = 0
    hashing: str = "sha256"
    load_definitions: Path | None = None
    definitions_backend: str = "local_filesystem"

    management_port: int | None = 15_672
    management_ip: str = ""
    management_ssl_port: int | None = None
    management_ssl_ip: str = ""
    management_tls: TlsOptions = TlsOptions()
    management_path_prefix: str = ""
    management_cors_origins: tuple[str, ...] = ()
    collect_statistics_interval_ms: int = 5000

    prometheus_port: int | None = None
    prometheus_ip: str = ""
    prometheus_per_object: bool = False
    log_dir: Path | None = None
    log_file: str | None = None
    log_file_level: str = ""                # none given: all that log_default_level allows, or info
    log_file_formatter: str = "plaintext"
    log_file_rotation_size: int = 0
    log_file_rotation_count: int = 0
    log_console: bool = True
    log_console_level: str = ""
    log_console_formatter: str = "plaintext"
    log_default_level: str = ""

    coordination: str = ""
    link_host: str | None = None            # None, and no advertised host: as the store that the node has asks for it
    link_port: int = 25_672
    link_port_is_fixed: bool = False        # if it was only guessed, any other free port will do
    advertised_host: str = ""
    advertised_port: int = 0                # where others reach the link port, if not at its own number
    secret_file: Path | None = None
    cluster_name: str = ""
    net_ticktime: int = 60
    cluster_partition_handling: str = "pause_minority"
    pause_recover: str = ""
    pause_nodes: tuple[str, ...] = ()
    peer_discovery_backend: str = "classic_config"
    cluster_nodes: tuple[str, ...] = ()
    target_cluster_size: int = 1
    etcd_endpoints: tuple[str, ...] = ()
    etcd_key_prefix: str = ""
    etcd_username: str = ""
    etcd_password: str = field(default="", repr=False)

    mirrored_queues: tuple[str, ...] = ()
    mirror_nodes: tuple[str, ...] = ()
    mirroring_policy: Mapping[str, object] = field(default_factory=dict)
    mirroring_policy_pattern: str = ANY_QUEUE
    cluster_rebalance: str = "on_demand"
    cluster_rebalance_interval: float = 60.0
    cluster_rebalance_strategy: str = "queues"
    sync_interval: float = 0.0
    queue_master_locator: str = "client-local"
    default_queue_type: str = "classic"
    mirroring_sync_batch_size: int = 4096
    mirroring_sync_max_throughput: int = 0
    mirroring_flow_control: bool = True


def load_config(file: Path | None, env: Mapping[str, str], options: Mapping[str, object]) -> NodeConfig:
    """Reads everything, or raises ConfigError with everything that is wrong.

    `options` are those given on the command line: node_name, data_dir, host, port, http_port, or any key of the file by
    its name; None means "not given".
    """
    values = Values()
    files = _files(file, env)
    settings = [setting for path in files for setting in _read(path, values.problems)]
    settings += _from_environment(env)
    settings += _from_options(options)
    for setting in {setting.key: setting for setting in settings}.values():
        values.add(setting)
    fields = _fields(values, env)
    notes = [*values.notes, *_notes_on(env), *_settle(fields)]
    config = NodeConfig(**fields, files=files, notes=tuple(notes))
    problems = values.problems + [Problem(values.where_of(key), text) for key, text in contradictions(config)]
    if problems:
        raise ConfigError(problems)
    return config


def _files(file: Path | None, env: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to read, in order; a directory stands for its `.conf` files, a name may lack its `.conf`."""
    given = file or next((Path(env[name]) for name in _FILE_VARIABLES if env.get(name)), None)
    more = env.get("RABBITMQ_CONFIG_FILES") if file is None else None
    if given is None and not more:
        return (DEFAULT_FILE,) if DEFAULT_FILE.exists() else ()
    found = _files_at(Path(given)) if given else ()
    return found + _files_like(Path(more)) if more else found


def _files_like(given: Path) -> tuple[Path, ...]:
    """A directory, or a pattern such as `conf.d/*.conf`: RabbitMQ takes both."""
    if "*" not in given.name:
        return _files_at(given)
    return tuple(sorted(path for path in given.parent.glob(given.name) if path.is_file()))


def _files_at(given: Path) -> tuple[Path, ...]:
    if given.is_dir():
        return tuple(sorted(given.glob("*.conf")))
    with_suffix = given.with_name(given.name + ".conf")
    return (with_suffix,) if with_suffix.exists() and not given.exists() else (given,)


def _read(path: Path, problems: list[Problem]) -> list[Setting]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        problems.append(Problem(str(path), f"this configuration file cannot be read: {error.strerror}"))
        return []
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(Problem(f"{path}:{line}", "this line is not UTF-8; save the file as UTF-8"))
        return []
    if re.match(r"(\s|%.*\n)*\[", text):
        problems.append(Problem(str(path), "this is Erlang's format; write it as 'key = value' lines"))
        return []
    settings, unreadable = read_settings(text, str(path))
    problems += unreadable
    return settings


def _from_environment(env: Mapping[str, str]) -> list[Setting]:
    return [
        Setting(f"environment variable {name}", split_key(key), env[name], overrides=True)
        for name, key in ENVIRONMENT.items()
        if env.get(name)
    ]


def _notes_on(env: Mapping[str, str]) -> list[str]:
    set_idly = [(name, advice) for name, advice in IDLE_VARIABLES.items() if env.get(name)]
    return [f"environment variable {name} has no effect here: {advice}" for name, advice in set_idly]


def _settle(fields: dict[str, Any]) -> Iterator[str]:
    """Settles what is set in two ways, as RabbitMQ does, with a sentence for each that does not count."""
    for what, key in (("memory", "vm_memory_high_watermark"), ("disk", "disk_free_limit")):
        if f"{what}_relative" in fields and fields.pop(f"{what}_absolute", None) is not None:
            yield f"'{key}.absolute' has no effect here: '{key}.relative' is set too, and counts"
    if fields.get("cluster_nodes") and not fields.get("coordination"):
        yield ("'cluster_formation.classic_config.nodes' has no effect here: "
               "nodes form a cluster by a 'coordination' that they share, or by 'mirrormqctl join_cluster'")
    if fields.get("mirror_nodes") and "ha-mode" in fields.get("mirroring_policy", {}):
        names = ", ".join(fields["mirror_nodes"])
        yield f"the nodes of 'disc_copies' ({names}) have no effect here: 'mirroring_policy' says where mirrors are, and counts"


def _from_options(options: Mapping[str, object]) -> list[Setting]:
    return [
        Setting(f"option --{name.replace('_', '-')}", split_key(name), str(value), overrides=True)
        for name, value in options.items()
        if value is not None
    ]


def _fields(values: Values, env: Mapping[str, str]) -> dict[str, Any]:
    """What the keys have set, as fields of NodeConfig."""
    fields = values.fields()
    for group, record in (("tcp", TcpOptions), ("tls", TlsOptions), ("management_tls", TlsOptions)):
        if group in fields:
            fields[group] = record(**fields[group])
    copies: tuple[str, ...] = fields.pop("disc_copies", ())
    fields["mirror_nodes"] = tuple(name for name in copies if "@" in name)
    fields["mirrored_queues"] = tuple(name for name in copies if "@" not in name)
    if "management_ssl_port" in fields:
        fields.setdefault("management_port", None)
    _set_listeners(fields)
    _set_identity(fields, env)
    _set_cluster(fields)
    return fields


def _set_listeners(fields: dict[str, Any]) -> None:
    """`host` and `port` given from outside replace the addresses of the file."""
    host, port = fields.pop("host", None), fields.pop("port", None)
    listeners: tuple[Listener, ...] = fields.get("tcp_listeners", (Listener("", 5672),))
    if port is not None:
        only = listeners[0].host if len(listeners) == 1 else ""
        fields["tcp_listeners"] = (Listener(host or only, port),)
    elif host is not None:
        fields["tcp_listeners"] = tuple(Listener(host, listener.port) for listener in listeners)


def _set_identity(fields: dict[str, Any], env: Mapping[str, str]) -> None:
    name = fields.get("node_name", "rabbit")
    if "@" not in name:
        name = f"{name}@{socket.gethostname().split('.')[0]}"
    fields["node_name"] = name
    base = fields.pop("data_base", None) or _default_base(env)
    fields.setdefault("data_dir", base / name)


def _set_cluster(fields: dict[str, Any]) -> None:
    """Links listen 20,000 above AMQP, as RabbitMQ's do."""
    listeners: tuple[Listener, ...] = fields.get("tcp_listeners", (Listener("", 5672),))
    port = listeners[0].port if listeners else 5672
    fields["link_port_is_fixed"] = "link_port" in fields
    fields.setdefault("link_port", port + 20_000 if 0 < port <= 45_535 else 0)
    endpoints: tuple[str, ...] = fields.get("etcd_endpoints", ())
    if endpoints and fields.get("peer_discovery_backend", "").endswith("etcd"):
        named = [endpoint if "://" in endpoint else f"http://{endpoint}" for endpoint in endpoints]
        prefix = fields.get("etcd_key_prefix", "")
        fields.setdefault("coordination", "etcd:" + ",".join(named) + (f"?namespace={quote(prefix, safe='')}" if prefix else ""))


def _default_base(env: Mapping[str, str]) -> Path:
    if env.get("XDG_DATA_HOME"):
        return Path(env["XDG_DATA_HOME"]).absolute() / "mirrormq"
    return Path(env["HOME"]).absolute() / ".local/share/mirrormq" if env.get("HOME") else Path("/var/lib/mirrormq")


def contradictions(config: NodeConfig) -> Iterator[tuple[str, str]]:
    """Keys whose values cannot stand together, each with the sentence that says why."""
    if config.ssl_listeners and config.tls.certfile is None:
        yield "ssl_listeners", "a TLS listener needs 'ssl_options.certfile'"
    if config.management_ssl_port is not None and config.management_tls.certfile is None:
        yield "management_ssl_port", "a TLS listener needs 'management.ssl.certfile'"
    for group, prefix in (("tls", "ssl_options"), ("management_tls", "management.ssl")):
        tls: TlsOptions = getattr(config, group)
        if tls.verify == "verify_peer" and tls.cacertfile is None:
            yield f"{group}.verify", f"'verify_peer' needs '{prefix}.cacertfile'"
        if tls.fail_if_no_peer_cert and tls.verify != "verify_peer":
            yield f"{group}.fail_if_no_peer_cert", f"this needs '{prefix}.verify = verify_peer'"
    if config.mirrored_queues and config.mirroring_policy_pattern != ANY_QUEUE:
        yield ("mirroring_policy_pattern", "'disc_copies' names the queues to mirror, and so does 'mirroring_policy.pattern': "
               "keep one of them; a pattern such as '^(orders|invoices)$' names queues too")
    if config.cluster_partition_handling == "pause_if_all_down" and not (config.pause_nodes and config.pause_recover):
        yield (
            "cluster_partition_handling",
            "'pause_if_all_down' needs 'cluster_partition_handling.pause_if_all_down.recover' and '….nodes.1'",
        )
