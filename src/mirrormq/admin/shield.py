"""What keeps strangers out: headers that tie a browser's hands, and a wait that grows with every wrong password.

Rules
 1. The first wrong passwords from an address cost nothing: people mistype. Then each doubles the wait for its answer, up to a
    limit.
 2. A right password is never kept waiting, and ends the count for its address; so does time.
 3. Whoever keeps too many answers waiting is told at once to come back later, so that waiting costs the node nothing.
"""

from __future__ import annotations

from typing import Final

HEADERS: Final = {
    "cache-control": "no-cache", "vary": "accept, accept-encoding, origin", "server": "MirrorMQ",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip
OVER_TLS: Final = {"strict-transport-security": "max-age=31536000"}
FREE: Final = 5             # wrong passwords without a wait
FIRST: Final = 0.1          # seconds
LONGEST: Final = 5.0
FORGET: Final = 300.0       # seconds after which an address starts anew
MOST_WAITING: Final = 20    # answers of one address
MOST_ADDRESSES: Final = 10_000


class _Record:
    def __init__(self) -> None:
        self.failures = 0
        self.waiting = 0
        self.last = 0.0


class Patience:
    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def is_full(self, address: str) -> bool:
        found = self._records.get(address)
        return found is not None and found.waiting >= MOST_WAITING

    def begin(self, address: str, now: float) -> float:
        """A wrong password. Returns how long its answer is to wait; `end` follows."""
        record = self._record(address, now)
        record.failures += 1
        record.waiting += 1
        over = record.failures - FREE
        return 0.0 if over <= 0 else min(LONGEST, float(FIRST * 2 ** min(over - 1, 16)))

    def end(self, address: str) -> None:
        found = self._records.get(address)
        if found is not None:
            found.waiting -= 1

    def succeeded(self, address: str) -> None:
        found = self._records.get(address)
        if found is not None:
            found.failures = 0

    def _record(self, address: str, now: float) -> _Record:
        if len(self._records) >= MOST_ADDRESSES:
            self._records = {name: record for name, record in self._records.items()
                             if record.waiting or now - record.last < FORGET}
        record = self._records.setdefault(address, _Record())
        if now - record.last > FORGET:
            record.failures = 0
        record.last = now
        return record
