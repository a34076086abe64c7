"""The options of `mirrormq perf` come out as settings, or as a sentence that says what is wrong."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mirrormq.cli.perf.address import parse_address, parse_addresses
from mirrormq.cli.perf.command import perf, settings_of
from mirrormq.cli.perf.errors import BadOption
from mirrormq.cli.perf.settings import Settings, parse_pairs, parse_properties, parse_size

LONG = "a" * 256


def settings_from(*arguments: str) -> Settings:
    options = perf.make_context("perf", list(arguments)).params
    options.pop("as_json")
    return settings_of(options)


def test_perftest_options_mean_what_they_mean_there() -> None:
    settings = settings_from(
        *(
            "-x",
            "3",
            "-y",
            "5",
            "-u",
            "orders",
            "-s",
            "4k",
            "-c",
            "100",
            "-q",
            "50",
            "-A",
            "10",
            "-r",
            "200",
            "-z",
            "30",
        ),
        *("-f", "persistent", "-f", "mandatory", "-ad", "false", "-qa", "x-max-length=10", "-h", "amqp://u:p@h:1/v"),
    )
    assert (settings.producers, settings.consumers, settings.queues, settings.size) == (3, 5, ("orders",), 4000)
    assert (settings.confirm, settings.prefetch, settings.multi_ack, settings.rate) == (100, 50, 10, 200.0)
    assert (settings.persistent, settings.mandatory, settings.auto_delete) == (True, True, False)
    assert (settings.queue_arguments, settings.seconds) == ({"x-max-length": 10}, 30.0)
    assert settings.properties.delivery_mode == 2
    assert str(settings.addresses[0]) == "amqp://h:1"


def test_options_of_several_letters_are_not_taken_for_one_letter_and_a_value() -> None:
    settings = settings_from("-qp", "perf-%03d", "-qpf", "8", "-qpt", "11", "-st", "2", "-ct", "9", "-mp", "priority=4")
    assert settings.queues == ("perf-008", "perf-009", "perf-010", "perf-011")
    assert (settings.shutdown_timeout, settings.confirm_timeout, settings.properties.priority) == (2.0, 9.0, 4)


def test_a_run_without_a_queue_name_makes_one_and_deletes_it() -> None:
    settings = settings_from("-d", "mine")
    assert settings.queues[0].startswith("perf-mine-")
    assert (settings.temporary, settings.auto_delete) == (True, True)


def test_a_run_that_only_publishes_and_one_that_only_consumes_know_each_other_by_name() -> None:
    published = settings_from("-y", "0", "-d", "mine", "--verify", "-s", "24")
    assert settings_from("-x", "0", "-d", "mine", "--verify").run == published.run
    assert settings_from("-x", "0", "-d", "other", "--verify").run != published.run


def test_a_named_queue_stays() -> None:
    settings = settings_from("-u", "a,b")
    assert (settings.queues, settings.temporary, settings.auto_delete) == (("a", "b"), False, False)


def test_a_count_of_queues_numbers_the_name() -> None:
    assert settings_from("-u", "q", "--queues", "3").queues == ("q-1", "q-2", "q-3")


def test_messages_go_straight_to_their_queue_unless_an_exchange_is_asked_for() -> None:
    assert settings_from().exchange == ""
    assert settings_from("-t", "fanout").exchange == "fanout"
    assert settings_from("-k", "a.b").exchange == "direct"
    named = settings_from("-e", "events", "-t", "topic")
    assert (named.exchange, named.exchange_type) == ("events", "topic")


def test_producers_and_consumers_are_dealt_out_to_the_queues_in_turn() -> None:
    settings = settings_from("-x", "3", "-y", "1", "-u", "a,b")
    assert [settings.key_of(index) for index in range(3)] == ["a", "b", "a"]
    assert [settings.copies(index) for index in range(3)] == [1, 0, 1]


def test_one_key_for_all_queues_gives_every_queue_every_message() -> None:
    settings = settings_from("-t", "topic", "-k", "x.y", "--queues", "10", "-y", "10")
    assert settings.copies(0) == 10


def test_connections_are_dealt_out_to_the_uris_in_turn() -> None:
    settings = settings_from("-H", "amqp://a, amqp://b,amqp://c")
    assert [settings.addresses_for(index)[0].host for index in range(4)] == ["a", "b", "c", "a"]
    assert [address.host for address in settings.addresses_for(1)] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-x", "0", "-y", "0"], "nothing to do"),
        (["--verify"], "--verify needs messages of 24 bytes"),
        (["--verify", "-x", "0"], "needs the name (-d) of the run that published"),
        (["-z", "5", "--warmup", "5"], "--warmup must be shorter"),
        (["-a", "-A", "10"], "exclude each other"),
        (["-f", "persistant"], "persistent and mandatory, not 'persistant'"),
        (["-s", "4x"], "'4x' is no size"),
        (["-qa", "x-max-length"], "should be name=value"),
        (["-h", "localhost"], "it should begin with amqp:// or amqps://"),
        (["-h", "amqp://host:port"], "is no AMQP URI"),
        (["-h", "amqp://rabbit..local"], "is no AMQP URI"),
        (["-h", "amqp://localhost?heartbeat=x"], "heartbeat in the URI"),
        (["--queue-pattern", "q", "-qpt", "3"], "should hold one number"),
        (["--queue-pattern", "q-%d", "-qpf", "3", "-qpt", "1"], "must not be less"),
        (["-u", "a,b", "--queues", "2"], "give one name"),
        (["--processes", "5"], "more --processes"),
        (["-mp", "priority=high"], "the message property priority should be a number"),
        (["-mp", "priority=256"], "priority should be a number from 0 to 255, not 256"),
        (["-mp", "timestamp=-1"], "timestamp should be a number from 0 to"),
        (["-mp", f"type={LONG}"], "--message-properties (-mp) and --message-headers (-mh): a short string holds 255 bytes"),
        (["-mh", f"{LONG}=1"], "--message-properties (-mp) and --message-headers (-mh): a short string holds 255 bytes"),
        (["-qa", f"x-max-length={1 << 64}"], "--queue-args (-qa): a field table holds integers of 64 bits"),
        (["-ca", f"x-priority={1 << 64}"], "--consumer-args (-ca): a field table holds integers of 64 bits"),
        (["-u", f"a,{LONG}"], "a queue's name has at most 255 bytes, not 256"),
        (["-k", LONG], "a routing key has at most 255 bytes, not 256"),
        (["-e", LONG], "an exchange's name or type has at most 255 bytes, not 256"),
        (["-h", f"amqp://localhost/{LONG}"], "a virtual host's name has at most 255 bytes, not 256"),
        (["-h", "amqp://localhost?heartbeat=²"], "heartbeat in the URI"),
        (["-r", "nan"], "nan is no number"),
    ],
)
def test_nonsense_is_refused_with_a_sentence_and_exit_code_2(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(perf, arguments)
    assert result.exit_code == 2
    assert sentence in result.output


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("100", 100), ("4k", 4000), ("4KB", 4000), ("64Ki", 65536), ("64KiB", 65536), ("1M", 1_000_000)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_size_that_no_message_can_have_is_refused() -> None:
    with pytest.raises(BadOption, match="a message has at most 512 MiB; '513Mi' is more"):
        settings_from("-s", "513Mi")


def test_pairs_keep_numbers_and_truth_as_such() -> None:
    pairs = parse_pairs("x-max-length=10, x-overflow=reject-publish,x-single-active-consumer=true,ratio=0.5")
    assert pairs == {
        "x-max-length": 10,
        "x-overflow": "reject-publish",
        "x-single-active-consumer": True,
        "ratio": "0.5",
    }


def test_unknown_properties_become_headers() -> None:
    properties = parse_properties({"expiration": 5000, "colour": "red", "app-id": "x"}, {"n": 1}, persistent=False)
    assert (properties.expiration, properties.app_id, properties.delivery_mode) == ("5000", "x", None)
    assert properties.headers == {"colour": "red", "n": 1}


def test_a_uri_leaves_out_what_is_usual() -> None:
    address = parse_address("amqp://")
    assert (address.host, address.port, address.user, address.password, address.vhost) == (
        "localhost",
        5672,
        "guest",
        "guest",
        "/",
    )


def test_a_uri_escapes_what_would_confuse_it() -> None:
    address = parse_address("amqps://us%40er:p%2Fw@[::1]/a%2Fb?verify=verify_none&heartbeat=5")
    assert (address.user, address.password, address.vhost, address.port) == ("us@er", "p/w", "a/b", 5671)
    assert (address.host, str(address), address.parameter("heartbeat")) == ("::1", "amqps://[::1]:5671", "5")


def test_passwords_are_not_shown() -> None:
    assert "secret" not in str(parse_address("amqp://me:secret@host"))


def test_empty_uris_between_commas_are_ignored() -> None:
    assert len(parse_addresses("amqp://a,,amqp://b,")) == 2


def test_a_missing_certificate_is_a_bad_option() -> None:
    with pytest.raises(BadOption, match="cannot use these certificates"):
        parse_address("amqps://host?cacertfile=/nowhere/ca.pem").ssl_context()
