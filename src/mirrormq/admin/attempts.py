"""Wrong passwords, at the API's door and at the page's: who guesses waits for the answer, longer each time.

Rules
 1. Failures count by name and address together, so that nobody keeps another waiting from elsewhere, and by address. The first
    cost nothing: people mistype, and many may share an address. Then each doubles the wait for its answer, up to a limit.
 2. A right password is never kept waiting, and ends the count for its name there. Time ends every count.
 3. While too many answers to an address wait, the next is told at once to come back later, and its password is not looked at: so
    that neither waiting nor guessing at once gets anybody anywhere.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mirrormq.admin.errors import ApiError

FREE: Final = {"user": 5, "address": 20}        # wrong passwords without a wait
FIRST: Final = 0.1                              # seconds
LONGEST: Final = 5.0
FORGET: Final = 300.0                           # seconds after which a count starts anew
MOST_WAITING: Final = 10                        # answers of one address
MOST: Final = 10_000                            # counts; beyond it the oldest go

Key = tuple[str, str]


class Attempts:
    def __init__(self) -> None:
        self._failures: dict[Key, tuple[int, float]] = {}
        self._waiting: dict[str, int] = {}

    def check(self, address: str) -> None:
        """ApiError where too many of that address wait already."""
        if self._waiting.get(address, 0) >= MOST_WAITING:
            raise ApiError(429, "too_many_attempts", "too many wrong passwords from this address", {"retry-after": "5"})

    async def delay(self, user: str, address: str) -> None:
        """A wrong password: returns when it may be answered."""
        wait = self.failed(user, address, asyncio.get_running_loop().time())
        self._waiting[address] = self._waiting.get(address, 0) + 1
        try:
            await asyncio.sleep(wait)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]

    def failed(self, user: str, address: str, now: float) -> float:
        """Counts it, and says how long its answer is to wait."""
        wait = 0.0
        for key in _keys(user, address):
            count, last = self._failures.pop(key, (0, now))
            count = count + 1 if now - last <= FORGET else 1
            self._failures[key] = (count, now)
            over = count - FREE[key[0]]
            wait = max(wait, 0.0 if over <= 0 else min(LONGEST, FIRST * 2.0 ** min(over - 1, 16)))
        while len(self._failures) > MOST:
            del self._failures[next(iter(self._failures))]
        return wait

    def succeeded(self, user: str, address: str) -> None:
        self._failures.pop(_keys(user, address)[0], None)


def _keys(user: str, address: str) -> tuple[Key, Key]:
    return ("user", f"{address} {user}"), ("address", address)
