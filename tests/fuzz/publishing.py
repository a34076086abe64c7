"""What a client may publish: properties, bodies in many frames, routing keys."""

from __future__ import annotations

from random import Random

from mirrormq.wire.methods import (
    BasicPublish,
)
from mirrormq.wire.properties import Properties, encode_properties

from .phrase import Phrase, any_exchange, flag, said
from .vocabulary import (
    EXPIRATIONS,
    HEADERS,
    KEYS,
    LONG,
    REPLY_TO,
    SIZES,
)


def _properties(rng: Random) -> bytes:
    if flag(rng, 0.5):
        return encode_properties(Properties(delivery_mode=rng.choice((1, 2, 2)), priority=rng.choice((None, 1, 4))))
    return _odd_properties(rng)


def _odd_properties(rng: Random) -> bytes:
    found = Properties(delivery_mode=rng.choice((None, 1, 2, 2, 2, 2, 2, 2, 2, 0, 3, 255)))
    if flag(rng, 0.6):
        found.headers = rng.choice(HEADERS)
    if flag(rng):
        found.expiration = rng.choice(EXPIRATIONS)
    if flag(rng):
        found.priority = rng.choice((0, 1, 3, 4, 255))
    if flag(rng, 0.1):
        found.reply_to = rng.choice((REPLY_TO, f"{REPLY_TO}.token", "q0", ""))
    if flag(rng, 0.1):
        found.user_id = rng.choice(("guest", "clerk", "", "\udcff"))
    if flag(rng, 0.1):
        found.message_id, found.correlation_id, found.timestamp = "\udc80", LONG, 2**64 - 1
    return encode_properties(found)


def content(rng: Random, properties: bytes, size: int) -> Phrase:
    """Header and body, the body cut into one or many frames, empty ones too."""
    parts: Phrase = [(2, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties)]
    left = size
    most = rng.choice((4000, 4088, 4088, 4096))
    while left:
        step = min(left, most) if flag(rng, 0.8) else rng.randint(0, min(left, most))
        parts.append((3, bytes([65 + left % 26]) * step))
        left -= step
    return parts


def publish(rng: Random) -> Phrase:
    if flag(rng, 0.6):
        exchange, key = "", rng.choice(KEYS)
    else:
        exchange, key = any_exchange(rng), rng.choice((*KEYS, REPLY_TO, f"{REPLY_TO}-token00000000000000001", LONG))
    method = BasicPublish(exchange, key, mandatory=flag(rng), immediate=flag(rng, 0.03))
    return [*said(method), *content(rng, _properties(rng), rng.choice(SIZES))]


def publish_many(rng: Random) -> Phrase:
    return [part for _ in range(rng.randint(2, 6)) for part in publish(rng)]


def publish_to(rng: Random, queue: str, count: int) -> Phrase:
    """Messages that arrive."""
    parts: Phrase = []
    for _ in range(count):
        properties = encode_properties(Properties(delivery_mode=rng.choice((1, 2)), priority=rng.choice((None, None, 0, 3))))
        parts += [
            *said(BasicPublish("", queue, mandatory=flag(rng))),
            *content(rng, properties, rng.choice(SIZES[:9])),
        ]
    return parts
