"""Whatever bytes come, the answer is a value or an AMQP error, and all readers agree which."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.wire import methods
from mirrormq.wire.errors import AMQPError, CommandInvalid, FrameError, SyntaxFault
from mirrormq.wire.frames import FrameReader, content_frames, method_frame
from mirrormq.wire.methods import ExchangeDeclare, Method, QueueDeclare, decode_method
from mirrormq.wire.properties import (
    Properties,
    decode_properties,
    encode_properties,
    replace_expiration,
    replace_headers,
    replace_reply_to,
    scan_properties,
)
from mirrormq.wire.table import Table, check_table, decode_table, encode_table, join_fields, split_fields

TABLE: Table = {
    "text": "é", "bytes": b"\xff", "flag": True, "none": None, "long": 2**40, "double": 1.5,
    "list": [1, [2, {"deep": "x"}]], "table": {"a": {"b": {}}},
}  # fmt: skip
PROPERTIES = Properties(
    "text/plain", "gzip", TABLE, 2, 9, "correlation", "reply", "60000", "message", 2**40, "type", "guest", "app", "c"
)
METHODS: list[Method] = [
    kind()
    for kind in vars(methods).values()
    if isinstance(kind, type) and issubclass(kind, Method) and kind is not Method
] + [QueueDeclare("queue", arguments=TABLE), ExchangeDeclare("exchange", "topic", arguments=TABLE)]


def damage(original: bytes) -> st.SearchStrategy[bytes]:
    """The original with bytes cut off, overwritten, put in or taken out."""
    place = st.integers(0, max(0, len(original) - 1))
    junk = st.binary(max_size=4) | st.sampled_from([b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f"])
    return st.one_of(
        place.map(lambda at: original[:at]),
        st.builds(lambda at, new: original[:at] + new + original[at + len(new) :], place, junk),
        st.builds(lambda at, new: original[:at] + new + original[at:], place, junk),
        st.builds(lambda at, size: original[:at] + original[at + size :], place, st.integers(1, 8)),
    )


def outcome(read: Callable[[], object]) -> bool:
    """True if it was read. Any error but these falls through and fails the test."""
    try:
        read()
    except (FrameError, SyntaxFault, CommandInvalid):
        return False
    return True


@settings(max_examples=1000)
@given(st.binary(max_size=80) | damage(encode_table(TABLE)))
def test_damaged_tables_are_refused_by_all_readers_alike(data: bytes) -> None:
    read = outcome(lambda: decode_table(data, 0))
    assert read == outcome(lambda: check_table(data, 0))
    assert read == outcome(lambda: split_fields(data, 0))
    if read:
        assert join_fields(split_fields(data, 0)) == data[: check_table(data, 0)]


@settings(max_examples=1000)
@given(st.binary(max_size=80) | damage(encode_properties(PROPERTIES)))
def test_damaged_properties_are_refused_by_all_readers_alike(data: bytes) -> None:
    read = outcome(lambda: decode_properties(data, 0))
    assert read == outcome(lambda: scan_properties(data, 0))
    assert read == outcome(lambda: replace_headers(data, 0, None))
    assert read == outcome(lambda: replace_expiration(data, 0, "1"))
    assert read == outcome(lambda: replace_reply_to(data, 0, "r"))


@settings(max_examples=1000)
@given(st.sampled_from(METHODS).flatmap(lambda method: damage(method.encode())))
def test_damaged_methods_are_refused_or_read(data: bytes) -> None:
    outcome(lambda: decode_method(data))


@settings(max_examples=1000)
@given(st.sampled_from(METHODS), st.binary(max_size=60))
def test_random_arguments_are_refused_or_read(method: Method, arguments: bytes) -> None:
    outcome(lambda: decode_method(struct.pack(">I", method.id) + arguments))


@settings(max_examples=500)
@given(
    st.binary(max_size=60)
    | damage(method_frame(1, QueueDeclare("q")) + content_frames(1, encode_properties(PROPERTIES), b"body", 4096))
)
def test_damaged_streams_are_refused_or_read(data: bytes) -> None:
    outcome(lambda: FrameReader(4096).feed(data))


def test_every_truncation_of_every_method_is_an_error() -> None:
    for method in METHODS:
        payload = method.encode()
        for end in range(len(payload)):
            try:
                decode_method(payload[:end])
            except AMQPError:
                continue
            raise AssertionError(f"{method.name} was read from {end} of {len(payload)} bytes")
