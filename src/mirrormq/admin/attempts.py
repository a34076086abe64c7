"""Failed logins, by user name and by address: who fails often waits before the next try is looked at.

After `FREE` failures the wait doubles from one second up to a minute. An hour without a failure, or a success from there,
ends it. An address has more tries than a name, because many people may share one.
"""

from __future__ import annotations

from typing import Final

FREE: Final = {"user": 5, "address": 20}
LONGEST: Final = 60.0
FORGET: Final = 3600.0
MOST: Final = 10_000

Key = tuple[str, str]


class Attempts:
    def __init__(self) -> None:
        self._failures: dict[Key, tuple[int, float]] = {}

    def wait(self, user: str, address: str, now: float) -> float:
        """Seconds until a try is looked at again; 0 for now."""
        return max(self._wait(key, now) for key in _keys(user, address))

    def _wait(self, key: Key, now: float) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        over = count - FREE[key[0]]
        if over < 0 or now - last > FORGET:
            return 0.0
        return max(0.0, last + min(LONGEST, 2.0 ** min(over, 10)) - now)

    def failed(self, user: str, address: str, now: float) -> None:
        for key in _keys(user, address):
            count, last = self._failures.pop(key, (0, now))
            self._failures[key] = (count + 1 if now - last <= FORGET else 1, now)
        while len(self._failures) > MOST:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, user: str, address: str) -> None:
        self._failures.pop(_keys(user, address)[0], None)


def _keys(user: str, address: str) -> tuple[Key, Key]:
    """A name counts together with its address: nobody locks another out from elsewhere."""
    return ("user", f"{address} {user}"), ("address", address)
