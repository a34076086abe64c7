"""What a run is: the options after reading, and the rules they must satisfy together."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import isnan

from mirrormq.cli.perf.address import Address
from mirrormq.cli.perf.errors import BadOption
from mirrormq.cli.perf.hot.publish import NUMBERED_SIZE
from mirrormq.wire.properties import Properties, encode_properties
from mirrormq.wire.table import Table, Value, encode_table

LARGEST = 512 << 20
SIZES = {"": 1, "k": 1000, "m": 1000_000, "ki": 1024, "mi": 1024 * 1024}
# The types whose routing we know; with any other, a message counts as received when one queue had it.
KNOWN_TYPES = ("direct", "fanout", "topic", "headers")
NUMERIC_PROPERTIES = {"delivery_mode": 255, "priority": 255, "timestamp": (1 << 64) - 1}     # each with its largest
NAME_BYTES = 255


@dataclass(frozen=True)
class Settings:
    """One run of the load generator."""

    addresses: tuple[Address, ...]
    queues: tuple[str, ...]
    identity: str = "test"
    run: int = 0
    producers: int = 1
    consumers: int = 1
    exchange: str = ""
    exchange_type: str = "direct"
    routing_key: str | None = None
    binding_key: str | None = None
    size: int = 12
    confirm: int = 0
    confirm_timeout: float = 30.0
    prefetch: int = 0
    global_prefetch: int = 0
    auto_ack: bool = False
    multi_ack: int = 1
    rate: float = 0.0
    consumer_rate: float = 0.0
    persistent: bool = False
    mandatory: bool = False
    seconds: float = 0.0
    producer_messages: int = 0
    consumer_messages: int = 0
    temporary: bool = False
    durable: bool = True
    auto_delete: bool = False
    exclusive_consumers: bool = False
    predeclared: bool = False
    queue_arguments: Table = field(default_factory=dict)
    consumer_arguments: Table = field(default_factory=dict)
    properties: Properties = field(default_factory=Properties)
    heartbeat: int = 60
    frame_max: int = 131072
    interval: float = 1.0
    warmup: float = 0.0
    verify: bool = False
    processes: int = 1
    shutdown_timeout: float = 5.0

    @property
    def audits(self) -> bool:
        """Whether this run verifies what another one published."""
        return self.verify and not self.producers

    def queue_of(self, index: int) -> str:
        """The queue of the producer or consumer with this index: they are dealt out in turn."""
        return self.queues[index % len(self.queues)]

    def key_of(self, producer: int) -> str:
        """The routing key that a producer publishes with."""
        return self.queue_of(producer) if self.routing_key is None else self.routing_key

    def queues_reached(self, producer: int) -> tuple[str, ...] | None:
        """The queues that a producer's messages go to; None when only the broker knows."""
        if self.exchange == "" and self.routing_key is None:
            return (self.queue_of(producer),)
        if self.predeclared or self.exchange_type not in KNOWN_TYPES:
            return None
        if self.routing_key is None and self.exchange_type in ("direct", "topic"):
            return (self.queue_of(producer),)
        return self.queues

    def consumed_queues(self) -> frozenset[str]:
        """The queues that have a consumer of ours."""
        return frozenset(self.queue_of(index) for index in range(self.consumers))

    def copies(self, producer: int) -> int:
        """How often one message of a producer reaches our consumers."""
        reached = self.queues_reached(producer)
        consumed = self.consumed_queues()
        return min(1, len(consumed)) if reached is None else sum(queue in consumed for queue in reached)

    def addresses_for(self, index: int) -> tuple[Address, ...]:
        """All addresses, the one of this producer or consumer first."""
        first = index % len(self.addresses)
        return self.addresses[first:] + self.addresses[:first]


def check(settings: Settings) -> None:
    """Refuse what cannot work, with a sentence."""
    rules = (
        (not settings.producers and not settings.consumers, "nothing to do: no producers (-x) and no consumers (-y)"),
        (not settings.queues, "no queue to work with"),
        (
            settings.verify and settings.producers > 0 and settings.size < NUMBERED_SIZE,
            f"--verify needs messages of {NUMBERED_SIZE} bytes or more (-s)",
        ),
        (
            settings.warmup and settings.seconds and settings.warmup >= settings.seconds,
            "--warmup must be shorter than --time (-z)",
        ),
        (settings.auto_ack and settings.multi_ack > 1, "--autoack (-a) and --multi-ack-every (-A) exclude each other"),
        (settings.processes > settings.producers + settings.consumers, "more --processes than producers and consumers"),
        (any(map(isnan, _amounts(settings))), "nan is no number of messages, and none of seconds"),
    )
    for broken, text in rules:
        if broken:
            raise BadOption(text)
    _check_room(settings)


def _amounts(settings: Settings) -> tuple[float, ...]:
    return (settings.rate, settings.consumer_rate, settings.seconds, settings.warmup, settings.interval,
            settings.confirm_timeout, settings.shutdown_timeout)


def _check_room(settings: Settings) -> None:
    """AMQP has no room for long names and large numbers."""
    names = {
        "a queue's name": settings.queues,
        "an exchange's name or type": (settings.exchange, settings.exchange_type),
        "a routing key": (settings.routing_key or "", settings.binding_key or ""),
        "a virtual host's name": tuple(address.vhost for address in settings.addresses),
    }
    for what, texts in names.items():
        longest = max((len(text.encode("utf-8", "surrogateescape")) for text in texts), default=0)
        if longest > NAME_BYTES:
            raise BadOption(f"{what} has at most {NAME_BYTES} bytes, not {longest}")
    encoded: dict[str, Callable[[], bytes]] = {
        "--queue-args (-qa)": partial(encode_table, settings.queue_arguments),
        "--consumer-args (-ca)": partial(encode_table, settings.consumer_arguments),
        "--message-properties (-mp) and --message-headers (-mh)": partial(encode_properties, settings.properties),
    }
    for option, encode in encoded.items():
        try:
            encode()
        except ValueError as error:
            raise BadOption(f"{option}: {error}") from error


def run_number(identity: str, *, is_shared: bool) -> int:
    """What the messages of a run are known by: drawn from its name when another run is to know them, else at random."""
    return zlib.crc32(identity.encode()) if is_shared else int.from_bytes(os.urandom(4), "big")


def parse_size(text: str) -> int:
    """A size in bytes: 100, 4k, 64Ki, 1M."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*?)b?", text.strip().lower())
    if match is None or match[2] not in SIZES:
        raise BadOption(f"{text!r} is no size: 100, 4k, 64Ki or 1M")
    size = int(match[1]) * SIZES[match[2]]
    if size > LARGEST:
        raise BadOption(f"a message has at most 512 MiB; {text!r} is more")
    return size


def parse_pairs(text: str | None) -> Table:
    """`x-max-length=10,x-overflow=reject-publish`: numbers and true/false as such, the rest as text."""
    table: Table = {}
    for part in (text or "").split(","):
        name, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals or not name.strip():
            raise BadOption(f"{part.strip()!r} should be name=value")
        table[name.strip()] = parse_value(value.strip())
    return table


def parse_value(text: str) -> Value:
    """A number, true or false, or text."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return text == "true" if text in ("true", "false") else text


def parse_properties(pairs: Table, headers: Table, *, persistent: bool) -> Properties:
    """Message properties; names that AMQP does not know become headers."""
    properties = Properties(delivery_mode=2 if persistent else None)
    headers = dict(headers)
    for name, value in pairs.items():
        known = name.replace("-", "_").lower()
        if known == "headers" or known not in Properties.FIELDS:
            headers[name] = value
        elif known not in NUMERIC_PROPERTIES:
            setattr(properties, known, _text(pairs[name]))
        elif isinstance(value, int) and 0 <= value <= NUMERIC_PROPERTIES[known]:
            setattr(properties, known, value)
        else:
            most = NUMERIC_PROPERTIES[known]
            raise BadOption(f"the message property {name} should be a number from 0 to {most}, not {value!r}")
    properties.headers = headers or None
    return properties


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def queue_names(
    base: str | None, count: int, pattern: str | None, first: int, last: int, temporary: str
) -> tuple[str, ...]:
    """The queues: names by comma, a pattern with its range, a base with a count, or names of our own."""
    if pattern is not None:
        return _by_pattern(pattern, first, last)
    names = tuple(name.strip() for name in (base or temporary).split(",") if name.strip())
    if count <= 1:
        return names
    if len(names) > 1:
        raise BadOption("--queues counts queues of one name; give one name (-u) or all of them")
    return tuple(f"{names[0]}-{index}" for index in range(1, count + 1))


def _by_pattern(pattern: str, first: int, last: int) -> tuple[str, ...]:
    if last < first:
        raise BadOption("--queue-pattern-to must not be less than --queue-pattern-from")
    try:
        return tuple(pattern % index for index in range(first, last + 1))
    except (TypeError, ValueError) as error:
        raise BadOption(f"--queue-pattern {pattern!r} should hold one number, as in perf-%d: {error}") from error
