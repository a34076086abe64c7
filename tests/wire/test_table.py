"""Field tables: values survive the wire, bytes survive an edit, and what cannot be written says so."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.wire.errors import SyntaxFault
from mirrormq.wire.table import (
    MAX_DEPTH,
    ByteArray,
    Table,
    Timestamp,
    Value,
    check_table,
    decode_table,
    decode_value,
    encode_shortstr,
    encode_table,
    encode_value,
    join_fields,
    split_fields,
    type_name,
)

text = st.text(st.characters(exclude_categories=["Cs"]))
names = text.filter(lambda name: len(name.encode()) <= 255)
not_text = st.binary(min_size=1).filter(lambda data: not is_utf8(data))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**31), 2**31 - 1).map(lambda digits: Decimal(digits).scaleb(-2)),
    text,
    not_text,
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.binary().map(ByteArray),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
tables = st.dictionaries(names, values, max_size=6)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def raw_table(fields: bytes) -> bytes:
    return len(fields).to_bytes(4, "big") + fields


def nested(depth: int) -> Table:
    table: Table = {}
    for _ in range(depth - 1):
        table = {"a": table}
    return table


@given(tables, st.binary(max_size=5), st.binary(max_size=5))
def test_a_table_survives_the_wire_wherever_it_stands(table: Table, before: bytes, after: bytes) -> None:
    encoded = encode_table(table)
    assert decode_table(before + encoded + after, len(before)) == (table, len(before) + len(encoded))
    assert check_table(before + encoded + after, len(before)) == len(before) + len(encoded)


@given(values)
def test_a_value_survives_the_wire_with_its_type(value: Value) -> None:
    back = decode_value(encode_value(value))
    assert back == value
    assert type(back) is type(value)
    assert type_name(back) == type_name(value)


@given(tables)
def test_splitting_and_joining_a_table_changes_no_byte(table: Table) -> None:
    raw = encode_table(table)
    fields = split_fields(raw, 0)
    assert join_fields(fields) == raw
    assert {key: decode_value(value) for key, value in fields} == table


def test_fields_that_encoding_would_change_are_kept_by_splitting() -> None:
    raw = raw_table(b"\x01aB\xff\x01au\x00\x07\x01bf\x3f\x80\x00\x00\x02\xff\xfeb\x80")
    fields = split_fields(raw, 0)
    assert [key for key, _ in fields] == ["a", "a", "b", "\udcff\udcfe"]
    assert join_fields(fields) == raw


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (b"t\x00", False),
        (b"t\xff", True),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65534),
        (b"I\xff\xff\xff\xfe", -2),
        (b"i\xff\xff\xff\xfe", 4294967294),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
        (b"L\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
        (b"f\x3f\xc0\x00\x00", 1.5),
        (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
        (b"D\x02\x00\x00\x00\x7d", Decimal("1.25")),
        (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
        (b"S\x00\x00\x00\x01\xff", b"\xff"),
        (b"A\x00\x00\x00\x03Vt\x01", [None, True]),
        (b"T\x00\x00\x00\x00\x00\x00\x00\x05", Timestamp(5)),
        (b"F\x00\x00\x00\x03\x01aV", {"a": None}),
        (b"V", None),
        (b"x\x00\x00\x00\x02\x00\xff", ByteArray(b"\x00\xff")),
    ],
)
def test_every_type_of_rabbitmq_is_read_as_rabbitmq_reads_it(encoded: bytes, value: Value) -> None:
    assert decode_value(encoded) == value
    assert decode_table(raw_table(b"\x01k" + encoded), 0)[0] == {"k": value}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (True, "bool"),
        (2**31 - 1, "signedint"),
        (-(2**31), "signedint"),
        (2**31, "long"),
        ("a", "longstr"),
        (b"\xff", "longstr"),
        ({}, "table"),
        ([], "array"),
        (1.0, "double"),
        (Timestamp(1), "timestamp"),
        (None, "void"),
        (ByteArray(b""), "binary"),
        (Decimal("1.5"), "decimal"),
    ],
)
def test_types_have_the_names_that_rabbitmq_gives_them(value: Value, name: str) -> None:
    assert type_name(value) == name


@pytest.mark.parametrize(
    "fields",
    [
        b"\x01",
        b"\x01a",
        b"\x05a",
        b"\x01aZ",
        b"\x01aI\x00\x00\x00",
        b"\x01aS\x00\x00\x00",
        b"\x01aS\x00\x00\x00\x02a",
        b"\x01aF\x00\x00\x00\x01\x01",
        b"\x01aA\x00\x00\x00\x01I",
        b"\x01aA\xff\xff\xff\xff",
        b"\x01ad\x7f\xf8\x00\x00\x00\x00\x00\x00",
        b"\x01af\x7f\x80\x00\x00",
    ],
)
def test_a_malformed_table_is_a_syntax_error_to_every_reader(fields: bytes) -> None:
    raw = raw_table(fields)
    with pytest.raises(SyntaxFault):
        decode_table(raw, 0)
    with pytest.raises(SyntaxFault):
        check_table(raw, 0)
    with pytest.raises(SyntaxFault):
        split_fields(raw, 0)


@pytest.mark.parametrize("raw", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\xff\xff\xff\xff"])
def test_a_table_that_ends_too_soon_is_a_syntax_error(raw: bytes) -> None:
    with pytest.raises(SyntaxFault):
        decode_table(raw, 0)


def test_nesting_is_allowed_up_to_the_limit_and_refused_beyond() -> None:
    deepest = encode_table(nested(MAX_DEPTH))
    assert decode_table(deepest, 0)[0] == nested(MAX_DEPTH)
    assert check_table(deepest, 0) == len(deepest)
    with pytest.raises(SyntaxFault):
        decode_table(raw_table(b"\x01aF" + deepest), 0)
    with pytest.raises(SyntaxFault):
        split_fields(raw_table(b"\x01aF" + deepest), 0)
    with pytest.raises(ValueError, match="nested"):
        encode_table(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_a_hostile_nest_does_not_exhaust_the_stack(kind: bytes) -> None:
    inner = b""
    for _ in range(5000):
        inner = (b"\x01a" if kind == b"F" else b"") + kind + raw_table(inner)
    for read in (decode_table, check_table, split_fields):
        with pytest.raises(SyntaxFault):
            read(raw_table((b"" if kind == b"F" else b"\x01a") + inner), 0)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        math.nan,
        math.inf,
        Timestamp(-1),
        Timestamp(2**64),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1e20"),
        Decimal("12345678901.5"),
        Decimal("1e-256"),
        "\ud800",
    ],
)
def test_a_value_that_no_table_can_hold_is_refused(value: Value) -> None:
    with pytest.raises(ValueError):
        encode_value(value)


def test_a_short_string_holds_255_bytes() -> None:
    assert encode_shortstr("é" * 127 + "a") == b"\xff" + ("é" * 127 + "a").encode()
    with pytest.raises(ValueError, match="256"):
        encode_shortstr("é" * 128)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (Decimal(3), b"D\x00\x00\x00\x00\x03"),
        (Decimal("2e3"), b"D\x00\x00\x00\x07\xd0"),
        (Decimal("-0.5"), b"D\x01\xff\xff\xff\xfb"),
    ],
)
def test_decimals_are_written_as_scale_and_digits(value: Decimal, encoded: bytes) -> None:
    assert encode_value(value) == encoded
    assert decode_value(encoded) == value


def test_timestamps_and_byte_arrays_are_values_of_their_own() -> None:
    assert Timestamp(5) != 5
    assert int(Timestamp(5)) == 5
    assert ByteArray(b"a") != b"a"
    assert bytes(ByteArray(b"a")) == b"a"
    assert len({Timestamp(5), Timestamp(5), ByteArray(b"a"), ByteArray(b"a")}) == 2
