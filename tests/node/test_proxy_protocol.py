"""The PROXY protocol: both versions, every cut, and nothing that a hostile peer may hold on to."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirrormq.node.proxy_protocol import (
    MAX_V1,
    MAX_V2,
    Address,
    ProxyError,
    ProxyHeader,
    ProxyTls,
    crc32c,
    parse,
    wanted,
)

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
AMQP = b"AMQP\x00\x00\x09\x01"
V4 = bytes([192, 0, 2, 1, 198, 51, 100, 2]) + struct.pack(">HH", 50000, 5672)
V6 = bytes(15) + b"\x01" + bytes(15) + b"\x02" + struct.pack(">HH", 50000, 5672)


def v2(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(body)) + body


def field(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def tls_field(client: int, verify: int, *fields: bytes) -> bytes:
    return field(0x20, struct.pack(">BI", client, verify) + b"".join(fields))


V1_LINE = b"PROXY TCP4 192.0.2.1 198.51.100.2 50000 5672\r\n"
TLS = tls_field(0x07, 0, field(0x21, b"TLSv1.3"), field(0x22, b"client"), field(0x23, b"AES"))
GOOD = [
    V1_LINE,
    b"PROXY TCP6 ::1 2001:db8::2 1 65535\r\n",
    b"PROXY UNKNOWN\r\n",
    b"PROXY UNKNOWN what ever 1 2\r\n",
    v2(0x21, 0x11, V4),
    v2(0x21, 0x21, V6),
    v2(0x20, 0x00, b""),
    v2(0x21, 0x31, bytes(216)),
    v2(0x21, 0x11, V4 + TLS),
]


def test_a_line_of_version_1_names_both_ends() -> None:
    assert parse(V1_LINE + AMQP) == ProxyHeader(
        len(V1_LINE), Address("192.0.2.1", 50000), Address("198.51.100.2", 5672)
    )


def test_version_1_knows_ipv6() -> None:
    header = parse(b"PROXY TCP6 ::1 2001:db8::2 1 65535\r\n")
    assert header is not None
    assert (header.source, header.destination) == (Address("::1", 1), Address("2001:db8::2", 65535))


@pytest.mark.parametrize("line", [b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN ::1 ::2 1 2\r\n"])
def test_an_unknown_client_keeps_the_address_of_the_connection(line: bytes) -> None:
    assert parse(line + AMQP) == ProxyHeader(len(line))


def test_a_header_of_version_2_names_both_ends() -> None:
    data = v2(0x21, 0x11, V4)
    assert parse(data + AMQP) == ProxyHeader(len(data), Address("192.0.2.1", 50000), Address("198.51.100.2", 5672))


def test_version_2_knows_ipv6() -> None:
    header = parse(v2(0x21, 0x21, V6))
    assert header is not None
    assert (header.source, header.destination) == (Address("::1", 50000), Address("::2", 5672))


def test_a_health_check_of_the_balancer_keeps_its_own_address() -> None:
    data = v2(0x20, 0x11, V4)
    assert parse(data) == ProxyHeader(len(data))


@pytest.mark.parametrize("data", [v2(0x21, 0x31, bytes(216)), v2(0x21, 0x00, b"")])
def test_a_client_without_an_address_is_accepted(data: bytes) -> None:
    assert parse(data) == ProxyHeader(len(data))


def test_the_tls_session_at_the_balancer_is_known() -> None:
    header = parse(v2(0x21, 0x11, V4 + field(0x04, b"pad") + TLS))
    assert header is not None
    assert header.tls == ProxyTls("TLSv1.3", "AES", "client", verified=True)


@pytest.mark.parametrize(
    ("client", "verify", "names"),
    [(0x01, 0, b"client"), (0x07, 1, b"client"), (0x03, 0xFFFFFFFF, b"client"), (0x07, 0, b"")],
)
def test_a_name_that_the_balancer_did_not_verify_is_marked_so(client: int, verify: int, names: bytes) -> None:
    header = parse(v2(0x21, 0x11, V4 + tls_field(client, verify, field(0x22, names))))
    assert header is not None
    assert header.tls is not None
    assert not header.tls.verified


def test_a_tls_field_of_a_plain_connection_counts_as_none() -> None:
    header = parse(v2(0x21, 0x11, V4 + tls_field(0, 0)))
    assert header is not None
    assert header.tls is None


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_right_checksum_is_accepted_and_a_wrong_one_is_not() -> None:
    blank = v2(0x21, 0x11, V4 + field(0x03, bytes(4)))
    right = blank[:-4] + struct.pack(">I", crc32c(blank))
    assert parse(right) is not None
    with pytest.raises(ProxyError, match="checksum"):
        parse(blank)


@pytest.mark.parametrize("data", GOOD)
def test_every_cut_of_a_header_asks_for_more(data: bytes) -> None:
    for end in range(len(data)):
        assert parse(data[:end]) is None, end
    header = parse(data)
    assert header is not None
    assert header.size == len(data)


@pytest.mark.parametrize("data", [AMQP, b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"PROXYTCP4", b"\r\n\r\n\x00\r\nQUITX"])
def test_another_protocol_is_refused_at_its_first_wrong_byte(data: bytes) -> None:
    with pytest.raises(ProxyError, match="does not begin"):
        parse(data)


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY TCP4 192.0.2.1 198.51.100.2 50000\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 50000 5672 1\r\n",
        b"PROXY TCP4  192.0.2.1 198.51.100.2 50000 5672\r\n",
        b"PROXY TCP4 192.0.2.1 ::1 50000 5672\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.2 50000 5672\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        b"PROXY TCP4 localhost 198.51.100.2 50000 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 65536 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 -1 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 01 5672\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n",
        b"PROXY \xff\r\n",
        b"PROXY \r\n",
        b"PROXY TCP4 " + b"1" * MAX_V1,
    ],
)
def test_a_wrong_line_is_refused(line: bytes) -> None:
    with pytest.raises(ProxyError):
        parse(line)


@pytest.mark.parametrize(
    "data",
    [
        v2(0x11, 0x11, V4),
        v2(0x22, 0x11, V4),
        v2(0x21, 0x12, V4),
        v2(0x21, 0x41, V4),
        v2(0x21, 0x21, V4),
        v2(0x21, 0x11, V4 + b"\x04"),
        v2(0x21, 0x11, V4 + b"\x04\x00\x05abc"),
        v2(0x21, 0x11, V4 + field(0x20, b"abc")),
        SIGNATURE + struct.pack(">BBH", 0x21, 0x11, MAX_V2),
    ],
)
def test_a_wrong_binary_header_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyError):
        parse(data)


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=150).map(b"PROXY ".__add__),
        st.builds(v2, st.sampled_from([0x20, 0x21]), st.integers(0, 255), st.binary(max_size=300)),
        st.tuples(st.sampled_from(GOOD), st.integers(0, 300), st.integers(0, 255)).map(
            lambda t: t[0][: t[1]] + bytes([t[2]]) + t[0][t[1] + 1 :]
        ),
    )
)
@example(b"")
def test_no_bytes_do_anything_but_parse_wait_or_be_refused(data: bytes) -> None:
    try:
        header = parse(data)
    except ProxyError:
        return
    if header is None:
        assert len(data) < MAX_V2
    else:
        assert 0 < header.size <= len(data)
        assert parse(data[: header.size]) == header


@given(st.binary(max_size=400), st.integers(0, 400))
def test_an_answer_never_changes_when_more_bytes_arrive(data: bytes, cut: int) -> None:
    def answer(part: bytes) -> ProxyHeader | str | None:
        try:
            return parse(part)
        except ProxyError:
            return "refused"

    early = answer(data[:cut])
    assert early is None or early == answer(data)


@pytest.mark.parametrize("header", GOOD)
def test_a_reader_that_takes_what_is_wanted_leaves_alone_what_follows(header: bytes) -> None:
    data, got = header + AMQP, b""
    while (parsed := parse(got) if got else None) is None:
        assert wanted(got) > 0
        got += data[len(got) : len(got) + wanted(got)]
    assert (got, parsed.size) == (header, len(header))
