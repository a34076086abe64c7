"""Password hashes in RabbitMQ's formats: base64 of a 4-byte salt and the digest of salt and password.

The salt is an argument; whoever makes a password brings the randomness.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from hmac import compare_digest
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
ALGORITHMS: Final[dict[str, str]] = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
SALT_SIZE: Final = 4


def hash_password(password: str, salt: bytes, algorithm: str = SHA256) -> str:
    assert len(salt) == SALT_SIZE
    return b64encode(salt + _digest(password, salt, algorithm)).decode("ascii")


def _digest(password: str, salt: bytes, algorithm: str) -> bytes:
    return hashlib.new(ALGORITHMS[algorithm], salt + password.encode("utf-8", "surrogateescape")).digest()


def check_password(password: str, password_hash: str, algorithm: str = SHA256) -> bool:
    """Takes as long for a near miss as for a far one. A blank or unreadable hash matches nothing."""
    try:
        stored = b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        return False
    if algorithm not in ALGORITHMS or len(stored) <= SALT_SIZE:
        return False
    salt = stored[:SALT_SIZE]
    return compare_digest(stored[SALT_SIZE:], _digest(password, salt, algorithm))


def is_password_hash(text: str) -> bool:
    """Whether definitions may carry it: base64, and empty for a user who cannot log in with a password."""
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
