"""When a certificate ends: read from its file, which the standard library does not offer."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

SEQUENCE: Final = 0x30
VERSION: Final = 0xA0
GENERALIZED_TIME: Final = 0x18
BEGIN: Final = "-----BEGIN CERTIFICATE-----"
END: Final = "-----END CERTIFICATE-----"


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the DER element at `at`."""
    length = data[at + 1]
    start = at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[start:start + size], "big")
        start += size
    if start + length > len(data):
        raise ValueError("cut short")
    return data[at], start, start + length


def _inside(data: bytes, at: int) -> int:
    tag, start, _ = _element(data, at)
    if tag != SEQUENCE:
        raise ValueError("not a certificate")
    return start


def end_of_validity(der: bytes) -> datetime:
    """ValueError if this is no certificate."""
    try:
        at = _inside(der, _inside(der, 0))
        tag, _, end = _element(der, at)
        if tag == VERSION:
            at = end
        for _ in range(3):      # serial number, signature algorithm, issuer
            at = _element(der, at)[2]
        begins = _inside(der, at)
        tag, start, end = _element(der, _element(der, begins)[2])
    except IndexError:
        raise ValueError("cut short") from None
    form = "%Y%m%d%H%M%SZ" if tag == GENERALIZED_TIME else "%y%m%d%H%M%SZ"
    return datetime.strptime(der[start:end].decode("ascii"), form).replace(tzinfo=UTC)


def certificates_in(path: Path) -> list[datetime]:
    """When each certificate of a PEM file ends. OSError or ValueError if it cannot be read."""
    text = path.read_text(encoding="ascii", errors="replace")
    blocks = [BEGIN + part.split(END)[0] + END for part in text.split(BEGIN)[1:]]
    return [end_of_validity(ssl.PEM_cert_to_DER_cert(block)) for block in blocks]
