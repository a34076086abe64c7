"""Keys are text, ordered by code point, which is also the order of their UTF-8 bytes. A prefix is a range of them."""

from __future__ import annotations

from typing import Final

from .errors import BadTransaction

LAST: Final = 0x10FFFF
SURROGATES: Final = range(0xD800, 0xE000)


def prefix_end(prefix: str) -> str:
    """The first key behind all keys that begin with this prefix; the empty text where nothing is behind them."""
    while prefix and ord(prefix[-1]) == LAST:
        prefix = prefix[:-1]
    if not prefix:
        return ""
    following = ord(prefix[-1]) + 1
    if following in SURROGATES:
        following = SURROGATES.stop
    return prefix[:-1] + chr(following)


def check_key(key: str) -> None:
    if not key or "\0" in key:
        raise BadTransaction(f"{key!r} cannot be a key: it is empty or holds a zero character")
    check_text(key)


def check_lease(lease: int) -> None:
    if not 0 <= lease < 1 << 63:
        raise BadTransaction(f"{lease} cannot be a lease: it is no positive number of 63 bits")


def check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise BadTransaction(f"{text[:100]!r} cannot be stored: it is no valid Unicode text") from fault
