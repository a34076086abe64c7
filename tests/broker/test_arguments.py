from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.broker.arguments import (
    DROP_HEAD,
    MAX_EXPIRY,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    UNSET,
    QueueSettings,
    check_queue_equivalent,
    effective_settings,
    locked,
    milliseconds,
    parse_consumer_arguments,
    parse_queue_arguments,
)
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import ByteArray, Table, Timestamp, Value

COUNTS = ["x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-consumer-timeout"]


def fault_of(arguments: Table) -> str:
    with pytest.raises(PreconditionFailed) as refusal:
        parse_queue_arguments(arguments, "qq", "/")
    return refusal.value.text


def settings(arguments: Table, **policy: object) -> QueueSettings:
    definition = {key.replace("_", "-"): value for key, value in policy.items()}
    return effective_settings(parse_queue_arguments(arguments, "q", "/"), definition)


# Declaring. Texts seen on RabbitMQ 3.10.


@pytest.mark.parametrize("key", COUNTS)
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (-1, "{value_negative,-1}"),
        ("x", '"expected integer, got longstr"'),
        (True, '"expected integer, got bool"'),
        (None, '"expected integer, got void"'),
        ([1], '"expected integer, got array"'),
        ({"a": 1}, '"expected integer, got table"'),
        (1.5, '"expected integer, got double"'),
        (Decimal(1), '"expected integer, got decimal"'),
        (Timestamp(1), '"expected integer, got timestamp"'),
        (ByteArray(b"x"), '"expected integer, got binary"'),
    ],
)
def test_a_count_must_be_one(key: str, value: Value, fault: str) -> None:
    assert fault_of({key: value}) == f"invalid arg '{key}' for queue 'qq' in vhost '/': {fault}"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-expires": 0}, "{value_zero,0}"),
        ({"x-expires": MAX_EXPIRY + 1}, "{value_too_large,315360000001}"),
        ({"x-message-ttl": MAX_EXPIRY + 1}, "{value_too_large,315360000001}"),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-overflow": "foo"}, "invalid_overflow"),
        ({"x-overflow": 1}, "{unacceptable_type,signedint}"),
        ({"x-overflow": None}, "{unacceptable_type,void}"),
        ({"x-queue-mode": "foo"}, "\"unsupported queue mode 'foo'\""),
        ({"x-queue-mode": [1]}, "{unacceptable_type,array}"),
        ({"x-queue-version": 3}, "\"unsupported queue version '3'\""),
        ({"x-queue-version": -1}, "{value_negative,-1}"),
        ({"x-queue-version": "2"}, '"expected integer, got longstr"'),
        ({"x-queue-type": "foo"}, "\"unsupported queue type 'foo'\""),
        ({"x-queue-type": 1}, "{unacceptable_type,signedint}"),
        ({"x-single-active-consumer": 1}, "{unacceptable_type,signedint}"),
        ({"x-single-active-consumer": "true"}, "{unacceptable_type,longstr}"),
        ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({"x-dead-letter-routing-key": 1}, "{unacceptable_type,signedint}"),
        ({"x-dead-letter-routing-key": 1, "x-dead-letter-exchange": ""}, "{unacceptable_type,signedint}"),
    ],
)
def test_a_wrong_argument_gets_rabbitmqs_sentence(arguments: Table, text: str) -> None:
    key = next(iter(arguments))
    assert fault_of(arguments) == f"invalid arg '{key}' for queue 'qq' in vhost '/': {text}"


@pytest.mark.parametrize(("value", "kind"), [(1, "signedint"), (True, "bool"), (None, "void"), ([1], "array")])
def test_a_dead_letter_exchange_is_named_by_a_string(value: Value, kind: str) -> None:
    text = fault_of({"x-dead-letter-exchange": value})
    assert text == f"invalid type '{kind}' for arg 'x-dead-letter-exchange' in queue 'qq' in vhost '/'"


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_other_queue_types_are_refused_with_advice(kind: str) -> None:
    assert fault_of({"x-queue-type": kind}) == (
        f"invalid arg 'x-queue-type' for queue 'qq' in vhost '/': \"unsupported queue type '{kind}';"
        ' declare a classic queue and mirror it with an ha-mode policy"'
    )


@pytest.mark.parametrize("value", ["nearest", "", 1])
def test_a_wrong_leader_locator_is_refused_and_crashes_nothing(value: Value) -> None:
    assert fault_of({"x-queue-master-locator": value}).startswith(
        "invalid arg 'x-queue-master-locator' for queue 'qq' in vhost '/': "
    )


@pytest.mark.parametrize(
    "key", ["x-delivery-limit", "x-max-age", "x-quorum-initial-group-size", "x-queue-leader-locator"]
)
def test_arguments_of_other_queue_types_are_refused(key: str) -> None:
    assert fault_of({key: 1}) == f"invalid arg '{key}' for queue 'qq' in vhost '/' of queue type rabbit_classic_queue"


def test_the_first_fault_in_rabbitmqs_order_is_told() -> None:
    assert "'x-expires'" in fault_of({"x-max-length": "a", "x-message-ttl": "c", "x-expires": "b"})
    assert "'x-queue-type'" in fault_of({"x-expires": "b", "x-queue-type": "foo"})


def test_right_arguments_are_read() -> None:
    table: Table = {
        "x-expires": 1, "x-message-ttl": 0, "x-max-length": 0, "x-max-length-bytes": 2**40, "x-max-priority": 255,
        "x-overflow": "reject-publish", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k",
        "x-queue-mode": "lazy", "x-queue-version": 2, "x-single-active-consumer": True, "x-queue-type": "classic",
        "x-queue-master-locator": "min-masters", "x-copy-from": "other", "x-copy-routing-key": "a.#", "x-foo": 1,
    }  # fmt: skip
    read = parse_queue_arguments(table, "q", "/")
    assert read.table == table
    assert (read.expires, read.message_ttl, read.max_length, read.max_length_bytes) == (1, 0, 0, 2**40)
    assert (read.max_priority, read.overflow, read.queue_mode, read.queue_version) == (255, "reject-publish", "lazy", 2)
    assert (read.dead_letter_exchange, read.dead_letter_routing_key) == ("", "k")
    assert (read.master_locator, read.copy_from, read.copy_routing_key) == ("min-masters", "other", "a.#")
    assert read.single_active_consumer
    assert read.queue_type == "classic"


def test_unknown_arguments_are_kept_and_ignored() -> None:
    table: Table = {"x-ha-policy": "all", "foo": [1]}
    assert parse_queue_arguments(table, "q", "/").table == table


VALUES: st.SearchStrategy[Value] = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.binary(max_size=5),
    st.text("aé\0'\"{", max_size=5), st.just([1]), st.just({"a": None}), st.builds(Timestamp, st.integers(0, 9)),
    st.builds(ByteArray, st.binary(max_size=3)),
)  # fmt: skip
NAMES = st.sampled_from([
    *COUNTS, "x-overflow", "x-queue-mode", "x-queue-version", "x-queue-type", "x-single-active-consumer", "x-copy-from",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-queue-master-locator", "x-priority", "x-max-age",
])  # fmt: skip


@given(st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES, VALUES))
def test_whatever_a_client_sends_is_read_or_refused(arguments: Table, others: Table) -> None:
    for attempt in (
        lambda: effective_settings(parse_queue_arguments(arguments, "q", "/"), {}),
        lambda: parse_consumer_arguments(arguments, "q", "/"),
        lambda: check_queue_equivalent(
            "q", "/", arguments, others,
            current_durable=True, durable=True, current_auto_delete=False, auto_delete=False,
        ),
    ):  # fmt: skip
        with suppress(PreconditionFailed):
            attempt()


# Redeclaring


def inequivalence(current: Table, arguments: Table) -> str:
    try:
        check_queue_equivalent(
            "pq", "/", current, arguments,
            current_durable=True, durable=True, current_auto_delete=False, auto_delete=False,
        )  # fmt: skip
    except PreconditionFailed as refusal:
        return refusal.text
    return ""


@pytest.mark.parametrize(
    ("current", "arguments", "text"),
    [
        ({"x-message-ttl": 60000}, {}, "x-message-ttl: none / the value '60000' of type 'signedint'"),
        ({}, {"x-message-ttl": 60000}, "x-message-ttl: the value '60000' of type 'signedint' / none"),
        ({}, {"x-message-ttl": 2**40}, "x-message-ttl: the value '1099511627776' of type 'long' / none"),
        ({"x-message-ttl": 60000}, {"x-message-ttl": 60001}, "x-message-ttl: '60001' / '60000'"),
        ({"x-message-ttl": 1}, {"x-message-ttl": "x"}, "x-message-ttl: 'x' / '1'"),
        ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "b"}, "x-dead-letter-exchange: 'b' / 'a'"),
        ({"x-single-active-consumer": True}, {"x-single-active-consumer": False},
         "x-single-active-consumer: 'false' / 'true'"),
        ({"x-single-active-consumer": False}, {},
         "x-single-active-consumer: none / the value 'false' of type 'bool'"),
        ({"x-max-length": 5}, {"x-max-length": 6, "x-expires": 3},
         "x-expires: the value '3' of type 'signedint' / none"),
        ({}, {"x-queue-type": "quorum"}, "x-queue-type: the value 'quorum' of type 'longstr' / none"),
        ({"x-overflow": "drop-head"}, {}, "x-overflow: none / the value 'drop-head' of type 'longstr'"),
        ({"x-queue-master-locator": "random"}, {},
         "x-queue-master-locator: none / the value 'random' of type 'longstr'"),
        ({"x-message-ttl": 10}, {"x-message-ttl": 10.0}, "x-message-ttl: '10.0' / '10'"),
        ({"x-max-length": 10}, {"x-max-length": 10.0}, "x-max-length: '10.0' / '10'"),
        ({"x-max-priority": 1}, {"x-max-priority": True}, "x-max-priority: 'true' / '1'"),
        ({"x-max-length-bytes": 10}, {"x-max-length-bytes": "10"}, "x-max-length-bytes: '10' / '10'"),
        ({"x-expires": 10}, {"x-expires": Decimal(10)}, "x-expires: '10' / '10'"),
    ],
)  # fmt: skip
def test_redeclaring_with_other_arguments_is_refused(current: Table, arguments: Table, text: str) -> None:
    key, _, rest = text.partition(": ")
    received, _, stood = rest.partition(" / ")
    assert inequivalence(current, arguments) == (
        f"inequivalent arg '{key}' for queue 'pq' in vhost '/': received {received} but current is {stood}"
    )


@pytest.mark.parametrize(
    ("current", "arguments"),
    [
        ({}, {}),
        ({"x-queue-type": "classic"}, {}),
        ({}, {"x-queue-type": "classic"}),
        ({"x-foo": 1}, {"x-foo": 2}),
        ({"x-foo": 1}, {}),
        ({"x-max-length": 5}, {"x-max-length": 5}),
        ({"x-max-length": 5}, {"x-max-length": Timestamp(5)}),
        ({"x-overflow": "drop-head"}, {"x-overflow": ByteArray(b"drop-head")}),
    ],
)
def test_redeclaring_the_same_passes(current: Table, arguments: Table) -> None:
    assert inequivalence(current, arguments) == ""


def test_durable_and_auto_delete_are_compared_first() -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        check_queue_equivalent(
            "eqq", "/", {}, {"x-expires": 1},
            current_durable=True, durable=False, current_auto_delete=False, auto_delete=True,
        )  # fmt: skip
    assert refusal.value.text == (
        "inequivalent arg 'durable' for queue 'eqq' in vhost '/': received 'false' but current is 'true'"
    )
    with pytest.raises(PreconditionFailed, match=r"'auto_delete' .* received 'true' but current is 'false'"):
        check_queue_equivalent(
            "eqq", "/", {}, {"x-expires": 1},
            current_durable=True, durable=True, current_auto_delete=False, auto_delete=True,
        )  # fmt: skip


def test_an_exclusive_queue_is_locked_in_rabbitmqs_words() -> None:
    assert locked("eqq", "/").text == (
        "cannot obtain exclusive access to locked queue 'eqq' in vhost '/'. It could be originally declared on another"
        " connection or the exclusive property value does not match that of the original declaration."
    )


# Settings


def test_without_arguments_and_policy_nothing_is_limited() -> None:
    plain = settings({})
    assert (plain.message_ttl, plain.expires, plain.max_length, plain.max_length_bytes) == (UNSET,) * 4
    assert (plain.overflow, plain.max_priority, plain.queue_mode) == (DROP_HEAD, 0, "default")
    assert plain.dead_letter_exchange is None
    assert not plain.limited
    assert not plain.single_active_consumer
    assert plain.ha == {}


def test_the_smaller_number_wins() -> None:
    assert settings({"x-message-ttl": 5}, message_ttl=3).message_ttl == 3
    assert settings({"x-message-ttl": 0}, message_ttl=3).message_ttl == 0
    assert settings({}, expires=3).expires == 3
    assert settings({"x-consumer-timeout": 9}, consumer_timeout=7).consumer_timeout == 7
    assert settings({"x-max-length": 3}).max_length == 3
    both = settings({"x-max-length-bytes": 3}, max_length_bytes=7, max_length=2)
    assert (both.max_length, both.max_length_bytes, both.limited) == (2, 3, True)


def test_for_the_rest_the_argument_wins() -> None:
    told = settings(
        {"x-overflow": "reject-publish", "x-dead-letter-exchange": "mine", "x-queue-mode": "default"},
        overflow="reject-publish-dlx", dead_letter_exchange="theirs", dead_letter_routing_key="k", queue_mode="lazy",
    )  # fmt: skip
    assert (told.overflow, told.dead_letter_exchange, told.queue_mode) == (REJECT_PUBLISH, "mine", "default")
    assert told.dead_letter_routing_key == "k"
    by_policy = settings({}, overflow="reject-publish-dlx", queue_mode="lazy")
    assert (by_policy.overflow, by_policy.queue_mode) == (REJECT_PUBLISH_DLX, "lazy")


def test_mirroring_keys_and_retention_come_from_the_policy() -> None:
    made = settings({}, ha_mode="all", ha_replication="async", sync_interval="10s", log_retention="2h", max_length=1)
    assert made.ha == {"ha-mode": "all", "ha-replication": "async"}
    assert (made.sync_interval, made.log_retention, made.log_retention_bytes) == (10_000, 7_200_000, UNSET)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (5, 5), ("90s", 90_000), ("10m", 600_000), ("7D", 604_800_000), ("x", UNSET), ("5", UNSET), (-1, UNSET),
     (True, UNSET), (None, UNSET), ("1d", UNSET)],
)  # fmt: skip
def test_durations_are_milliseconds_or_have_a_unit(value: object, expected: int) -> None:
    assert milliseconds(value) == expected


# Consumers


def test_consumer_arguments_are_read() -> None:
    assert parse_consumer_arguments({}, "q", "/").priority == 0
    read = parse_consumer_arguments({"x-priority": -5, "x-cancel-on-ha-failover": True, "x-foo": 1}, "q", "/")
    assert (read.priority, read.cancel_on_ha_failover) == (-5, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-priority": "x"}, "'x-priority' for queue 'cq' in vhost '/': \"expected integer, got longstr\""),
        ({"x-priority": True}, "'x-priority' for queue 'cq' in vhost '/': \"expected integer, got bool\""),
        ({"x-priority": None}, "'x-priority' for queue 'cq' in vhost '/': \"expected integer, got void\""),
        ({"x-cancel-on-ha-failover": 1},
         "'x-cancel-on-ha-failover' for queue 'cq' in vhost '/': {unacceptable_type,signedint}"),
        ({"x-stream-offset": "first"},
         "'x-stream-offset' for queue 'cq' in vhost '/' of queue type rabbit_classic_queue"),
    ],
)  # fmt: skip
def test_wrong_consumer_arguments_are_refused(arguments: Table, text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        parse_consumer_arguments(arguments, "cq", "/")
    assert refusal.value.text == f"invalid arg {text}"
