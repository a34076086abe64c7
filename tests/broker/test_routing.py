from __future__ import annotations

import pytest

from mirrormq.broker.bindings import Destination, Envelope
from mirrormq.broker.exchange import (
    TYPES,
    Exchange,
    check_deletable,
    check_equivalent,
    check_not_default,
    check_not_reserved,
    create_exchange,
    predeclared,
)
from mirrormq.broker.policy import Policy
from mirrormq.broker.routing import depends_on_headers, reachable, route
from mirrormq.wire.errors import AccessRefused, AMQPError, CommandInvalid, PreconditionFailed
from mirrormq.wire.table import Table


class House:
    """A virtual host in miniature: names to exchanges and queues."""

    def __init__(self) -> None:
        self.exchanges = {exchange.name: exchange for exchange in predeclared("/")}
        self.queues: dict[str, Destination] = {}

    def exchange(self, name: str, kind: str = "direct", arguments: Table | None = None) -> Exchange:
        made = create_exchange(
            "/", name, kind, durable=True, auto_delete=False, internal=False, arguments=arguments or {}
        )
        self.exchanges[name] = made
        return made

    def queue(self, name: str) -> Destination:
        return self.queues.setdefault(name, Destination(name, "queue"))

    def route(self, name: str, *keys: str, headers: Table | None = None) -> list[str]:
        envelope = Envelope(list(keys), headers)
        return sorted(
            queue.name for queue in route(self.exchanges[name], envelope, self.exchanges.get, self.queues.get)
        )

    def depends(self, name: str) -> bool:
        return depends_on_headers(self.exchanges[name], self.exchanges.get)


@pytest.fixture
def house() -> House:
    return House()


# Routing


def test_the_default_exchange_knows_queues_by_name(house: House) -> None:
    house.queue("a")
    house.queue("b")
    assert house.route("", "a") == ["a"]
    assert house.route("", "nothing") == []
    assert house.route("", "a", "b", "a") == ["a", "b"]


def test_direct_compares_keys_fanout_ignores_them(house: House) -> None:
    house.exchanges["amq.direct"].bind(house.queue("a"), "k", {})
    house.exchanges["amq.direct"].bind(house.queue("b"), "other", {})
    house.exchanges["amq.fanout"].bind(house.queue("a"), "k", {})
    house.exchanges["amq.fanout"].bind(house.queue("b"), "", {})
    assert house.route("amq.direct", "k") == ["a"]
    assert house.route("amq.fanout", "whatever") == ["a", "b"]


def test_a_queue_gets_one_copy_however_many_bindings_and_keys_match(house: House) -> None:
    topic = house.exchanges["amq.topic"]
    for pattern in ("a.#", "#", "*.b"):
        topic.bind(house.queue("q"), pattern, {})
    direct = house.exchanges["amq.direct"]
    direct.bind(house.queue("q"), "k", {})
    direct.bind(house.queue("q"), "k", {"note": "second"})
    assert house.route("amq.topic", "a.b", "a.c") == ["q"]
    assert house.route("amq.direct", "k") == ["q"]
    direct.unbind(house.queue("q"), "k", {})
    assert house.route("amq.direct", "k") == ["q"]


def test_headers_decide_on_a_headers_exchange(house: House) -> None:
    house.exchanges["amq.match"].bind(house.queue("q"), "", {"x-match": "any", "a": 1, "b": 2})
    assert house.route("amq.match", "", headers={"b": 2}) == ["q"]
    assert house.route("amq.match", "", headers={"b": 3}) == []
    assert house.route("amq.match", "") == []


def test_a_delayed_exchange_routes_as_its_inner_type(house: House) -> None:
    delayed = house.exchange("later", "x-delayed-message", {"x-delayed-type": "topic"})
    delayed.bind(house.queue("q"), "a.*", {})
    assert (delayed.type, delayed.inner, delayed.is_delayed) == ("x-delayed-message", "topic", True)
    assert house.route("later", "a.b") == ["q"]


def test_exchanges_bound_in_a_circle_end(house: House) -> None:
    first, second = house.exchange("first", "fanout"), house.exchange("second", "fanout")
    first.bind(second, "", {})
    second.bind(first, "", {})
    first.bind(first, "", {})
    second.bind(house.queue("q"), "", {})
    first.bind(house.queue("p"), "", {})
    assert house.route("first", "k") == ["p", "q"]
    assert house.route("second", "k") == ["p", "q"]


def test_an_exchange_and_a_queue_of_one_name_are_two_destinations(house: House) -> None:
    exchange = house.exchange("same", "fanout")
    exchange.bind(house.queue("inner"), "", {})
    source = house.exchanges["amq.direct"]
    source.bind(exchange, "k", {})
    source.bind(house.queue("same"), "k", {})
    assert house.route("amq.direct", "k") == ["inner", "same"]
    assert source.unbind_destination(exchange) == 1
    assert house.route("amq.direct", "k") == ["same"]


# Alternate exchanges


def test_the_alternate_exchange_takes_what_nothing_else_does(house: House) -> None:
    main = house.exchange("main", arguments={"alternate-exchange": "lost"})
    house.exchange("lost", "fanout").bind(house.queue("found"), "", {})
    main.bind(house.queue("q"), "k", {})
    assert house.route("main", "k") == ["q"]
    assert house.route("main", "other") == ["found"]


def test_alternates_are_followed_in_a_chain_and_in_a_circle(house: House) -> None:
    house.exchange("one", arguments={"alternate-exchange": "two"})
    house.exchange("two", arguments={"alternate-exchange": "three"})
    three = house.exchange("three", arguments={"alternate-exchange": "one"})
    assert house.route("one", "k") == []
    three.bind(house.queue("q"), "k", {})
    assert house.route("one", "k") == ["q"]


def test_a_missing_alternate_exchange_takes_nothing(house: House) -> None:
    house.exchange("main", arguments={"alternate-exchange": "nowhere"})
    assert house.route("main", "k") == []


def test_an_exchange_that_leads_on_to_an_exchange_without_queues_does_not_use_its_alternate(house: House) -> None:
    main = house.exchange("main", "fanout", {"alternate-exchange": "lost"})
    main.bind(house.exchange("empty"), "", {})
    house.exchange("lost", "fanout").bind(house.queue("found"), "", {})
    assert house.route("main", "k") == []


def test_the_alternate_of_an_exchange_further_down_is_used(house: House) -> None:
    main = house.exchange("main", "fanout")
    main.bind(house.exchange("empty", arguments={"alternate-exchange": "lost"}), "", {})
    house.exchange("lost", "fanout").bind(house.queue("found"), "", {})
    assert house.route("main", "k") == ["found"]


def test_the_default_exchange_as_an_alternate_takes_nothing(house: House) -> None:
    house.exchange("main", arguments={"alternate-exchange": ""})
    house.queue("k")
    assert house.route("main", "k") == []


def test_a_policy_names_the_alternate_unless_an_argument_does(house: House) -> None:
    policy = Policy("/", "ae", ".*", "exchanges", {"alternate-exchange": "by-policy"})
    plain, told = house.exchange("plain"), house.exchange("told", arguments={"alternate-exchange": "by-argument"})
    for exchange in (plain, told):
        exchange.apply_policy(policy, None)
    assert (plain.alternate, told.alternate) == ("by-policy", "by-argument")
    assert plain.policy == "ae"
    plain.apply_policy(None, None)
    assert (plain.alternate, plain.policy) == (None, "")


# What a caller may keep


def test_routes_by_key_alone_may_be_kept(house: House) -> None:
    house.exchanges["amq.topic"].bind(house.exchanges["amq.direct"], "#", {})
    house.exchange("hash", "x-consistent-hash")
    assert not house.depends("amq.topic")
    assert not house.depends("hash")


def test_headers_anywhere_downstream_forbid_keeping_routes(house: House) -> None:
    house.exchanges["amq.topic"].bind(house.exchanges["amq.direct"], "#", {})
    house.exchanges["amq.direct"].bind(house.exchanges["amq.headers"], "k", {})
    house.exchange("main", arguments={"alternate-exchange": "amq.match"})
    house.exchange("hash", "x-consistent-hash", {"hash-header": "id"})
    house.exchange("later", "x-delayed-message", {"x-delayed-type": "direct"})
    for name in ("amq.topic", "amq.direct", "amq.headers", "main", "hash", "later"):
        assert house.depends(name), name


def test_reachable_exchanges_end_in_a_circle(house: House) -> None:
    first, second = house.exchange("first", "fanout"), house.exchange("second", "fanout")
    first.bind(second, "", {})
    second.bind(first, "", {})
    assert [exchange.name for exchange in reachable(first, house.exchanges.get)] == ["first", "second"]


# Bindings


@pytest.mark.parametrize("kind", TYPES)
def test_binding_again_changes_nothing_and_unbinding_undoes(house: House, kind: str) -> None:
    exchange = house.exchange("x", kind, {"x-delayed-type": "direct"})
    assert exchange.bind(house.queue("q"), "1", {"b": 2, "a": 1})
    assert not exchange.bind(house.queue("q"), "1", {"a": 1, "b": 2})
    assert exchange.bind(house.queue("q"), "1", {})
    assert exchange.is_bound()
    assert len(exchange.bindings()) == len(exchange.bindings_to(house.queue("q"))) == 2
    assert not exchange.unbind(house.queue("q"), "2", {})
    assert exchange.unbind(house.queue("q"), "1", {"a": 1, "b": 2})
    assert house.route("x", "1", headers={"a": 1, "b": 2}) == ["q"]
    assert exchange.unbind_destination(house.queue("q")) == 1
    assert not exchange.is_bound()
    assert exchange.destinations() == []
    assert house.route("x", "1", headers={"a": 1, "b": 2}) == []


def test_bindings_are_named_as_in_the_http_api(house: House) -> None:
    exchange, queue = house.exchange("x"), house.queue("q")
    exchange.bind(queue, "", {})
    exchange.bind(queue, "k~ /é", {})
    exchange.bind(queue, "", {"a": 1})
    exchange.bind(queue, "k", {"a": 2})
    keys = [binding.properties_key for binding in exchange.bindings()]
    assert keys[:2] == ["~", "k%7E+%2F%C3%A9"]
    assert keys[2].startswith("~")
    assert keys[3].startswith("k~")
    assert len(set(keys)) == 4


# Declaring


def declare_twice(first: Table | None = None, **changes: object) -> None:
    settings: dict[str, object] = {"durable": True, "auto_delete": False, "internal": False, "arguments": first or {}}
    exchange = create_exchange("/", "eq", "fanout", **settings)  # type: ignore[arg-type]
    settings.update(changes)
    kind = settings.pop("type", "fanout")
    check_equivalent(exchange, kind, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"type": "direct"}, "'type' for exchange 'eq' in vhost '/': received 'direct' but current is 'fanout'"),
        ({"durable": False}, "'durable' for exchange 'eq' in vhost '/': received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for exchange 'eq' in vhost '/': received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for exchange 'eq' in vhost '/': received 'true' but current is 'false'"),
        (
            {"arguments": {}},
            "'alternate-exchange' for exchange 'eq' in vhost '/': received none but current is the value 'ae' of type"
            " 'longstr'",
        ),
        (
            {"arguments": {"alternate-exchange": "other"}},
            "'alternate-exchange' for exchange 'eq' in vhost '/': received 'other' but current is 'ae'",
        ),
        (
            {"arguments": {"alternate-exchange": 1}},
            "'alternate-exchange' for exchange 'eq' in vhost '/': received '1' but current is 'ae'",
        ),
    ],
)
def test_redeclaring_an_exchange_otherwise_is_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        declare_twice({"alternate-exchange": "ae", "foo": 1}, **changes)
    assert refusal.value.text == f"inequivalent arg {text}"


def test_an_alternate_that_was_not_there_before_is_inequivalent() -> None:
    with pytest.raises(PreconditionFailed, match="received the value 'x' of type 'longstr' but current is none"):
        declare_twice({}, arguments={"alternate-exchange": "x"})


def test_other_arguments_are_not_compared() -> None:
    declare_twice({"alternate-exchange": "ae", "foo": 1}, arguments={"alternate-exchange": "ae", "foo": "bar"})


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "text"),
    [
        ("foo", {}, CommandInvalid, "unknown exchange type 'foo'"),
        (
            "direct", {"alternate-exchange": 5}, PreconditionFailed,
            "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
        ),
        (
            "x-delayed-message", {}, PreconditionFailed,
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            "x-delayed-message", {"x-delayed-type": "x-delayed-message"}, PreconditionFailed,
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ("x-delayed-message", {"x-delayed-type": "foo"}, CommandInvalid, "unknown exchange type 'foo'"),
    ],
)  # fmt: skip
def test_wrong_declarations_are_refused(kind: str, arguments: Table, error: type[AMQPError], text: str) -> None:
    with pytest.raises(error) as refusal:
        create_exchange("/", "x", kind, durable=True, auto_delete=False, internal=False, arguments=arguments)
    assert refusal.value.text == text


def test_every_virtual_host_has_the_predeclared_exchanges() -> None:
    made = {exchange.name: exchange for exchange in predeclared("v")}
    assert sorted(made) == [
        "", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.rabbitmq.trace", "amq.topic",
    ]  # fmt: skip
    assert all(exchange.durable and exchange.vhost == "v" for exchange in made.values())
    assert [name for name, exchange in made.items() if exchange.internal] == ["amq.rabbitmq.trace"]
    assert made["amq.match"].type == "headers"


def test_the_default_exchange_and_reserved_names_are_out_of_bounds(house: House) -> None:
    with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
        check_not_default("")
    with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
        check_deletable(house.exchanges[""], if_unused=False)
    with pytest.raises(AccessRefused) as refusal:
        check_not_reserved("exchange", "amq.foo")
    assert refusal.value.text == "exchange name 'amq.foo' contains reserved prefix 'amq.*'"
    with pytest.raises(AccessRefused) as refusal:
        check_deletable(house.exchanges["amq.direct"], if_unused=False)
    assert refusal.value.text == "deletion of system exchange 'amq.direct' in vhost '/' not allowed"


def test_an_exchange_in_use_is_kept_where_asked(house: House) -> None:
    exchange = house.exchange("inuse")
    check_deletable(exchange, if_unused=True)
    exchange.bind(house.queue("q"), "k", {})
    check_deletable(exchange, if_unused=False)
    with pytest.raises(PreconditionFailed, match="exchange 'inuse' in vhost '/' in use"):
        check_deletable(exchange, if_unused=True)
