"""Files written for RabbitMQ, and what their writers get wrong: nothing is passed over in silence."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrormq.cli.server import server
from mirrormq.cluster.coordination.opening import parse_etcd
from mirrormq.node.config import ConfigError, NodeConfig, load_config
from mirrormq.node.logs import handlers_of
from mirrormq.node.mirror_keys import definition, pattern


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rabbitmq.conf"


def load(file: Path, text: str | bytes, **env: str) -> NodeConfig:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(file, env, {})


def problem(file: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, text)
    return str(caught.value).replace(str(file), "FILE")


@pytest.mark.parametrize("value", ["encrypted:uL+A4nxXdgaq", "'encrypted:uL+A4nxXdgaq'"])
def test_an_encrypted_password_does_not_become_the_password(file: Path, value: str) -> None:
    assert problem(file, f"default_pass = {value}\n").startswith("FILE:1: encrypted values cannot be read")


@pytest.mark.parametrize("value", ["'open", "'closed' too early"])
def test_a_quote_is_closed_at_the_end(file: Path, value: str) -> None:
    assert problem(file, f"default_pass = {value}\n") == \
        "FILE:1: a quote that is opened must be closed at the end of the value"


def test_an_editor_may_mark_the_file_as_utf_8(file: Path) -> None:
    assert load(file, b"\xef\xbb\xbf# from Windows\r\nheartbeat = 10\r\n").heartbeat == 10


def test_a_line_in_another_encoding_is_named(file: Path) -> None:
    assert problem(file, "# ü\ndefault_pass = caf".encode() + b"\xe9\n") == \
        "FILE:2: this line is not UTF-8; save the file as UTF-8"


@pytest.mark.parametrize("key", ["management.some_encryption_secret", "shovel_plugin.delete_after_duration_floor"])
def test_a_suggestion_is_not_made_of_the_users_own_words(file: Path, key: str) -> None:
    assert problem(file, f"{key} = 1\n") == f"FILE:1: unknown key '{key}'"


def test_where_both_kinds_of_limit_are_set_the_relative_one_counts_as_in_rabbitmq(file: Path) -> None:
    config = load(file, "vm_memory_high_watermark.absolute = 2GB\nvm_memory_high_watermark.relative = 0.6\n"
                        "disk_free_limit.relative = 2.0\ndisk_free_limit.absolute = 5GB\n")
    assert (config.memory_relative, config.memory_absolute) == (0.6, None)
    assert (config.disk_relative, config.disk_absolute) == (2.0, None)
    assert config.notes == (
        "'vm_memory_high_watermark.absolute' has no effect here: 'vm_memory_high_watermark.relative' is set too, and counts",
        "'disk_free_limit.absolute' has no effect here: 'disk_free_limit.relative' is set too, and counts",
    )


def test_a_list_of_nodes_does_not_make_a_cluster_and_the_log_says_so(file: Path) -> None:
    nodes = "cluster_formation.classic_config.nodes.1 = rabbit@a\n"
    (note,) = load(file, nodes).notes
    assert "nodes form a cluster by a 'coordination' that they share" in note
    assert load(file, nodes + "coordination = etcd:http://host:2379\n").notes == ()


def test_discovery_by_etcd_names_the_store_and_its_prefix_the_namespace(file: Path) -> None:
    etcd = "cluster_formation.peer_discovery_backend = etcd\ncluster_formation.etcd.endpoints.1 = host:2379\n"
    assert load(file, etcd).coordination == "etcd:http://host:2379"
    config = load(file, etcd + "cluster_formation.etcd.key_prefix = /shop & co\n")
    assert parse_etcd(config.coordination.removeprefix("etcd:"))[1] == {"namespace": "/shop & co"}


def test_the_queue_type_may_be_named_if_it_is_the_one_that_there_is(file: Path) -> None:
    assert load(file, "default_queue_type = classic\n").default_queue_type == "classic"
    assert "the only queue type that is supported" in problem(file, "default_queue_type = quorum\n")


def test_default_permissions_are_patterns(file: Path) -> None:
    assert load(file, "default_permissions.configure = \n").default_configure == ""
    assert problem(file, "default_permissions.write = [\n").startswith("FILE:1: 'default_permissions.write' cannot be '['")


@pytest.mark.parametrize("key", ["backlog", "sndbuf", "recbuf"])
def test_an_option_of_a_socket_fits_into_the_system(file: Path, key: str) -> None:
    assert load(file, f"tcp_listen_options.{key} = 196608\n").tcp is not None
    assert problem(file, f"tcp_listen_options.{key} = 99999999999\n").endswith("it is not a whole number from 1 to 2147483647")


def test_a_folder_of_a_user_who_is_not_there_is_told(file: Path) -> None:
    assert problem(file, "log.dir = ~nosuchuser/log\n") == \
        "FILE:1: 'log.dir' cannot be '~nosuchuser/log': it is not a path: there is no such user"


@pytest.mark.parametrize("key", ["load_definitions", "definitions.local.path", "management.load_definitions"])
def test_definitions_may_be_a_folder_of_files(file: Path, key: str, tmp_path: Path) -> None:
    assert load(file, f"{key} = {tmp_path}\n").load_definitions == tmp_path


def test_a_frame_size_fits_into_the_protocol(file: Path) -> None:
    assert "less than 4 GiB" in problem(file, "frame_max = 4294967296\n")


def test_a_file_and_a_folder_are_both_read(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "10.conf").write_text("heartbeat = 20\n")
    file.write_text("heartbeat = 10\nchannel_max = 10\n")
    env = {"RABBITMQ_CONFIG_FILE": str(tmp_path / "rabbitmq"), "RABBITMQ_CONFIG_FILES": str(folder)}
    config = load_config(None, env, {})
    assert (config.heartbeat, config.channel_max) == (20, 10)
    assert load_config(file, env, {}).files == (file,)
    by_pattern = load_config(None, {"RABBITMQ_CONFIG_FILES": str(folder / "*.conf")}, {})
    assert by_pattern.files == (folder / "10.conf",)


def test_a_variable_of_rabbitmq_that_sets_nothing_is_named(file: Path) -> None:
    (note,) = load(file, "", RABBITMQ_ERLANG_COOKIE="secret").notes
    assert note == ("environment variable RABBITMQ_ERLANG_COOKIE has no effect here: "
                    "give the cluster's secret as a file: MIRRORMQ_COOKIE_FILE")


@pytest.mark.parametrize("line", [
    "max_connections = 5", "prometheus.tcp.idle_timeout = 5", "prometheus.path = /metrics", "log.user.level = info",
    "cluster_tags.region = us-east-1", "node_tags.role = ingress", "management.cors.allow_origins = none",
    "permit_deprecated_features.a_deprecated_feature = true", "cluster_formation.proxy.http_proxy = 10.0.0.1:80",
    "log.connection.level = error", "management.headers.referrer_policy = no-referrer",
])  # fmt: skip
def test_keys_of_rabbitmqs_examples_are_accepted(file: Path, line: str) -> None:
    assert load(file, line + "\n")


@pytest.mark.parametrize(("text", "level"), [
    ("", logging.INFO), ("log.console.level = debug", logging.DEBUG), ("log.default.level = debug", logging.DEBUG),
    ("log.default.level = error", logging.ERROR), ("log.default.level = error\nlog.console.level = info", logging.ERROR),
    ("log.console.level = notice", logging.WARNING), ("log.console.level = emergency", logging.CRITICAL + 1),
])  # fmt: skip
def test_levels_of_the_log_count(file: Path, text: str, level: int) -> None:
    assert [handler.level for handler in handlers_of(load(file, text))] == [level]


def test_a_log_file_that_cannot_be_written_is_told(file: Path, tmp_path: Path) -> None:
    file.write_text(f"log.dir = {file}/inside\nlog.file = node.log\n")
    result = CliRunner().invoke(server, ["--config", str(file), "--data-dir", str(tmp_path / "data")])
    assert str(result.exception) == f"mirrormq cannot start:\nlog.file: {file}/inside cannot be written (Not a directory)"


def test_disc_copies_and_a_pattern_are_not_both_taken(file: Path) -> None:
    text = "mirroring_policy = all\nmirroring_policy.pattern = ^x\ndisc_copies = orders\n"
    assert problem(file, text) == (
        "FILE:2: 'disc_copies' names the queues to mirror, and so does 'mirroring_policy.pattern': keep one of them; "
        "a pattern such as '^(orders|invoices)$' names queues too"
    )


def test_disc_copies_of_nodes_and_a_pattern_go_together(file: Path) -> None:
    config = load(file, "mirroring_policy.pattern = ^x\ndisc_copies = rabbit@a\n")
    assert (definition(config), pattern(config)) == ({"ha-mode": "nodes", "ha-params": ["rabbit@a"]}, "^x")


def test_nodes_that_the_mirroring_policy_overrules_are_named(file: Path) -> None:
    config = load(file, "mirroring_policy = exactly:2\ndisc_copies = rabbit@a\n")
    assert definition(config) == {"ha-mode": "exactly", "ha-params": 2}
    assert config.notes == ("the nodes of 'disc_copies' (rabbit@a) have no effect here: "
                            "'mirroring_policy' says where mirrors are, and counts",)


def test_a_mirroring_policy_without_a_mode_adds_to_disc_copies(file: Path) -> None:
    config = load(file, 'mirroring_policy = {"ha-sync-mode": "automatic"}\ndisc_copies = orders\n')
    assert definition(config) == {"ha-mode": "all", "ha-sync-mode": "automatic"}
