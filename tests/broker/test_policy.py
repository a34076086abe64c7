from __future__ import annotations

import pytest

from mirrormq.broker.policy import Policy, match, merge
from mirrormq.broker.policy_validation import (
    OUR_KEYS,
    PolicyFault,
    validate_definition,
    validate_policy,
    validation_failed,
)

Definition = dict[str, object]


def policy(name: str = "p", pattern: str = ".*", apply_to: str = "all", priority: float = 0, **keys: object) -> Policy:
    definition: Definition = {key.replace("_", "-"): value for key, value in keys.items()} or {"max-length": 1}
    return Policy("/", name, pattern, apply_to, definition, priority)


# Matching


def test_the_highest_priority_wins_then_the_first_name() -> None:
    policies = [
        policy("b", priority=1), policy("a", priority=1), policy("c", priority=0.5), policy("d", "^x", priority=9),
    ]  # fmt: skip
    found = match(policies, "/", "queue", "queue")
    assert found is not None
    assert found.name == "a"
    assert match(policies, "other", "queue", "queue") is None
    assert match([], "/", "queue", "queue") is None


@pytest.mark.parametrize(
    ("apply_to", "queue", "exchange"),
    [
        ("all", True, True), ("queues", True, False), ("classic_queues", True, False), ("quorum_queues", False, False),
        ("streams", False, False), ("exchanges", False, True),
    ],
)  # fmt: skip
def test_apply_to_says_what_is_meant(apply_to: str, queue: bool, exchange: bool) -> None:
    made = policy(apply_to=apply_to)
    assert made.applies("/", "x", "queue", "classic") is queue
    assert made.applies("/", "x", "exchange") is exchange


def test_patterns_are_searched_not_anchored() -> None:
    assert policy(pattern="oo").applies("/", "food", "queue")
    assert not policy(pattern="^oo").applies("/", "food", "queue")


def test_a_key_of_another_queue_type_keeps_the_policy_from_the_queue() -> None:
    poisoned = policy("poisoned", priority=9, max_length=1, delivery_limit=5)
    plain = policy("plain", max_length=2)
    assert match([poisoned, plain], "/", "q", "queue") is plain
    assert match([poisoned, plain], "/", "x", "exchange") is poisoned


# Merging


def test_one_policy_alone_is_the_definition() -> None:
    assert merge(policy(max_length=1), None) == {"max-length": 1}
    assert merge(None, policy(max_length=1)) == {"max-length": 1}
    assert merge(None, None) == {}


@pytest.mark.parametrize(
    ("user", "operator", "merged"),
    [
        ({"max-length": 5}, {"max-length": 3}, {"max-length": 3}),
        ({"max-length": 2}, {"max-length": 3}, {"max-length": 2}),
        ({"message-ttl": 5}, {"expires": 3}, {"message-ttl": 5, "expires": 3}),
        ({"ha-mode": "nodes"}, {"ha-mode": "all"}, {"ha-mode": "all"}),
        ({"ha-mode": "all"}, {"ha-mode": "exactly"}, {"ha-mode": "all"}),
        ({"ha-mode": "nodes"}, {"ha-mode": "exactly"}, {"ha-mode": "exactly"}),
        ({"ha-mode": "nodes"}, {"ha-mode": "nodes"}, {"ha-mode": "nodes"}),
        ({"ha-params": 2}, {"ha-params": 3}, {"ha-params": 3}),
        ({"ha-params": 4}, {"ha-params": ["a", "b"]}, {"ha-params": 4}),
        ({"ha-params": ["a"]}, {"ha-params": 2}, {"ha-params": 2}),
        ({"ha-params": ["a", "b"]}, {"ha-params": ["c"]}, {"ha-params": ["a", "b"]}),
        ({"ha-params": ["a"]}, {"ha-params": ["c"]}, {"ha-params": ["c"]}),
        ({"ha-min-in-sync": 2}, {"ha-min-in-sync": 1}, {"ha-min-in-sync": 2}),
        ({"ha-sync-mode": "manual"}, {"ha-sync-mode": "automatic"}, {"ha-sync-mode": "automatic"}),
    ],
)
def test_two_policies_are_merged_key_by_key(user: Definition, operator: Definition, merged: Definition) -> None:
    assert merge(Policy("/", "u", ".*", "all", user), Policy("/", "o", ".*", "all", operator)) == merged


# Validation. Sentences seen on RabbitMQ 3.10, or read in 3.13.

FAULTS: list[tuple[Definition, str]] = [
    ({}, "no policy provided"),
    ({"foo": "bar"}, '[{<<"foo">>,<<"bar">>}] are not recognised policy settings'),
    ({"foo": 1, "bar": [1]}, '[{<<"bar">>,[1]},{<<"foo">>,1}] are not recognised policy settings'),
    ({"max-priority": 5}, '[{<<"max-priority">>,5}] are not recognised policy settings'),
    ({"message-ttl": -1}, "-1 is not a valid message TTL"),
    ({"message-ttl": "x"}, '<<"x">> is not a valid message TTL'),
    ({"message-ttl": 1.5}, "1.5 is not a valid message TTL"),
    ({"message-ttl": None}, "null is not a valid message TTL"),
    ({"message-ttl": True}, "true is not a valid message TTL"),
    ({"message-ttl": [1, 2]}, "[1,2] is not a valid message TTL"),
    ({"message-ttl": {"a": 1}}, '#{<<"a">> => 1} is not a valid message TTL'),
    ({"message-ttl": ""}, "<<>> is not a valid message TTL"),
    ({"message-ttl": -1, "foo": 1}, "-1 is not a valid message TTL"),
    ({"expires": 0}, "0 is not a valid queue expiry"),
    ({"max-length": -1}, "-1 is not a valid maximum length"),
    ({"max-length": -1, "ha-mode": "x"}, "-1 is not a valid maximum length"),
    ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
    ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
    ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
    ({"queue-version": 3}, "3 is not a valid queue-version value"),
    ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
    ({"overflow": 1}, "1 is not a valid overflow value"),
    ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
    ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
    ({"dead-letter-strategy": "x"}, '<<"x">> is not a valid dead letter strategy'),
    ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
    ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
    ({"max-age": "x"}, '<<"x">> is not a valid max age'),
    ({"stream-max-segment-size-bytes": -1}, "-1 is not a valid segment size"),
    ({"queue-leader-locator": "x"}, '<<"x">> is not a valid queue leader locator value'),
    ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
    ({"queue-master-locator": "x"}, '<<"x">> invalid queue-master-locator value'),
    ({"ha-mode": "x"}, '<<"x">> is not a valid ha-mode value'),
    ({"ha-mode": "x", "foo": 1}, '<<"x">> is not a valid ha-mode value'),
    ({"ha-params": 1}, "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"),
    ({"ha-mode": "all", "ha-params": 1}, 'ha-mode="all" does not take parameters'),
    ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
    ({"ha-mode": "exactly", "ha-params": "2"}, 'ha-mode="exactly" takes an integer, <<"2">> given'),
    ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
    ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
    (
        {"ha-mode": "nodes", "ha-params": [1, "a", 2]},
        'ha-mode="nodes" takes a list of strings, [1,2] was not a string',
    ),
    ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
    ({"ha-mode": "nodes", "ha-params": "a"}, 'ha-mode="nodes" takes a list, <<"a">> given'),
    ({"ha-mode": "all", "ha-sync-mode": "x"}, 'ha-sync-mode must be "manual" or "automatic", got <<"x">>'),
    ({"ha-mode": "all", "ha-sync-batch-size": 0}, "ha-sync-batch-size takes an integer greater than 0, 0 given"),
    (
        {"ha-mode": "all", "ha-promote-on-shutdown": "x"},
        'ha-promote-on-shutdown must be "always" or "when-synced", got <<"x">>',
    ),
    (
        {"ha-mode": "all", "ha-promote-on-failure": 2},
        'ha-promote-on-failure must be "always" or "when-synced", got 2',
    ),
]


@pytest.mark.parametrize(("definition", "text"), FAULTS)
def test_a_wrong_definition_gets_rabbitmqs_sentence(definition: Definition, text: str) -> None:
    with pytest.raises(PolicyFault) as fault:
        validate_definition(definition)
    assert str(fault.value) == text


@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": 0, "expires": 1, "max-length": 0, "max-length-bytes": 0, "overflow": "reject-publish-dlx"},
        {"dead-letter-exchange": "", "dead-letter-routing-key": "k", "queue-mode": "lazy", "queue-version": 2},
        {"ha-mode": "all", "ha-sync-mode": "automatic", "queue-master-locator": "min-masters"},
        {"ha-mode": "exactly", "ha-params": 2, "ha-promote-on-failure": "always", "ha-sync-batch-size": 1},
        {"ha-mode": "nodes", "ha-params": ["a@host"], "ha-promote-on-shutdown": "when-synced"},
        {"federation-upstream-set": "all"},
        {"shards-per-node": 2, "routing-key": "1"},
        {"max-age": "7D", "delivery-limit": 0, "dead-letter-strategy": "at-least-once"},
        {"ha-mode": "all", "ha-replication": "async", "sync-interval": "10s", "ha-min-in-sync": 2},
        {"ha-mode": "all", "ha-replication": "async", "sync-interval": 0},
        {"log-retention": 60_000, "log-retention-bytes": 0},
        {"log-retention": "2h"},
    ],
)
def test_a_right_definition_passes(definition: Definition) -> None:
    validate_definition(definition)


@pytest.mark.parametrize("key", OUR_KEYS)
def test_our_own_keys_are_checked_too(key: str) -> None:
    with pytest.raises(PolicyFault, match=key):
        validate_definition({"ha-mode": "all", key: {"not": "this"}})


@pytest.mark.parametrize("definition", ["x", [1], None])
def test_a_definition_is_a_dictionary(definition: object) -> None:
    with pytest.raises(PolicyFault, match=r"^definition must be a dictionary: "):
        validate_definition(definition)


@pytest.mark.parametrize(
    ("definition", "unknown"),
    [
        ({"overflow": "drop-head"}, '[{<<"overflow">>,<<"drop-head">>}]'),
        ({"dead-letter-exchange": "a", "max-length": 1}, '[{<<"dead-letter-exchange">>,<<"a">>}]'),
        ({"ha-mode": "all", "ha-promote-on-failure": "always"}, '[{<<"ha-promote-on-failure">>,<<"always">>}]'),
    ],
)
def test_an_operator_may_say_less(definition: Definition, unknown: str) -> None:
    with pytest.raises(PolicyFault) as fault:
        validate_definition(definition, operator=True)
    assert str(fault.value) == f"{unknown} are not recognised policy settings"


def test_an_operator_may_limit_and_mirror() -> None:
    mirrored = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "max-length": 5}
    validate_definition(mirrored, operator=True)
    with pytest.raises(PolicyFault, match="-1 is not a valid message TTL"):
        validate_definition({"message-ttl": -1}, operator=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("(", {"max-length": 1}), 'pattern should be regular expression but is invalid: {"missing )",1}'),
        ((1, {"max-length": 1}), "pattern should be a binary but was 1"),
        ((".*", {"max-length": 1}, "x"), 'priority should be a number, actually was <<"x">>'),
        (
            (".*", {"max-length": 1}, 0, "x"),
            "apply-to 'x' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams',"
            " 'exchanges', or 'all'",
        ),
        ((".*", {}), "no policy provided"),
    ],
)
def test_the_rest_of_a_policy_is_checked_first(arguments: tuple[object, object], text: str) -> None:
    with pytest.raises(PolicyFault) as fault:
        validate_policy(*arguments)
    assert str(fault.value) == text
    assert validation_failed(fault.value) == f"Validation failed\n\n{text}\n"


def test_a_whole_policy_passes() -> None:
    validate_policy("^orders", {"ha-mode": "all"}, -1, "classic_queues")
    validate_policy(".*", {"max-length": 1}, 1.5)
