"""Choosing one destination of several by a hash.

`Rendezvous` gives each destination a score for the key and takes the highest: shares follow the weights in the long
run, the choice depends neither on the order of bindings nor on restarts, and when a destination comes or goes only the
keys that it wins or held move. `Remainders` is the plain remainder of sharding, over destinations ordered by name.
Either counts a destination once however often it is bound; its weight is that of its oldest binding.
"""

from __future__ import annotations

from hashlib import blake2b
from math import log
from typing import Final, Generic, TypeVar

from mirrormq.broker.arguments import term
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import Table

T = TypeVar("T")

_MASK: Final = 0x7FFFFFFF
"""Products of 31 bits and less than 31 bits stay small integers, which are the fast ones when compiled."""
_UNIT: Final = 1.0 / (1 << 31)
_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


def hash_of(text: str) -> int:
    """64 bits, the same in every process and release."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def _mix(number: int) -> int:
    number = ((number ^ (number >> 15)) * 0x2C1B3C6D) & _MASK
    number = ((number ^ (number >> 12)) * 0x297A2D39) & _MASK
    return number ^ (number >> 15)


class Seat(Generic[T]):
    """One destination and the weights it was bound with, oldest first."""

    def __init__(self, name: str, value: T) -> None:
        self.seed: int = hash_of(name) & _MASK
        self.weights: list[int] = []
        self.value: T = value

    def score(self, hashed: int) -> float:
        uniform = (_mix(hashed ^ self.seed) + 0.5) * _UNIT
        return -self.weights[0] / log(uniform)


class Rendezvous(Generic[T]):
    """Weighted highest-random-weight hashing."""

    def __init__(self) -> None:
        self._seats: dict[str, Seat[T]] = {}

    def add(self, name: str, weight: int, value: T) -> None:
        seat = self._seats.get(name)
        if seat is None:
            seat = Seat(name, value)
            self._seats[name] = seat
        seat.weights.append(weight)

    def remove(self, name: str, weight: int) -> None:
        seat = self._seats[name]
        seat.weights.remove(weight)
        if not seat.weights:
            del self._seats[name]

    def pick(self, key: str) -> T | None:
        hashed = hash_of(key) & _MASK
        best = -1.0
        chosen: T | None = None
        for seat in self._seats.values():
            score = seat.score(hashed)
            if score > best:
                best, chosen = score, seat.value
        return chosen


class Remainders(Generic[T]):
    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._values: dict[str, T] = {}
        self._ordered: list[T] = []

    def add(self, name: str, value: T) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1
        self._values[name] = value
        self._order()

    def remove(self, name: str) -> None:
        self._counts[name] -= 1
        if self._counts[name] == 0:
            del self._counts[name]
            del self._values[name]
            self._order()

    def _order(self) -> None:
        self._ordered = [self._values[name] for name in sorted(self._values)]

    def pick(self, key: str) -> T | None:
        return self._ordered[hash_of(key) % len(self._ordered)] if self._ordered else None


def check_weight(routing_key: str) -> None:
    digits = routing_key[1:] if routing_key[:1] in ("+", "-") else routing_key
    if not (digits.isascii() and digits.isdigit()):
        raise PreconditionFailed(f"The binding key must be an integer: {term(routing_key)}")
    if int(routing_key) < 1:
        raise PreconditionFailed("The binding key must be greater than 0")


def check_hash_arguments(arguments: Table) -> None:
    if "hash-header" in arguments and "hash-property" in arguments:
        raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
    for key in ("hash-header", "hash-property"):
        if key in arguments and not isinstance(arguments[key], str):
            raise PreconditionFailed(f"{key} must be a string, got {term(arguments[key])}")
    prop = arguments.get("hash-property")
    if isinstance(prop, str) and prop not in _PROPERTIES:
        raise PreconditionFailed(f"Unsupported property: {prop}")
