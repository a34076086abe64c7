"""Declare arguments of queues and consumers: validation, equivalence on redeclare, and the settings that come of them.

Every `x-` argument that RabbitMQ knows is checked in RabbitMQ's order and refused in its words; others are kept and
ignored. Of queue types only `classic` exists here: a queue is mirrored by policy, not by type.
A queue runs with `QueueSettings`: where argument and policy both speak, the smaller of two numbers wins, and otherwise
the argument.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from mirrormq.wire.errors import PreconditionFailed, ResourceLocked
from mirrormq.wire.table import ByteArray, Table, Timestamp, Value, type_name

MAX_EXPIRY: Final = 315_360_000_000
"""Ten years in milliseconds."""

MAX_PRIORITY: Final = 255
UNSET: Final = -1

DROP_HEAD: Final = 0
REJECT_PUBLISH: Final = 1
REJECT_PUBLISH_DLX: Final = 2
OVERFLOWS: Final[dict[str, int]] = {
    "drop-head": DROP_HEAD, "reject-publish": REJECT_PUBLISH, "reject-publish-dlx": REJECT_PUBLISH_DLX,
}  # fmt: skip
LOCATORS: Final = ("client-local", "min-masters", "random")

_OF_OTHER_TYPES: Final = frozenset((
    "x-dead-letter-strategy", "x-delivery-limit", "x-initial-cluster-size", "x-max-age", "x-max-in-memory-bytes",
    "x-max-in-memory-length", "x-queue-leader-locator", "x-quorum-initial-group-size", "x-quorum-target-group-size",
    "x-stream-filter-size-bytes", "x-stream-max-segment-size-bytes",
))  # fmt: skip
_CONSUMERS_OF_OTHER_TYPES: Final = frozenset(("x-stream-filter", "x-stream-match-unfiltered", "x-stream-offset"))
_COMPARED: Final = (
    "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length",
    "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version", "x-single-active-consumer",
    "x-queue-type", "x-queue-master-locator", "x-copy-from", "x-copy-routing-key",
)  # fmt: skip


# Words


def described(kind: str, name: str, vhost: str) -> str:
    return f"{kind} '{name}' in vhost '{vhost}'"


def term(value: object, void: str = "undefined") -> str:
    """A value as RabbitMQ prints it in its error texts."""
    if isinstance(value, (str, bytes, ByteArray)):
        return _string_term(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return void
    if isinstance(value, list):
        return "[" + ",".join([term(item, void) for item in value]) + "]"
    if isinstance(value, dict):
        return "#{" + ",".join([f"{term(key, void)} => {term(item, void)}" for key, item in value.items()]) + "}"
    return str(value.seconds) if isinstance(value, Timestamp) else str(value)


def _string_term(value: str | bytes | ByteArray) -> str:
    text = _text(value)
    return f'<<"{text}">>' if text else "<<>>"


def _text(value: str | bytes | ByteArray) -> str:
    if isinstance(value, str):
        return value
    data = value if isinstance(value, bytes) else value.data
    return data.decode("utf-8", "backslashreplace")


# Equivalence


def check_same_field(name: str, wanted: object, current: object, resource: str) -> None:
    if wanted != current:
        raise PreconditionFailed(_inequivalent(name, resource, f"'{_bare(wanted)}'", f"'{_bare(current)}'"))


def check_same_arguments(names: tuple[str, ...], wanted: Table, current: Table, resource: str) -> None:
    for name in names:
        if name in wanted and name in current:
            if not _equivalent(wanted[name], current[name]):
                received, known = f"'{_bare(wanted[name])}'", f"'{_bare(current[name])}'"
                raise PreconditionFailed(_inequivalent(name, resource, received, known))
        elif name in wanted or name in current:
            raise PreconditionFailed(_inequivalent(name, resource, _given(wanted, name), _given(current, name)))


def _equivalent(wanted: Value, current: Value) -> bool:
    """Whole numbers of any width are the same, strings of both kinds, and a time is its seconds; 10 and 10.0 are not."""
    one, other = _plain(wanted), _plain(current)
    return type(one) is type(other) and one == other


def _plain(value: Value) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, ByteArray):
        return value.data
    return value.seconds if isinstance(value, Timestamp) else value


def _inequivalent(name: str, resource: str, wanted: str, current: str) -> str:
    return f"inequivalent arg '{name}' for {resource}: received {wanted} but current is {current}"


def _bare(value: object) -> str:
    return _text(value) if isinstance(value, (str, bytes, ByteArray)) else term(value)


def _given(table: Table, name: str) -> str:
    if name not in table:
        return "none"
    value = table[name]
    return f"the value '{_bare(value)}' of type '{type_name(value)}'"


def check_queue_equivalent(
    name: str, vhost: str, current: Table, arguments: Table, *,
    current_durable: bool, durable: bool, current_auto_delete: bool, auto_delete: bool,
) -> None:  # fmt: skip
    """Redeclaring must say what was declared. Exclusive access is checked before this, by `locked`."""
    resource = described("queue", name, vhost)
    check_same_field("durable", durable, current_durable, resource)
    check_same_field("auto_delete", auto_delete, current_auto_delete, resource)
    check_same_arguments(_COMPARED, _without_default_type(arguments), _without_default_type(current), resource)


def _without_default_type(arguments: Table) -> Table:
    if arguments.get("x-queue-type") != "classic":
        return arguments
    return {key: value for key, value in arguments.items() if key != "x-queue-type"}


def locked(name: str, vhost: str) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {described('queue', name, vhost)}. It could be originally declared"
        " on another connection or the exclusive property value does not match that of the original declaration."
    )


# Single values. Each returns a fault in RabbitMQ's notation, or nothing.


def integer_fault(value: Value) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return ""
    return f'"expected integer, got {type_name(value)}"'


def _count_fault(value: Value) -> str:
    fault = integer_fault(value)
    if not fault and isinstance(value, int) and value < 0:
        return f"{{value_negative,{value}}}"
    return fault


def _expiry_fault(value: Value) -> str:
    fault = _count_fault(value)
    if not fault and isinstance(value, int) and value > MAX_EXPIRY:
        return f"{{value_too_large,{value}}}"
    return fault


def _lifetime_fault(value: Value) -> str:
    return "{value_zero,0}" if value == 0 and not isinstance(value, bool) else _expiry_fault(value)


def _priority_fault(value: Value) -> str:
    fault = _count_fault(value)
    if not fault and isinstance(value, int) and value > MAX_PRIORITY:
        return f"{{max_value_exceeded,{value}}}"
    return fault


def _type_fault(value: Value, expected: str) -> str:
    actual = type_name(value)
    return "" if actual == expected else f"{{unacceptable_type,{actual}}}"


def _overflow_fault(value: Value) -> str:
    return _type_fault(value, "longstr") or ("" if value in OVERFLOWS else "invalid_overflow")


def _mode_fault(value: Value) -> str:
    known = value == "default" or value == "lazy"
    return _type_fault(value, "longstr") or ("" if known else f"\"unsupported queue mode '{_bare(value)}'\"")


def _version_fault(value: Value) -> str:
    return _count_fault(value) or ("" if value in (1, 2) else f"\"unsupported queue version '{_bare(value)}'\"")


def _queue_type_fault(value: Value) -> str:
    fault = _type_fault(value, "longstr")
    if fault or value == "classic":
        return fault
    advice = "; declare a classic queue and mirror it with an ha-mode policy" if value in ("quorum", "stream") else ""
    return f"\"unsupported queue type '{_bare(value)}'{advice}\""


def _locator_fault(value: Value) -> str:
    known = ", ".join(LOCATORS)
    fault = _type_fault(value, "longstr")
    return fault or ("" if value in LOCATORS else f"\"unsupported locator '{_bare(value)}'; known are {known}\"")


def _boolean_fault(value: Value) -> str:
    return _type_fault(value, "bool")


def _routing_key_fault(value: Value) -> str:
    """A routing key is a short string on the wire."""
    fault = _type_fault(value, "longstr")
    return fault or ("" if len(_bare(value).encode("utf-8", "surrogateescape")) <= 255 else '"longer than 255 bytes"')


def _source_fault(value: Value) -> str:
    return _routing_key_fault(value) or ("" if _bare(value) else '"it names no queue"')


_CHECKS: Final = (
    ("x-queue-type", _queue_type_fault),
    ("x-expires", _lifetime_fault),
    ("x-message-ttl", _expiry_fault),
    ("x-dead-letter-routing-key", _routing_key_fault),
    ("x-max-length", _count_fault),
    ("x-max-length-bytes", _count_fault),
    ("x-max-priority", _priority_fault),
    ("x-overflow", _overflow_fault),
    ("x-queue-mode", _mode_fault),
    ("x-queue-version", _version_fault),
    ("x-consumer-timeout", _count_fault),
    ("x-single-active-consumer", _boolean_fault),
    ("x-queue-master-locator", _locator_fault),
    ("x-copy-from", _source_fault),
    ("x-copy-routing-key", _routing_key_fault),
)


def _refuse(key: str, resource: str, fault: str) -> None:
    if fault:
        raise PreconditionFailed(f"invalid arg '{key}' for {resource}: {fault}")


def check_exchange_name_argument(key: str, arguments: Table, resource: str) -> None:
    """An argument that names an exchange must be a string, if it is there."""
    if key in arguments and type_name(arguments[key]) != "longstr":
        raise PreconditionFailed(f"invalid type '{type_name(arguments[key])}' for arg '{key}' in {resource}")


def _check_queue_arguments(arguments: Table, resource: str) -> None:
    check_exchange_name_argument("x-dead-letter-exchange", arguments, resource)
    for key, check in _CHECKS:
        if key in arguments:
            _refuse(key, resource, check(arguments[key]))
        if key == "x-dead-letter-routing-key" and key in arguments and "x-dead-letter-exchange" not in arguments:
            _refuse(key, resource, "routing_key_but_no_dlx_defined")
    if "x-copy-routing-key" in arguments and "x-copy-from" not in arguments:
        _refuse("x-copy-routing-key", resource, "\"there is no 'x-copy-from'\"")
    _refuse_of_other_types(arguments, _OF_OTHER_TYPES, resource)


def _refuse_of_other_types(arguments: Table, names: frozenset[str], resource: str) -> None:
    for key in arguments:
        if key in names:
            raise PreconditionFailed(f"invalid arg '{key}' for {resource} of queue type rabbit_classic_queue")


# Parsed


def _int(arguments: Table, key: str, default: int) -> int:
    value = arguments.get(key)
    return value if isinstance(value, int) else default


def _str(arguments: Table, key: str) -> str | None:
    value = arguments.get(key)
    return None if value is None else _bare(value)


class QueueArguments:
    """The declare arguments of one queue, valid. `table` is as the client sent them."""

    def __init__(self, table: Table) -> None:
        self.table: Table = table
        self.expires: int = _int(table, "x-expires", UNSET)
        self.message_ttl: int = _int(table, "x-message-ttl", UNSET)
        self.max_length: int = _int(table, "x-max-length", UNSET)
        self.max_length_bytes: int = _int(table, "x-max-length-bytes", UNSET)
        self.max_priority: int = _int(table, "x-max-priority", 0)
        self.consumer_timeout: int = _int(table, "x-consumer-timeout", UNSET)
        self.queue_version: int = _int(table, "x-queue-version", 0)
        self.overflow: str | None = _str(table, "x-overflow")
        self.dead_letter_exchange: str | None = _str(table, "x-dead-letter-exchange")
        self.dead_letter_routing_key: str | None = _str(table, "x-dead-letter-routing-key")
        self.queue_mode: str | None = _str(table, "x-queue-mode")
        self.queue_type: str = "classic"
        self.master_locator: str | None = _str(table, "x-queue-master-locator")
        self.copy_from: str | None = _str(table, "x-copy-from")
        self.copy_routing_key: str | None = _str(table, "x-copy-routing-key")
        self.single_active_consumer: bool = table.get("x-single-active-consumer") is True


def parse_queue_arguments(arguments: Table, queue_name: str, vhost: str) -> QueueArguments:
    resource = described("queue", queue_name, vhost)
    _check_queue_arguments(arguments, resource)
    if _str(arguments, "x-copy-from") == queue_name:
        _refuse("x-copy-from", resource, '"a queue cannot copy itself"')
    return QueueArguments(arguments)


class ConsumerArguments:
    def __init__(self, priority: int = 0, *, cancel_on_ha_failover: bool = False) -> None:
        self.priority: int = priority
        self.cancel_on_ha_failover: bool = cancel_on_ha_failover


def parse_consumer_arguments(arguments: Table, queue_name: str, vhost: str) -> ConsumerArguments:
    resource = described("queue", queue_name, vhost)
    if "x-priority" in arguments:
        _refuse("x-priority", resource, integer_fault(arguments["x-priority"]))
    if "x-cancel-on-ha-failover" in arguments:
        _refuse("x-cancel-on-ha-failover", resource, _boolean_fault(arguments["x-cancel-on-ha-failover"]))
    _refuse_of_other_types(arguments, _CONSUMERS_OF_OTHER_TYPES, resource)
    return ConsumerArguments(
        _int(arguments, "x-priority", 0), cancel_on_ha_failover=arguments.get("x-cancel-on-ha-failover") is True
    )


# Settings

_UNITS: Final[dict[str, int]] = {
    "s": 1_000, "m": 60_000, "h": 3_600_000, "D": 86_400_000, "M": 2_592_000_000, "Y": 31_536_000_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"([0-9]+)([smhDMY])")


def milliseconds(value: object) -> int:
    """A duration in a policy: milliseconds, or a number with a unit: `90s`, `10m`, `2h`, `7D`. UNSET if it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else UNSET
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _UNITS[match[2]] if match else UNSET


def _smaller(argument: int, definition: dict[str, object], key: str) -> int:
    value = definition.get(key)
    if not isinstance(value, int):
        return argument
    return value if argument == UNSET else min(argument, value)


def _first(argument: str | None, definition: dict[str, object], key: str) -> str | None:
    value = definition.get(key)
    return value if argument is None and isinstance(value, str) else argument


class QueueSettings:
    """What a queue runs with. Numbers are UNSET (-1) where nothing limits; `ha` holds the policy's mirroring keys."""

    def __init__(self, arguments: QueueArguments, definition: dict[str, object]) -> None:
        self.message_ttl: i64 = _smaller(arguments.message_ttl, definition, "message-ttl")
        self.expires: i64 = _smaller(arguments.expires, definition, "expires")
        self.max_length: i64 = _smaller(arguments.max_length, definition, "max-length")
        self.max_length_bytes: i64 = _smaller(arguments.max_length_bytes, definition, "max-length-bytes")
        self.limited: bool = self.max_length >= 0 or self.max_length_bytes >= 0
        self.overflow: i64 = OVERFLOWS.get(_first(arguments.overflow, definition, "overflow") or "", DROP_HEAD)
        self.dead_letter_exchange: str | None = _first(
            arguments.dead_letter_exchange, definition, "dead-letter-exchange"
        )
        self.dead_letter_routing_key: str | None = _first(
            arguments.dead_letter_routing_key, definition, "dead-letter-routing-key"
        )
        self.max_priority: i64 = arguments.max_priority
        self.consumer_timeout: i64 = _smaller(arguments.consumer_timeout, definition, "consumer-timeout")
        self.single_active_consumer: bool = arguments.single_active_consumer
        self.queue_mode: str = _first(arguments.queue_mode, definition, "queue-mode") or "default"
        self.log_retention: i64 = milliseconds(definition.get("log-retention"))
        self.log_retention_bytes: i64 = _smaller(UNSET, definition, "log-retention-bytes")
        self.sync_interval: i64 = milliseconds(definition.get("sync-interval"))
        self.ha: dict[str, object] = {key: value for key, value in definition.items() if key.startswith("ha-")}

    def refuse_publishes(self) -> None:
        self.limited = True
        self.max_length = 0
        self.overflow = REJECT_PUBLISH


def effective_settings(arguments: QueueArguments, policy_definition: dict[str, object]) -> QueueSettings:
    return QueueSettings(arguments, policy_definition)
