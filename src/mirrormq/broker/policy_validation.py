"""What a policy may say. Faults are RabbitMQ's sentences; the first one found is raised as `PolicyFault`.

Order: priority, pattern, apply-to, then the definition: queue and exchange keys, mirroring, our own keys, unknown keys.
Keys for features that live elsewhere (federation, sharding) are accepted and kept, so that definitions exported from
RabbitMQ can be imported.
Keys of our own, which RabbitMQ does not have, are in `OUR_KEYS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from mirrormq.broker.arguments import LOCATORS, OVERFLOWS, milliseconds, term
from mirrormq.broker.policy import APPLY_TO, PatternError, compile_pattern

Rule: TypeAlias = tuple[Callable[[object], bool], str]
"""Whether a value is good, and the sentence after the value if it is not."""


class PolicyFault(ValueError):
    """A policy that cannot be. The HTTP API and commands print `validation_failed(fault)`."""


def validation_failed(fault: object) -> str:
    return f"Validation failed\n\n{fault}\n"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: object) -> bool:
    return _is_count(value) and value != 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_routing_key(value: object) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= 255


def _is_mode(value: object) -> bool:
    return value in ("default", "lazy")


def _is_version(value: object) -> bool:
    return _is_count(value) and value in (1, 2)


def _is_overflow(value: object) -> bool:
    return isinstance(value, str) and value in OVERFLOWS


def _is_strategy(value: object) -> bool:
    return value in ("at-most-once", "at-least-once")


def _is_max_age(value: object) -> bool:
    return isinstance(value, str) and milliseconds(value) > 0


def _is_leader_locator(value: object) -> bool:
    return value in ("client-local", "balanced", "random", "least-leaders")


def _is_locator(value: object) -> bool:
    return value in LOCATORS


def _is_period(value: object) -> bool:
    return milliseconds(value) >= 0


def _is_replication(value: object) -> bool:
    return value in ("sync", "async")


QUEUE_KEYS: Final[dict[str, Rule]] = {
    "alternate-exchange": (_is_text, "is not a valid alternate exchange name"),
    "consumer-timeout": (_is_positive, "is not a valid consumer timeout"),
    "dead-letter-exchange": (_is_text, "is not a valid dead letter exchange name"),
    "dead-letter-routing-key": (_is_routing_key, "is not a valid dead letter routing key"),
    "dead-letter-strategy": (_is_strategy, "is not a valid dead letter strategy"),
    "delivery-limit": (_is_count, "is not a valid delivery limit"),
    "expires": (_is_positive, "is not a valid queue expiry"),
    "initial-cluster-size": (_is_count, "is not a valid cluster size"),
    "max-age": (_is_max_age, "is not a valid max age"),
    "max-in-memory-bytes": (_is_count, "is not a valid maximum memory in bytes"),
    "max-in-memory-length": (_is_count, "is not a valid maximum memory in bytes"),
    "max-length": (_is_count, "is not a valid maximum length"),
    "max-length-bytes": (_is_count, "is not a valid maximum length in bytes"),
    "message-ttl": (_is_count, "is not a valid message TTL"),
    "overflow": (_is_overflow, "is not a valid overflow value"),
    "queue-leader-locator": (_is_leader_locator, "is not a valid queue leader locator value"),
    "queue-master-locator": (_is_locator, "invalid queue-master-locator value"),
    "queue-mode": (_is_mode, "is not a valid queue-mode value"),
    "queue-version": (_is_version, "is not a valid queue-version value"),
    "stream-filter-size-bytes": (_is_count, "is not a valid filter size"),
    "stream-max-segment-size-bytes": (_is_count, "is not a valid segment size"),
    "target-group-size": (_is_positive, "is not a valid qq target count value"),
}

OUR_KEYS: Final[dict[str, Rule]] = {
    "ha-min-in-sync": (_is_positive, "is not a valid ha-min-in-sync value; it is a number of members, at least 1"),
    "ha-replication": (_is_replication, 'is not a valid ha-replication value; it is "sync" or "async"'),
    "lake-retention": (_is_period, 'is not a valid lake-retention; it is milliseconds, or a time such as "90s" or "7D"'),
    "lake-retention-bytes": (_is_count, "is not a valid lake-retention-bytes; it is a number of bytes"),
    "log-retention": (_is_period, 'is not a valid log-retention; it is milliseconds, or a time such as "90s" or "7D"'),
    "log-retention-bytes": (_is_count, "is not a valid log-retention-bytes; it is a number of bytes"),
    "undo-bytes": (_is_count, "is not a valid undo-bytes; it is a number of bytes"),
    "undo-time": (_is_period, 'is not a valid undo-time; it is milliseconds, or a time such as "10m"; 0 for none'),
    "sync-interval": (_is_period, 'is not a valid sync-interval; it is milliseconds, or a time such as "10s"'),
}

KEPT_KEYS: Final = frozenset((
    "federation-upstream", "federation-upstream-pattern", "federation-upstream-set", "routing-key", "shards-per-node",
))  # fmt: skip

MIRROR_KEYS: Final = frozenset((
    "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure",
))  # fmt: skip

OPERATOR_KEYS: Final = frozenset((
    "expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes",
    "delivery-limit", "target-group-size", "ha-mode", "ha-params", "ha-sync-mode", "ha-min-in-sync", "ha-replication",
    "lake-retention", "lake-retention-bytes", "log-retention", "log-retention-bytes",
))  # fmt: skip


def validate_policy(
    pattern: object, definition: object, priority: object = 0, apply_to: object = "all", *, operator: bool = False
) -> None:
    """PolicyFault unless all of it can stand."""
    if isinstance(priority, bool) or not isinstance(priority, (int, float)):
        raise PolicyFault(f"priority should be a number, actually was {_term(priority)}")
    _check_pattern(pattern)
    if apply_to not in APPLY_TO:
        raise PolicyFault(
            f"apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues', "
            " 'quorum_queues', 'streams', 'exchanges', or 'all'"
        )
    validate_definition(definition, operator=operator)


def _term(value: object) -> str:
    return term(value, "null")


def _check_pattern(pattern: object) -> None:
    if not isinstance(pattern, str):
        raise PolicyFault(f"pattern should be a binary but was {_term(pattern)}")
    try:
        compile_pattern(pattern)
    except PatternError as error:
        raise PolicyFault(
            f'pattern should be regular expression but is invalid: {{"{error.reason}",{error.position}}}'
        ) from None


def validate_definition(definition: object, *, operator: bool = False) -> None:
    if not isinstance(definition, dict):
        raise PolicyFault(f"definition must be a dictionary: {_term(definition)}")
    if not definition:
        raise PolicyFault("no policy provided")
    entries: dict[str, object] = {key: definition[key] for key in sorted(definition)}
    known = {key: value for key, value in entries.items() if _is_known(key, operator=operator)}
    _check_rules(QUEUE_KEYS, known)
    _check_mirroring(known)
    _check_rules(OUR_KEYS, known)
    unknown = [f"{{{_term(key)},{_term(value)}}}" for key, value in entries.items() if key not in known]
    if unknown:
        raise PolicyFault(f"[{','.join(unknown)}] are not recognised policy settings")


def _is_known(key: str, *, operator: bool) -> bool:
    if operator:
        return key in OPERATOR_KEYS
    return key in QUEUE_KEYS or key in MIRROR_KEYS or key in OUR_KEYS or key in KEPT_KEYS


def _check_rules(rules: Mapping[str, Rule], entries: Mapping[str, object]) -> None:
    for key, value in entries.items():
        if key in rules:
            is_good, sentence = rules[key]
            if not is_good(value):
                raise PolicyFault(f"{_term(value)} {sentence}")


# Mirroring


def _check_mirroring(entries: Mapping[str, object]) -> None:
    if not any(key.startswith("ha-") for key in entries):
        return
    if "ha-mode" not in entries:
        raise PolicyFault("ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown")
    _check_mode(entries["ha-mode"], entries)
    _check_choice("ha-sync-mode", "manual", "automatic", entries)
    if "ha-sync-batch-size" in entries and not _is_positive(entries["ha-sync-batch-size"]):
        given = _term(entries["ha-sync-batch-size"])
        raise PolicyFault(f"ha-sync-batch-size takes an integer greater than 0, {given} given")
    _check_choice("ha-promote-on-shutdown", "always", "when-synced", entries)
    _check_choice("ha-promote-on-failure", "always", "when-synced", entries)


def _check_choice(key: str, first: str, second: str, entries: Mapping[str, object]) -> None:
    if key in entries and entries[key] not in (first, second):
        raise PolicyFault(f'{key} must be "{first}" or "{second}", got {_term(entries[key])}')


def _check_mode(mode: object, entries: Mapping[str, object]) -> None:
    if mode == "all":
        if "ha-params" in entries:
            raise PolicyFault('ha-mode="all" does not take parameters')
    elif mode == "exactly":
        if not _is_positive(entries.get("ha-params")):
            raise PolicyFault(f'ha-mode="exactly" takes an integer, {_given(entries)} given')
    elif mode == "nodes":
        _check_nodes(entries)
    else:
        raise PolicyFault(f"{_term(mode)} is not a valid ha-mode value")


def _check_nodes(entries: Mapping[str, object]) -> None:
    nodes = entries.get("ha-params")
    if not isinstance(nodes, list):
        raise PolicyFault(f'ha-mode="nodes" takes a list, {_given(entries)} given')
    if not nodes:
        raise PolicyFault('ha-mode="nodes" list must be non-empty')
    wrong = [node for node in nodes if not isinstance(node, str)]
    if wrong:
        raise PolicyFault(f'ha-mode="nodes" takes a list of strings, {_term(wrong)} was not a string')


def _given(entries: Mapping[str, object]) -> str:
    return _term(entries["ha-params"]) if "ha-params" in entries else "none"
