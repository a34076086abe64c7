"""Exchanges and their bindings.

A binding is known by its destination, routing key and arguments; binding the same again changes nothing.
Each exchange keeps its bindings in a table of its type, which answers one question: to which destinations does this
envelope go from here. Following other exchanges, and the alternate one, is the business of `routing`.
`x-delayed-message` is a type around another (`inner`): it routes as that one, once the delay is over.
The default exchange has no bindings of its own: it knows queues by their names.
"""

from __future__ import annotations

from typing import Final

from mirrormq.broker.arguments import check_exchange_name_argument as check_name_argument
from mirrormq.broker.arguments import check_same_arguments, check_same_field, described
from mirrormq.broker.bindings import (
    CONSISTENT_HASH,
    MODULUS_HASH,
    Binding,
    BindingTable,
    ConsistentHashTable,
    Destination,
    Envelope,
    canonical,
    table_for,
    text_argument,
)
from mirrormq.broker.copies import GROUPS, MIRRORED, check_mirrored, groups_of
from mirrormq.broker.hashing import check_hash_arguments, check_weight
from mirrormq.broker.headers import check_match_argument
from mirrormq.broker.policy import Policy, merge
from mirrormq.wire.errors import AccessRefused, CommandInvalid, PreconditionFailed
from mirrormq.wire.table import Table

DELAYED: Final = "x-delayed-message"
TYPES: Final = ("direct", "fanout", "topic", "headers", CONSISTENT_HASH, MODULUS_HASH, DELAYED)
PREDECLARED: Final = (
    ("", "direct"), ("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.headers", "headers"),
    ("amq.match", "headers"), ("amq.rabbitmq.trace", "topic"), ("amq.topic", "topic"),
)  # fmt: skip
TRACE: Final = "amq.rabbitmq.trace"


class Exchange(Destination):
    """Made by `create_exchange`, which checks. `inner` is the type that it routes by."""

    def __init__(
        self, vhost: str, name: str, type: str, *,
        durable: bool, auto_delete: bool, internal: bool, arguments: Table,
    ) -> None:  # fmt: skip
        super().__init__(name, "exchange")
        self.vhost: str = vhost
        self.id: int = 0                # tells it from others that had its name; its delays are the log after it
        self.guard: int = 0             # revision of the record that every new binding writes, if it is auto-delete
        self.type: str = type
        self.inner: str = (text_argument(arguments, "x-delayed-type") or "direct") if type == DELAYED else type
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments
        self.groups: list[str] = groups_of(arguments)   # that have copies of what is bound to it
        self.policy: str = ""
        self.published_in: int = 0      # messages from channels, and how many queues got them
        self.published_out: int = 0
        self.operator_policy: str = ""
        self.effective_policy: dict[str, object] = {}
        self.alternate: str | None = text_argument(arguments, "alternate-exchange")
        self._table: BindingTable = table_for(self.inner, arguments)
        self._bindings: dict[tuple[str, str, str, bytes], Binding] = {}
        self._keys: dict[Destination, dict[tuple[str, str, str, bytes], None]] = {}

    @property
    def is_delayed(self) -> bool:
        return self.type == DELAYED

    @property
    def hashes_content(self) -> bool:
        """Whether a header or property of the message decides here, and not only its routing key."""
        table = self._table
        if isinstance(table, ConsistentHashTable):
            return table.header is not None or table.prop is not None
        return self.inner == "headers"

    def apply_policy(self, policy: Policy | None, operator: Policy | None) -> None:
        """An `alternate-exchange` argument stands above the policy's."""
        self.policy = "" if policy is None else policy.name
        self.operator_policy = "" if operator is None else operator.name
        self.effective_policy = merge(policy, operator)
        by_policy = self.effective_policy.get("alternate-exchange")
        argument = text_argument(self.arguments, "alternate-exchange")
        self.alternate = by_policy if argument is None and isinstance(by_policy, str) else argument

    def bindings(self) -> list[Binding]:
        return list(self._bindings.values())

    def bindings_to(self, destination: Destination) -> list[Binding]:
        return [self._bindings[key] for key in self._keys.get(destination, {})]

    def destinations(self) -> list[Destination]:
        return list(self._keys)

    def is_bound(self) -> bool:
        return bool(self._bindings)

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        if self.inner == "headers":
            check_match_argument(arguments)
        elif self.inner == CONSISTENT_HASH:
            check_weight(routing_key)

    def has_binding(self, destination: Destination, routing_key: str, arguments: Table) -> bool:
        return (destination.kind, destination.name, routing_key, canonical(arguments)) in self._bindings

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> bool:
        """Whether the binding is new."""
        self.check_binding(routing_key, arguments)
        key = (destination.kind, destination.name, routing_key, canonical(arguments))
        if key in self._bindings:
            return False
        binding = Binding(self, destination, routing_key, arguments)
        self._bindings[key] = binding
        self._keys.setdefault(destination, {})[key] = None
        self._table.add(binding)
        return True

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> bool:
        """Whether there was such a binding."""
        key = (destination.kind, destination.name, routing_key, canonical(arguments))
        if key not in self._bindings:
            return False
        self._drop(destination, key)
        return True

    def unbind_destination(self, destination: Destination) -> int:
        """How many bindings led there."""
        keys = list(self._keys.get(destination, {}))
        for key in keys:
            self._drop(destination, key)
        return len(keys)

    def _drop(self, destination: Destination, key: tuple[str, str, str, bytes]) -> None:
        self._table.remove(self._bindings.pop(key))
        keys = self._keys[destination]
        del keys[key]
        if not keys:
            del self._keys[destination]

    def match(self, envelope: Envelope) -> list[Destination]:
        """The destinations one step from here; a destination may appear more than once."""
        return self._table.match(envelope)


# Declaring and deleting


def check_not_default(name: str) -> None:
    if name == "":
        raise AccessRefused("operation not permitted on the default exchange")


def check_not_reserved(kind: str, name: str) -> None:
    """For names that do not exist yet; what exists under a reserved name may be declared again."""
    if name.startswith("amq."):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_not_system(name: str, vhost: str) -> None:
    """Before deleting: whether an exchange of that name exists is not asked."""
    check_not_default(name)
    if name.startswith("amq."):
        raise AccessRefused(f"deletion of system {described('exchange', name, vhost)} not allowed")


def check_deletable(exchange: Exchange, *, if_unused: bool) -> None:
    check_not_system(exchange.name, exchange.vhost)
    if if_unused and exchange.is_bound():
        raise PreconditionFailed(f"{described('exchange', exchange.name, exchange.vhost)} in use")


def check_type(type: str) -> None:
    if not type:
        raise CommandInvalid("invalid exchange type ''")
    if type not in TYPES:
        raise CommandInvalid(f"unknown exchange type '{type}'")


def check_equivalent(
    exchange: Exchange, type: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
) -> None:
    resource = described("exchange", exchange.name, exchange.vhost)
    check_same_field("type", type, exchange.type, resource)
    check_same_field("durable", durable, exchange.durable, resource)
    check_same_field("auto_delete", auto_delete, exchange.auto_delete, resource)
    check_same_field("internal", internal, exchange.internal, resource)
    check_same_arguments(("alternate-exchange", MIRRORED, GROUPS), arguments, exchange.arguments, resource)


def create_exchange(
    vhost: str, name: str, type: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
) -> Exchange:
    """Checks type and arguments; names and permissions are the caller's to check."""
    check_type(type)
    check_name_argument("alternate-exchange", arguments, described("exchange", name, vhost))
    check_mirrored(arguments, described("exchange", name, vhost))
    inner = _delayed_type(arguments) if type == DELAYED else type
    if inner == CONSISTENT_HASH:
        check_hash_arguments(arguments)
    return Exchange(
        vhost, name, type, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
    )


def _delayed_type(arguments: Table) -> str:
    inner = arguments.get("x-delayed-type")
    if not isinstance(inner, str):
        raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
    if inner == DELAYED:
        raise PreconditionFailed("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")
    check_type(inner)
    return inner


def predeclared(vhost: str) -> list[Exchange]:
    """The exchanges that every virtual host has, the default one first."""
    return [
        Exchange(vhost, name, type, durable=True, auto_delete=False, internal=name == TRACE, arguments={})
        for name, type in PREDECLARED
    ]
