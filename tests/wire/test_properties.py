"""Content properties: decoded, scanned, and edited without touching a neighbour's byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.wire.errors import SyntaxFault
from mirrormq.wire.properties import (
    Properties,
    decode_properties,
    encode_properties,
    replace_expiration,
    replace_headers,
    replace_reply_to,
    scan_properties,
)
from mirrormq.wire.table import encode_table, encode_value, join_fields, split_fields

short = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
octet = st.integers(0, 255)
headers = st.dictionaries(short, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), short, st.lists(short)))
properties = st.builds(
    Properties,
    content_type=st.none() | short,
    content_encoding=st.none() | short,
    headers=st.none() | headers,
    delivery_mode=st.none() | octet,
    priority=st.none() | octet,
    correlation_id=st.none() | short,
    reply_to=st.none() | short,
    expiration=st.none() | short,
    message_id=st.none() | short,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=st.none() | short,
    user_id=st.none() | short,
    app_id=st.none() | short,
    cluster_id=st.none() | short,
)
prefixes = st.binary(max_size=12)


@given(properties, prefixes)
def test_properties_survive_the_wire(p: Properties, prefix: bytes) -> None:
    assert decode_properties(prefix + encode_properties(p), len(prefix)) == p


@given(properties, prefixes)
def test_a_scan_sees_what_decoding_sees(p: Properties, prefix: bytes) -> None:
    data = prefix + encode_properties(p)
    scan = scan_properties(data, len(prefix))
    assert scan.delivery_mode == (p.delivery_mode or 0)
    assert scan.priority == (-1 if p.priority is None else p.priority)
    assert (scan.expiration, scan.user_id, scan.reply_to) == (p.expiration, p.user_id, p.reply_to)
    if p.headers is None:
        assert (scan.headers_at, scan.headers_end) == (-1, -1)
    else:
        assert data[scan.headers_at : scan.headers_end] == encode_table(p.headers)


@given(properties, headers, prefixes)
def test_replacing_headers_replaces_only_headers(p: Properties, new: dict[str, object], prefix: bytes) -> None:
    data = prefix + encode_properties(p)
    table = encode_table(new)  # type: ignore[arg-type]
    replaced = replace_headers(data, len(prefix), table)
    p.headers = new  # type: ignore[assignment]
    assert replaced == encode_properties(p)
    p.headers = None
    assert replace_headers(data, len(prefix), None) == encode_properties(p)


@given(properties, st.none() | short, prefixes)
def test_replacing_the_expiration_replaces_only_the_expiration(p: Properties, new: str | None, prefix: bytes) -> None:
    data = prefix + encode_properties(p)
    p.expiration = new
    assert replace_expiration(data, len(prefix), new) == encode_properties(p)


@given(properties, st.none() | short, prefixes)
def test_replacing_reply_to_replaces_only_reply_to(p: Properties, new: str | None, prefix: bytes) -> None:
    data = prefix + encode_properties(p)
    p.reply_to = new
    assert replace_reply_to(data, len(prefix), new) == encode_properties(p)


def test_a_header_can_be_added_while_the_others_keep_their_types() -> None:
    odd = b"\x00\x00\x00\x04\x01aB\x07"
    data = b"\x20\x00" + odd
    scan = scan_properties(data, 0)
    fields = [*split_fields(data, scan.headers_at), ("b", encode_value("x"))]
    edited = replace_headers(data, 0, join_fields(fields))
    assert edited == b"\x20\x00\x00\x00\x00\x0c\x01aB\x07\x01bS\x00\x00\x00\x01x"


def test_the_flags_that_name_no_property_are_ignored_and_kept() -> None:
    data = b"\x80\x03\x01a"
    assert decode_properties(data, 0) == Properties(content_type="a")
    assert replace_expiration(data, 0, "5") == b"\x81\x03\x01a\x015"


def test_a_property_that_is_not_utf8_passes_through() -> None:
    data = b"\x80\x00\x02\xff\xfe"
    assert encode_properties(decode_properties(data, 0)) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\x80\x00",
        b"\x80\x00\x02a",
        b"\x80\x00\x01ab",
        b"\x00\x00\x00",
        b"\x10\x00",
        b"\x00\x40\x00\x00\x00\x00\x00\x00\x00",
        b"\x20\x00\x00\x00\x00",
        b"\x20\x00\x00\x00\x00\x02\x01\x01",
        b"\x20\x00\x00\x00\x00\x09\x01\x01",
    ],
)
def test_malformed_properties_are_a_syntax_error_to_every_reader(data: bytes) -> None:
    with pytest.raises(SyntaxFault):
        decode_properties(data, 0)
    with pytest.raises(SyntaxFault):
        scan_properties(data, 0)
    with pytest.raises(SyntaxFault):
        replace_headers(data, 0, None)


def test_only_what_is_set_is_shown() -> None:
    assert repr(Properties(priority=3, app_id="x")) == "Properties(priority=3, app_id='x')"
