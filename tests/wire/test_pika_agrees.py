"""Our bytes are the bytes of pika, an independent implementation, for every method and property it has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pika
import pika.data
import pika.spec
import pytest

from mirrormq.wire import methods
from mirrormq.wire.methods import Method, decode_method
from mirrormq.wire.properties import Properties, decode_properties, encode_properties
from mirrormq.wire.table import ByteArray, Table, Timestamp, decode_table, encode_table

PLAIN: Table = {"x-max-length": 10, "name": "é", "flag": True, "none": None, "list": [1, "a"], "table": {"a": {}}}
NAMES = {"no_wait": "nowait", "global_": "global_qos", "failed_class_id": "class_id", "failed_method_id": "method_id"}

OURS: list[type[Method]] = [
    kind
    for kind in vars(methods).values()
    if isinstance(kind, type) and issubclass(kind, Method) and kind is not Method
]
THEIRS = pika.spec.methods


def filled(kind: type[Method], flags: bool) -> Method:
    """A method whose every field differs from its neighbours."""
    method = kind()
    for number, field in enumerate(kind.FIELDS):
        setattr(method, field, sample(getattr(method, field), number, flags))
    return method


def sample(default: object, number: int, flags: bool) -> object:
    if isinstance(default, bool):
        return flags ^ (number % 2 == 0)
    if isinstance(default, int):
        return 200 + number
    if isinstance(default, str):
        return f"text {number}"
    return b"bytes %d" % number if isinstance(default, bytes) else PLAIN


def in_pika(method: Method) -> pika.spec.amqp_object.Method:
    return THEIRS[method.id](**{NAMES.get(field, field): getattr(method, field) for field in method.FIELDS})


@pytest.mark.parametrize("flags", [False, True])
@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.name)
def test_a_method_has_pikas_bytes(kind: type[Method], flags: bool) -> None:
    method = filled(kind, flags)
    payload = method.encode()
    assert payload == kind.ID.to_bytes(4, "big") + b"".join(in_pika(method).encode())
    assert decode_method(payload) == method


def test_pika_knows_the_same_methods() -> None:
    assert set(THEIRS) == {kind.ID for kind in OURS}


def test_properties_have_pikas_bytes() -> None:
    fields: dict[str, object] = {
        "content_type": "text/plain", "content_encoding": "gzip", "headers": PLAIN, "delivery_mode": 2, "priority": 9,
        "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m", "timestamp": 2**40,
        "type": "t", "user_id": "guest", "app_id": "a", "cluster_id": "k",
    }  # fmt: skip
    for chosen in [fields, *({name: value} for name, value in fields.items()), {}]:
        ours = encode_properties(Properties(**chosen))  # type: ignore[arg-type]
        assert ours == b"".join(pika.BasicProperties(**chosen).encode())
        assert decode_properties(ours, 0) == Properties(**chosen)  # type: ignore[arg-type]


def test_a_table_has_pikas_bytes() -> None:
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    ours: Table = PLAIN | {
        "at": Timestamp(int(moment.timestamp())),
        "raw": ByteArray(b"\xff"),
        "price": Decimal("1.25"),
    }
    theirs: list[bytes] = []
    pika.data.encode_table(theirs, dict(ours) | {"at": moment, "raw": b"\xff"})
    assert encode_table(ours) == b"".join(theirs)


def test_pika_reads_our_long_integers() -> None:
    encoded = encode_table({"big": 2**40, "small": -(2**40)})
    assert pika.data.decode_table(encoded, 0)[0] == {"big": 2**40, "small": -(2**40)}
    assert decode_table(encoded, 0)[0] == {"big": 2**40, "small": -(2**40)}
