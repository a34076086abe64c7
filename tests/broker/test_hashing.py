from __future__ import annotations

from collections import Counter

import pytest

from mirrormq.broker.bindings import CONSISTENT_HASH, MODULUS_HASH, Destination, Envelope
from mirrormq.broker.exchange import Exchange, create_exchange
from mirrormq.broker.hashing import Remainders, Rendezvous, hash_of
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import Table

KEYS = [f"key-{number}" for number in range(20_000)]


def ring(weights: dict[str, int]) -> Rendezvous[str]:
    made: Rendezvous[str] = Rendezvous()
    for name, weight in weights.items():
        made.add(name, weight, name)
    return made


def declare(kind: str, arguments: Table | None = None) -> Exchange:
    return create_exchange(
        "/", "x", kind, durable=True, auto_delete=False, internal=False, arguments=arguments or {}
    )


def test_shares_follow_the_weights() -> None:
    shares = Counter(ring({"one": 1, "two": 2, "five": 5}).pick(key) for key in KEYS)
    for name, weight in (("one", 1), ("two", 2), ("five", 5)):
        assert abs(shares[name] / len(KEYS) - weight / 8) < 0.02


def test_only_the_keys_of_a_destination_that_leaves_move() -> None:
    before = ring({"a": 1, "b": 3, "c": 2})
    after = ring({"c": 2, "a": 1})
    for key in KEYS[:2_000]:
        if before.pick(key) != "b":
            assert after.pick(key) == before.pick(key)


def test_the_hash_never_changes() -> None:
    assert hash_of("orders.1") == 0xCC7D918D9366F3DF
    assert [ring({"a": 1, "b": 1, "c": 1}).pick(key) for key in ("k1", "k2", "k3", "k4")] == ["c", "c", "b", "a"]


def test_an_empty_ring_picks_nothing() -> None:
    assert ring({}).pick("key") is None
    assert Remainders[str]().pick("key") is None


def test_remainders_do_not_depend_on_the_order_of_binding() -> None:
    first: Remainders[str] = Remainders()
    second: Remainders[str] = Remainders()
    for name in ("a", "b", "c"):
        first.add(name, name)
    for name in ("c", "a", "b", "a"):
        second.add(name, name)
    second.remove("a")
    assert [first.pick(key) for key in KEYS[:100]] == [second.pick(key) for key in KEYS[:100]]
    assert {first.pick(key) for key in KEYS[:100]} == {"a", "b", "c"}


def test_a_queue_bound_twice_keeps_the_weight_of_its_oldest_binding() -> None:
    exchange = declare(CONSISTENT_HASH)
    heavy, light = Destination("heavy", "queue"), Destination("light", "queue")
    exchange.bind(light, "1", {})
    exchange.bind(light, "1000", {})
    exchange.bind(heavy, "9", {})
    picks = Counter(exchange.match(Envelope([key]))[0].name for key in KEYS[:4_000])
    assert abs(picks["light"] / 4_000 - 0.1) < 0.03
    exchange.unbind(light, "1", {})
    picks = Counter(exchange.match(Envelope([key]))[0].name for key in KEYS[:4_000])
    assert picks["light"] > 3_900
    exchange.unbind_destination(light)
    assert {exchange.match(Envelope([key]))[0].name for key in KEYS[:100]} == {"heavy"}


@pytest.mark.parametrize(
    ("argument", "value", "envelopes"),
    [
        ("hash-header", "id", [Envelope(["same"], {"id": key}) for key in KEYS[:200]]),
        ("hash-property", "message_id", [Envelope(["same"], message_id=key) for key in KEYS[:200]]),
        ("hash-property", "correlation_id", [Envelope(["same"], correlation_id=key) for key in KEYS[:200]]),
        ("hash-property", "timestamp", [Envelope(["same"], timestamp=number) for number in range(200)]),
    ],
)
def test_a_header_or_property_can_be_hashed_instead_of_the_key(
    argument: str, value: str, envelopes: list[Envelope]
) -> None:
    exchange = declare(CONSISTENT_HASH, {argument: value})
    for name in ("a", "b"):
        exchange.bind(Destination(name, "queue"), "1", {})
    picks = Counter(exchange.match(envelope)[0].name for envelope in envelopes)
    assert picks["a"] > 50
    assert picks["b"] > 50
    assert exchange.match(Envelope(["same"])) == exchange.match(Envelope(["other"]))


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
    ],
)
def test_a_weight_must_be_a_positive_integer(weight: str, text: str) -> None:
    exchange = declare(CONSISTENT_HASH)
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.bind(Destination("q", "queue"), weight, {})
    assert refusal.value.text == text
    assert not exchange.is_bound()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "a", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "foo"}, "Unsupported property: foo"),
        ({"hash-header": 5}, "hash-header must be a string, got 5"),
        ({"hash-property": 5}, "hash-property must be a string, got 5"),
    ],
)
def test_wrong_hash_arguments_are_refused(arguments: Table, text: str) -> None:
    for kind, all_arguments in (
        (CONSISTENT_HASH, arguments), ("x-delayed-message", {**arguments, "x-delayed-type": CONSISTENT_HASH}),
    ):  # fmt: skip
        with pytest.raises(PreconditionFailed) as refusal:
            declare(kind, all_arguments)
        assert refusal.value.text == text


def test_sharding_sends_each_key_to_one_shard() -> None:
    exchange = declare(MODULUS_HASH)
    for number in range(4):
        exchange.bind(Destination(f"shard {number}", "queue"), "", {})
    chosen = {key: exchange.match(Envelope([key])) for key in KEYS[:1_000]}
    assert all(len(found) == 1 for found in chosen.values())
    assert len({found[0].name for found in chosen.values()}) == 4
    assert all(exchange.match(Envelope([key])) == found for key, found in chosen.items())
