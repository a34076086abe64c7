"""The PROXY protocol, versions 1 and 2: who a client is, told by the load balancer in front of the broker.

`parse` takes the first bytes of a connection and returns the header, or None while more bytes are needed; `wanted` says how
many may be read without taking what follows the header. Rules:

- A peer that does not begin with a header is refused at its first wrong byte: nobody can hold memory by trickling.
- Both versions are accepted, and nothing longer than their limits: 107 bytes, and 16 + 4096 bytes.
- A header without addresses (LOCAL, UNKNOWN, a UNIX socket) means: take the addresses of the connection itself.
- What the balancer says about TLS counts only if it says so in full; a checksum, where there is one, must be right.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

SHORTEST: Final = len(b"PROXY UNKNOWN\r\n")
MAX_V1: Final = 107
MAX_V2: Final = 16 + 4096

_V1: Final = b"PROXY "
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_LOCAL, _PROXY = 0x20, 0x21
_UNSPEC, _INET, _INET6, _UNIX = 0, 1, 2, 3
_ADDRESS_SIZE: Final = {_UNSPEC: 0, _INET: 12, _INET6: 36, _UNIX: 216}
_STREAM: Final = 1
_TYPE_CRC32C, _TYPE_SSL = 0x03, 0x20
_SSL_VERSION, _SSL_CN, _SSL_CIPHER = 0x21, 0x22, 0x23
_CLIENT_SSL, _CLIENT_CERT = 0x01, 0x06


class ProxyError(Exception):
    """The peer did not send a PROXY header, or sent a wrong one; the connection is to be closed without an answer."""


class Address(NamedTuple):
    host: str
    port: int


class ProxyTls(NamedTuple):
    """The TLS session that ended at the balancer."""

    version: str
    cipher: str
    client_name: str
    verified: bool
    """The client showed a certificate, and the balancer found it good; only then is `client_name` worth anything."""


class ProxyHeader(NamedTuple):
    size: int
    """How many bytes of the connection the header was; AMQP begins after them."""
    source: Address | None = None
    destination: Address | None = None
    tls: ProxyTls | None = None


def parse(data: bytes) -> ProxyHeader | None:
    if _V2.startswith(data[: len(_V2)]):
        return _parse_v2(data)
    if _V1.startswith(data[: len(_V1)]):
        return _parse_v1(data)
    raise ProxyError("the connection does not begin with a PROXY protocol header")


def wanted(data: bytes) -> int:
    """How many bytes of a header that begins so are surely still to come: whoever reads no more leaves the rest alone."""
    if len(data) < SHORTEST:
        return SHORTEST - len(data)
    if not data.startswith(_V2):
        return 1
    if len(data) < 16:
        return 16 - len(data)
    return 16 + int.from_bytes(data[14:16], "big") - len(data)


def _parse_v1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, MAX_V1)
    if end < 0:
        if len(data) >= MAX_V1:
            raise ProxyError(f"a PROXY line is longer than {MAX_V1} bytes")
        return None
    try:
        words = data[:end].decode("ascii").split(" ")
    except UnicodeDecodeError:
        raise ProxyError("a PROXY line holds bytes that are not ASCII") from None
    match words:
        case ["PROXY", "UNKNOWN", *_]:
            return ProxyHeader(end + 2)
        case ["PROXY", "TCP4" | "TCP6" as family, source, destination, source_port, destination_port]:
            version = int(family[-1])
            return ProxyHeader(
                end + 2,
                source=_text_address(version, source, source_port),
                destination=_text_address(version, destination, destination_port),
            )
    raise ProxyError(f"a PROXY line cannot be read: {data[:end]!r}")


def _text_address(version: int, host: str, port: str) -> Address:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ProxyError(f"{host!r} in a PROXY line is not an address") from None
    if address.version != version or "%" in host:
        raise ProxyError(f"{host!r} in a PROXY line is not an IPv{version} address")
    if not (port.isascii() and port.isdecimal() and str(int(port)) == port and int(port) <= 65535):
        raise ProxyError(f"{port!r} in a PROXY line is not a port")
    return Address(str(address), int(port))


def _parse_v2(data: bytes) -> ProxyHeader | None:
    if len(data) < 16:
        return None
    command, family_and_transport, length = struct.unpack_from(">BBH", data, 12)
    size = 16 + length
    if command not in (_LOCAL, _PROXY):
        raise ProxyError(f"PROXY version and command {command:#04x} is unknown")
    if size > MAX_V2:
        raise ProxyError(f"a PROXY header of {size} bytes is longer than {MAX_V2}")
    if len(data) < size:
        return None
    header = data[:size]
    family, transport = family_and_transport >> 4, family_and_transport & 15
    _check_family(command, family, transport, length)
    fields = list(_fields(header, 16 + _ADDRESS_SIZE.get(family, length)))
    _check_sum(header, fields)
    if command == _LOCAL:
        return ProxyHeader(size)
    source, destination = _binary_addresses(header, family)
    return ProxyHeader(size, source, destination, _tls(header, fields))


def _check_family(command: int, family: int, transport: int, length: int) -> None:
    if command == _LOCAL:
        return
    if family not in _ADDRESS_SIZE or (family != _UNSPEC and transport != _STREAM):
        raise ProxyError(f"PROXY family {family} with transport {transport} is not a stream connection")
    if length < _ADDRESS_SIZE[family]:
        raise ProxyError("a PROXY header is too short for its addresses")


def _binary_addresses(header: bytes, family: int) -> tuple[Address | None, Address | None]:
    if family not in (_INET, _INET6):
        return None, None
    layout = ">4s4sHH" if family == _INET else ">16s16sHH"
    source, destination, source_port, destination_port = struct.unpack_from(layout, header, 16)
    return (
        Address(str(ipaddress.ip_address(source)), source_port),
        Address(str(ipaddress.ip_address(destination)), destination_port),
    )


class _Field(NamedTuple):
    kind: int
    start: int
    end: int


def _fields(data: bytes, position: int) -> Iterator[_Field]:
    """The type-length-value fields from `position` to the end."""
    while position < len(data):
        if len(data) - position < 3:
            raise ProxyError("a field of a PROXY header is cut short")
        kind, length = struct.unpack_from(">BH", data, position)
        start, position = position + 3, position + 3 + length
        if position > len(data):
            raise ProxyError("a field of a PROXY header is cut short")
        yield _Field(kind, start, position)


def _check_sum(header: bytes, fields: list[_Field]) -> None:
    for field in fields:
        if field.kind == _TYPE_CRC32C:
            told = header[field.start : field.end]
            cleared = header[: field.start] + bytes(len(told)) + header[field.end :]
            if told != struct.pack(">I", crc32c(cleared)):
                raise ProxyError("the checksum of a PROXY header is wrong")


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, bit by bit: headers are short."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def _tls(header: bytes, fields: list[_Field]) -> ProxyTls | None:
    for field in fields:
        if field.kind == _TYPE_SSL:
            return _tls_field(header[field.start : field.end])
    return None


def _tls_field(value: bytes) -> ProxyTls | None:
    if len(value) < 5:
        raise ProxyError("the TLS field of a PROXY header is cut short")
    client, verify = struct.unpack_from(">BI", value)
    texts = {field.kind: value[field.start : field.end].decode("utf-8", "replace") for field in _fields(value, 5)}
    if not client & _CLIENT_SSL:
        return None
    name = texts.get(_SSL_CN, "")
    verified = bool(client & _CLIENT_CERT) and verify == 0 and name != ""
    return ProxyTls(texts.get(_SSL_VERSION, ""), texts.get(_SSL_CIPHER, ""), name, verified)
