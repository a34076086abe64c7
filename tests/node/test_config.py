"""The configuration: RabbitMQ's files are read as RabbitMQ reads them, and a mistake stops the start with its line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.node.config import ConfigError, NodeConfig, load_config
from mirrormq.node.config_foreign import NO_EFFECT, REFUSED
from mirrormq.node.config_format import Listener, bytesize, duration, information_unit, listener, read_settings
from mirrormq.node.config_schema import KEYS, Key, find

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def writer(text: str) -> Path:
        path = tmp_path / "node.conf"
        path.write_text(text, encoding="utf-8")
        return path

    return writer


def problems(path: Path, **options: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(path, {}, options)
    return [str(problem).replace(str(path), "FILE") for problem in caught.value.problems]


def test_without_a_file_the_defaults_are_those_of_rabbitmq() -> None:
    config = load_config(None, {"HOME": "/home/u"}, {"node_name": "rabbit@here"})
    assert config.tcp_listeners == (Listener("", 5672),)
    assert (config.heartbeat, config.frame_max, config.channel_max) == (60, 131072, 2047)
    assert (config.default_user, config.default_vhost, config.loopback_users) == ("guest", "/", ("guest",))
    assert (config.memory_relative, config.max_message_size) == (0.4, 128 * 1024 * 1024)
    assert config.data_dir == Path("/home/u/.local/share/mirrormq/rabbit@here")


def test_a_file_of_rabbitmq_is_read(write: Write) -> None:
    config = load_config(
        write(
            """
            # comment
            listeners.tcp.local = 127.0.0.1:5673
            listeners.tcp.six = ::1:5674   # trailing comment
            heartbeat = 30
            frame_max = 256KB
            channel_max=100
            default_user = alice
            default_pass = 'pa#ss word'
            default_user_tags.monitoring = true
            default_user_tags.administrator = false
            loopback_users.guest = false
            auth_mechanisms.1 = PLAIN
            auth_mechanisms.2 = EXTERNAL
            vm_memory_high_watermark.absolute = 2GiB
            disk_free_limit.relative = 1.5
            handshake_timeout = infinity
            connection_max = infinity
            tcp_listen_options.backlog = 4096
            log.file = broker.log
            log.default.level = error
            management.tcp.port = 15673
            consumer_timeout = 3600000
            channel_tick_interval = 60000
            """
        ),
        {},
        {},
    )
    assert config.tcp_listeners == (Listener("127.0.0.1", 5673), Listener("::1", 5674))
    assert (config.heartbeat, config.frame_max, config.channel_max) == (30, 262144, 100)
    assert (config.default_user, config.default_pass) == ("alice", "pa#ss word")
    assert config.default_user_tags == ("monitoring",)
    assert config.loopback_users == ()
    assert config.auth_mechanisms == ("PLAIN", "EXTERNAL")
    assert (config.memory_absolute, config.disk_relative) == (2 << 30, 1.5)
    assert (config.handshake_timeout_ms, config.connection_max) == (None, None)
    assert config.tcp.backlog == 4096
    assert (config.log_file, config.log_default_level) == ("broker.log", "error")
    assert (config.management_port, config.consumer_timeout_ms, config.channel_tick_interval_ms) == (15673, 3_600_000, 60_000)


def test_none_turns_a_list_off_wherever_it_stands(write: Write) -> None:
    config = load_config(write("listeners.tcp = none\nlisteners.tcp.1 = 5672\nloopback_users = none\n"), {}, {})
    assert (config.tcp_listeners, config.loopback_users) == ((), ())


def test_the_last_of_two_settings_counts(write: Write) -> None:
    assert load_config(write("heartbeat = 10\nheartbeat = 20\n"), {}, {}).heartbeat == 20


def test_the_forms_of_the_tutorials_are_accepted(write: Write) -> None:
    config = load_config(
        write(
            """
            cluster_nodes.disc_copies = rabbit@host, orders, invoices
            cluster_partition_handling = autoupgrade
            cluster_rebalance = run
            vm_memory_high_watermark = 0.6
            sync_interval = 500ms
            mirroring_policy = {"ha-mode": "exactly", "ha-params": 2}
            """
        ),
        {},
        {},
    )
    assert (config.mirror_nodes, config.mirrored_queues) == (("rabbit@host",), ("orders", "invoices"))
    assert (config.cluster_partition_handling, config.cluster_rebalance) == ("autoheal", "timer")
    assert (config.memory_relative, config.sync_interval) == (0.6, 0.5)
    assert config.mirroring_policy == {"ha-mode": "exactly", "ha-params": 2}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("all", {"ha-mode": "all"}),
        ("exactly:3", {"ha-mode": "exactly", "ha-params": 3}),
        ("nodes:rabbit@a,rabbit@b", {"ha-mode": "nodes", "ha-params": ["rabbit@a", "rabbit@b"]}),
    ],
)
def test_a_mirroring_policy_may_be_short(write: Write, text: str, meaning: dict[str, object]) -> None:
    assert load_config(write(f"mirroring_policy = {text}\n"), {}, {}).mirroring_policy == meaning


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("pause", "pause_minority"),
        ("stop_processing", "pause_minority"),
        ("ignore", "ignore"),
        ("autoheal", "autoheal"),
    ],
)
def test_partition_modes_have_aliases(write: Write, word: str, meaning: str) -> None:
    config = load_config(write(f"cluster_partition_handling = {word}\n"), {}, {})
    assert config.cluster_partition_handling == meaning


@pytest.mark.parametrize("word", ["on-demand", "on_demand", "timer", "appoint", "off"])
def test_rebalance_triggers_may_be_spelt_with_a_dash(write: Write, word: str) -> None:
    assert load_config(write(f"cluster_rebalance = {word}\n"), {}, {}).cluster_rebalance == word.replace("-", "_")


@pytest.mark.parametrize(("value", "seconds"), [("0", 0.0), ("10", 10.0), ("500ms", 0.5)])
def test_the_interval_of_asynchronous_mirrors_may_be_none(write: Write, value: str, seconds: float) -> None:
    assert load_config(write(""), {}, {}).sync_interval == 0.0
    assert load_config(write(f"sync_interval = {value}\n"), {}, {}).sync_interval == seconds


@pytest.mark.parametrize("word", ["round_robin", "round-robin"])
def test_the_strategy_of_a_rebalance_may_be_spelt_with_a_dash(write: Write, word: str) -> None:
    assert load_config(write(f"cluster_rebalance.strategy = {word}\n"), {}, {}).cluster_rebalance_strategy == "round_robin"


def test_disc_copies_may_be_empty(write: Write) -> None:
    assert load_config(write("disc_copies =\n"), {}, {}).mirrored_queues == ()


def test_every_mistake_is_reported_with_its_line(write: Write) -> None:
    path = write("heartbeat = soon\n\nlistners.tcp.1 = 5672\nno equals sign\nframe_max = 100\n")
    assert problems(path, port="x") == [
        "FILE:4: expected 'key = value', found 'no equals sign'",
        "FILE:1: 'heartbeat' cannot be 'soon': it is not a whole number from 0 to 65535",
        "FILE:3: unknown key 'listners.tcp.1'; did you mean 'listeners.tcp.1'?",
        "FILE:5: 'frame_max' cannot be '100': it is not 0 (no limit) or at least 4096 bytes, "
        "the smallest frame that AMQP allows",
        "option --port: 'port' cannot be 'x': it is not a whole number from 0 to 65535",
    ]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("hartbeat", "heartbeat"),
        ("ssl_options.certfil", "ssl_options.certfile"),
        ("tcp_listen_options.backlogg", "tcp_listen_options.backlog"),
        ("vm_memory_high_watermark.relativ", "vm_memory_high_watermark.relative"),
        ("log.defalt.level", "log.default.level"),
        ("default_user_tag.administrator", "default_user_tags.administrator"),
    ],
)
def test_a_misspelt_key_gets_a_suggestion(write: Write, wrong: str, right: str) -> None:
    assert problems(write(f"{wrong} = 1\n")) == [f"FILE:1: unknown key '{wrong}'; did you mean '{right}'?"]


def test_a_key_like_no_other_gets_no_suggestion(write: Write) -> None:
    assert problems(write("xyzzy = 1\n")) == ["FILE:1: unknown key 'xyzzy'"]


def test_a_hash_sign_inside_a_value_is_not_cut_off_silently(write: Write) -> None:
    assert problems(write("default_pass = secret#1\n")) == [
        "FILE:1: '#' begins a comment: put a space before it or quote it"
    ]


def test_a_key_without_meaning_here_is_noted_and_not_fatal(write: Write) -> None:
    path = write("heartbeat = 5\nhipe_compile = true\nraft.wal_max_size_bytes = 1\nnum_acceptors.tcp = 10\n")
    notes = [note.replace(str(path), "FILE") for note in load_config(path, {}, {}).notes]
    assert notes == [
        "FILE:2: 'hipe_compile' has no effect here: there is no Erlang runtime",
        "FILE:3: 'raft.wal_max_size_bytes' has no effect here: every queue is kept in this broker's own log",
        "FILE:4: 'num_acceptors.tcp' has no effect here: there is no Erlang runtime",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "auth_backends.1 = ldap",
        "auth_ldap.servers.1 = x",
        "default_users.bob.password = x",
        "credential_validator.min_length = 12",
        "ssl_options.crl_check = peer",
        "definitions.https.url = https://example.test/",
    ],
)
def test_what_would_be_unsafe_to_ignore_stops_the_start(write: Write, line: str) -> None:
    (problem,) = problems(write(line + "\n"))
    assert "support" in problem


def test_options_win_over_the_environment_which_wins_over_the_file(write: Write) -> None:
    path = write("default_user = file\ndefault_pass = file\ndefault_vhost = file\nlisteners.tcp.1 = 127.0.0.1:1000\n")
    env = {
        "RABBITMQ_DEFAULT_USER": "environment",
        "RABBITMQ_DEFAULT_PASS": "environment",
        "MIRRORMQ_DEFAULT_PASS": "ours",
        "RABBITMQ_NODE_PORT": "2000",
        "RABBITMQ_NODENAME": "rabbit@environment",
    }
    config = load_config(path, env, {"default_user": "option", "port": 3000, "http_port": None})
    assert (config.default_user, config.default_pass, config.default_vhost) == ("option", "ours", "file")
    assert config.tcp_listeners == (Listener("127.0.0.1", 3000),)
    assert (config.node_name, config.management_port) == ("rabbit@environment", 15672)


def test_the_address_of_the_environment_replaces_that_of_the_file(write: Write) -> None:
    config = load_config(write("listeners.tcp.1 = 1000\n"), {"RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1"}, {})
    assert config.tcp_listeners == (Listener("127.0.0.1", 1000),)


def test_a_wrong_environment_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="environment variable RABBITMQ_NODE_PORT: 'port' cannot be 'amqp'"):
        load_config(None, {"RABBITMQ_NODE_PORT": "amqp"}, {})


def test_the_data_folder_is_that_of_the_environment() -> None:
    env = {"RABBITMQ_MNESIA_BASE": "/base", "RABBITMQ_NODENAME": "rabbit@h"}
    assert load_config(None, env, {}).data_dir == Path("/base/rabbit@h")
    assert load_config(None, env | {"RABBITMQ_MNESIA_DIR": "/dir"}, {}).data_dir == Path("/dir")
    assert load_config(None, env, {"data_dir": Path("/option")}).data_dir == Path("/option")


def test_a_node_name_without_a_host_is_on_this_host() -> None:
    name, _, host = load_config(None, {}, {"node_name": "red"}).node_name.partition("@")
    assert name == "red"
    assert host


def test_the_file_may_come_from_the_environment_without_its_suffix(write: Write) -> None:
    path = write("heartbeat = 7\n")
    assert load_config(None, {"RABBITMQ_CONFIG_FILE": str(path.with_suffix(""))}, {}).heartbeat == 7


def test_a_folder_of_files_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "10-a.conf").write_text("heartbeat = 10\nchannel_max = 10\n")
    (tmp_path / "20-b.conf").write_text("heartbeat = 20\n")
    (tmp_path / "README").write_text("not configuration\n")
    config = load_config(tmp_path, {}, {})
    assert (config.heartbeat, config.channel_max) == (20, 10)


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "missing.conf", {}, {})


def test_the_old_format_is_recognised(write: Write) -> None:
    assert problems(write("%% old\n[{rabbit, [{heartbeat, 5}]}].\n")) == [
        "FILE: this is Erlang's format; write it as 'key = value' lines"
    ]


def test_contradictions_are_found(write: Write) -> None:
    path = write(
        "listeners.ssl.1 = 5671\nssl_options.verify = verify_peer\nmanagement.ssl.fail_if_no_peer_cert = true\n"
        "cluster_partition_handling = pause_if_all_down\n"
    )
    assert problems(path) == [
        "FILE:1: a TLS listener needs 'ssl_options.certfile'",
        "FILE:2: 'verify_peer' needs 'ssl_options.cacertfile'",
        "FILE:3: this needs 'management.ssl.verify = verify_peer'",
        "FILE:4: 'pause_if_all_down' needs 'cluster_partition_handling.pause_if_all_down.recover' and '….nodes.1'",
    ]


def test_a_certificate_that_is_not_there_is_named(write: Write) -> None:
    (problem,) = problems(write("ssl_options.certfile = /nowhere/cert.pem\n"))
    assert problem.startswith("FILE:1: 'ssl_options.certfile' cannot be '/nowhere/cert.pem': it is not a file that")


def test_a_password_is_never_shown() -> None:
    shown = repr(load_config(None, {}, {"default_pass": "hunter2", "ssl_options.password": "hunter2"}))
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100", 100),
        ("1k", 1000),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1ki", 1024),
        ("2M", 2_000_000),
        ("2MB", 2_000_000),
        ("2MiB", 2 << 20),
        ("3G", 3_000_000_000),
        ("3gb", 3_000_000_000),
        ("3GiB", 3 << 30),
        ("1TB", 10**12),
        ("1PiB", 1 << 50),
    ],
)
def test_limits_have_the_units_of_rabbitmq(text: str, size: int) -> None:
    assert information_unit(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1.5GB", "-1", "1ib", "1XB", "ten"])
def test_other_units_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size such as"):
        information_unit(text)


def test_a_frame_before_the_login_must_have_a_limit(write: Write) -> None:
    assert load_config(write("frame_max = 0\nchannel_max = 0\n"), {}, {}).frame_max == 0
    with pytest.raises(ConfigError, match="who has not logged in must have a limit"):
        load_config(write("initial_frame_max = 0\n"), {}, {})


@pytest.mark.parametrize(("text", "size"), [("131072", 131072), ("128KB", 131072), ("1MB", 1 << 20), ("1gb", 1 << 30)])
def test_frame_sizes_count_in_powers_of_1024(text: str, size: int) -> None:
    assert bytesize(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("10", 10), ("10s", 10), ("500ms", 0.5), ("2m", 120), ("1h", 3600)])
def test_times_have_units(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("5672", Listener("", 5672)),
        ("0.0.0.0:1", Listener("0.0.0.0", 1)),
        ("::1:5672", Listener("::1", 5672)),
        (":::5672", Listener("::", 5672)),
        ("[::1]:5672", Listener("::1", 5672)),
    ],
)
def test_listeners_are_ports_or_addresses_with_ports(text: str, meaning: Listener) -> None:
    assert listener(text) == meaning


@pytest.mark.parametrize("text", ["localhost:5672", "65536", "amqp", "", "1.2.3:5672"])
def test_other_listeners_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a port, or an IP address and a port"):
        listener(text)


def test_a_dot_inside_a_word_of_a_key_is_written_with_a_backslash(write: Write) -> None:
    assert load_config(write("loopback_users.a\\.b = true\n"), {}, {}).loopback_users == ("a.b",)


def test_every_key_of_the_schema_sets_a_field_that_exists() -> None:
    fields = {field.name: field for field in dataclasses.fields(NodeConfig)}
    for key in KEYS:
        group, dot, name = key.target.partition(".")
        assert group in fields or group == "disc_copies", key
        if dot:
            assert name in {field.name for field in dataclasses.fields(fields[group].default)}, key


def test_no_key_is_listed_twice_or_both_honoured_and_not() -> None:
    assert len({key.name for key in KEYS}) == len(KEYS)
    for _, patterns in (*NO_EFFECT, *REFUSED):
        for pattern in patterns.split():
            words = tuple(word.split("|")[0].replace("$", "any") for word in pattern.split("."))
            assert not isinstance(find(words), Key) or words[-1] == "*", pattern


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_fail_with_anything_but_a_problem(text: str) -> None:
    settings, unreadable = read_settings(text, "FILE")
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(settings) + len(unreadable) == len(lines)


def test_paths_are_absolute_wherever_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node hands them to processes that stand elsewhere."""
    monkeypatch.chdir(tmp_path)
    env = {"HOME": "/home/u"}
    assert load_config(None, env, {"data_dir": Path("data")}).data_dir == tmp_path / "data"
    assert load_config(None, env | {"MIRRORMQ_DATA_DIR": "data"}, {}).data_dir == tmp_path / "data"
    assert load_config(None, {"XDG_DATA_HOME": "x"}, {"node_name": "r@h"}).data_dir == tmp_path / "x/mirrormq/r@h"
