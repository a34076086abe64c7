"""How long a link waits for whom: seconds, each with its reason.

Together they must satisfy:

- 3 * HEARTBEAT < SILENCE: two heartbeats may be lost in a stall and the third still comes in time.
- SILENCE + FROZEN + 2 * TICK < 3: a mirror notices a frozen node within three seconds, even if its own loop stumbles once.
- TICK < HEARTBEAT / 2: a heartbeat is late by less than half its interval.
- 2 * TICK < FROZEN: a tick that is merely late is not taken for a freeze.
- RETRY_FIRST < RETRY_LAST <= LASTED: a link that falls at once does not reset the back-off.
- DIAL < HANDSHAKE: who dials gives up first, so that its next attempt never meets the remains of the last.
- SILENCE < UNACKNOWLEDGED: the session judges first, with a sentence; the kernel's verdict is only "timed out".
"""

from __future__ import annotations

from typing import Final

HEARTBEAT: Final = 0.5
"""Nothing sent for this long: a heartbeat goes out."""

SILENCE: Final = 2.0
"""Nothing received for this long: the peer counts as gone. Long enough for a stall of the scheduler or a collection."""

TICK: Final = 0.1
"""Between two looks at all links' clocks."""

FROZEN: Final = 0.5
"""A tick that comes this late means that this process was itself stopped: it reads before it judges."""

EXCUSES: Final = 3
"""So many late ticks in a row are excused: a loop that is always late must still notice a dead peer."""

HANDSHAKE: Final = 5.0
"""From accept to the verdict, TLS included: a stranger holds a socket no longer."""

DIAL: Final = 3.0
"""From connect to the verdict, for who dials."""

RETRY_FIRST: Final = 0.05
"""The pause after the first failed attempt; it doubles. A loss of a link that lasted is followed by an attempt at once."""

RETRY_LAST: Final = 1.0
"""The longest pause: a node that comes back is linked about a second later."""

LASTED: Final = 1.0
"""A link that was up this long was a good one: its loss starts the back-off anew."""

GOODBYE: Final = 1.0
"""Last words have this long to leave the socket."""

VISIT_REQUEST: Final = 5.0
"""A visitor has this long to say what it wants, and to take the answer."""

UNACKNOWLEDGED: Final = 5.0
"""TCP_USER_TIMEOUT: bytes that the other kernel has not acknowledged for this long end the connection."""


def retry_pause(failures: int, chance: float) -> float:
    """The pause after so many failures in a row; `chance` in 0..1 spreads the nodes that lost the same peer."""
    assert failures >= 1
    longest = min(RETRY_LAST, RETRY_FIRST * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + chance / 2)


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
