"""The words of the grammar: names, arguments and properties that matter, good and bad."""

from __future__ import annotations

from decimal import Decimal

from mirrormq.wire.table import ByteArray, Table, Timestamp, Value

LONG = "x" * 255
QUEUES = ("q0", "q1", "q2", "q3", "p0", "q0", "q1")
ODD_QUEUES = ("", "", "missing", "amq.rabbitmq.reply-to", "amq.gen-none", LONG, "sch\u00f6n", "a\r\nb")
TYPES = {
    "e0": "direct", "e1": "fanout", "e2": "topic", "e3": "headers", "e4": "x-consistent-hash", "e5": "x-modulus-hash",
    "e6": "x-delayed-message",
}  # fmt: skip
EXCHANGES = tuple(TYPES)
ODD_EXCHANGES = ("", "", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.rabbitmq.trace", "missing", LONG)
KEYS = ("q0", "q1", "q2", "p0", "k", "a.b", "a", "")
PATTERNS = ("k", "a.b", "a.*", "#", "*", "a.#.b", "", "1", "3", "0", "-1", "+2", "abc", "a..b", LONG)
TAGS = ("t0", "t1", "t2", "", LONG)

NUMBERS: tuple[Value, ...] = (0, 1, 5, 1000, -1, 2**31, 2**63 - 1, 315_360_000_001, True, 1.5, "5", None)
TEXTS: tuple[Value, ...] = ("", "e0", "e1", "q0", "", "missing", LONG + LONG, b"\xff\xfe", 5, True, [1], {"a": 1}, None)
QUEUE_ARGUMENTS: tuple[tuple[str, tuple[Value, ...]], ...] = (
    ("x-message-ttl", NUMBERS), ("x-expires", NUMBERS), ("x-max-length", NUMBERS), ("x-max-length-bytes", NUMBERS),
    ("x-max-priority", (1, 3, 255, 0, 256, -1, "3")), ("x-dead-letter-exchange", TEXTS),
    ("x-dead-letter-routing-key", TEXTS),
    ("x-overflow", ("drop-head", "reject-publish", "reject-publish-dlx", "no", 1)),
    ("x-queue-mode", ("lazy", "default", "no")), ("x-queue-type", ("classic", "quorum", "stream", 1)),
    ("x-single-active-consumer", (True, False, "yes")), ("x-consumer-timeout", NUMBERS), ("x-queue-version", (1, 2, 3)),
    ("x-queue-master-locator", ("min-masters", "no")), ("x-max-age", ("1D",)), ("unknown", TEXTS),
)  # fmt: skip
SENSIBLE_ARGUMENTS: tuple[Table, ...] = (
    {}, {}, {}, {"x-max-priority": 4}, {"x-max-length": 2}, {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-max-length": 0, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "e1"},
    {"x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    {"x-message-ttl": 0, "x-dead-letter-exchange": "e0"}, {"x-dead-letter-exchange": "e6"},
    {"x-max-length-bytes": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q0"},
    {"x-expires": 50}, {"x-single-active-consumer": True},
)  # fmt: skip
VALUES: tuple[Value, ...] = (
    *NUMBERS, *TEXTS, Decimal("1.25"), Decimal(0).scaleb(-255), Timestamp(0), Timestamp(2**64 - 1),
    ByteArray(b"\x00\xff"), [], {}, [[], {}, "a", 2**40], {"": {"deep": [None]}}, 1e308, -0.0,
)  # fmt: skip
DEATHS: tuple[Value, ...] = (
    [{"queue": "q0", "reason": "expired", "count": 2**63 - 1, "exchange": "", "routing-keys": ["q0"]}],
    [{"queue": "q1", "reason": "rejected", "count": "many"}], [{"queue": "q0", "reason": "maxlen", "count": -(2**63)}],
    [{}], [1, 2], {}, "dead", [{"queue": 5, "reason": {"a": [1]}}], [],
    [{"queue": "q0", "reason": "expired", "count": 1.5}],
)  # fmt: skip
COPIES: tuple[Value, ...] = (
    ["q0", "q1"], ["a.b", 5, None], "q0", 5, None, [], {}, [LONG + LONG], [b"\xff"], {"a": 1},
)  # fmt: skip
DELAYS: tuple[Value, ...] = (
    1, 5, 0, -5, 2**40, 2**63 - 1, "5", "9" * 5000, "\u0665", 1.5, 1e300, True, None, [1],
)  # fmt: skip
HEADERS: tuple[Table | None, ...] = (
    None, None, {}, {"a": 1}, {"a": "1", "x-b": True},
    *[{"x-death": death} for death in DEATHS],
    *[{"x-delay": delay} for delay in DELAYS],
    *[{"CC": copies} for copies in COPIES], *[{"BCC": copies} for copies in COPIES],
    {"CC": ["q1"], "BCC": ["q2"], "x-delay": 3}, {"hash": "abc"}, {"hash": b"\xff\xfe"}, {"hash": [1, {"b": None}]},
)  # fmt: skip
EXPIRATIONS = (
    None, None, None, "0", "1", "5", "1000", "", "abc", "-1", "--5", "++5", "+5", "1.5", " 5", "9" * 60, "-", "+",
    "315360000001", "\u0665", "\udcff", "1_000",
)  # fmt: skip
SIZES = (0, 1, 1, 10, 10, 10, 100, 100, 1000, 3000, 4096, 9000)
CLIENT_PROPERTIES: Table = {
    "product": "fuzz",
    "capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True, "connection.blocked": True},
}
REPLY_TO = "amq.rabbitmq.reply-to"

PROTOCOL_HEADERS = (
    b"AMQP\x00\x00\x09\x01", b"AMQP\x00\x00\x09\x00", b"AMQP\x01\x01\x00\x09", b"AMQP\x03\x01\x00\x00", b"GET / HT",
    b"\x16\x03\x01\x02\x00\x01\x00\x01", b"AMQP", b"amqp\x00\x00\x09\x01",
)  # fmt: skip
