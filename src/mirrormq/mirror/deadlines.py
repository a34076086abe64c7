"""How long the members of a ring wait for each other: every limit in one place, in seconds, each with its reason.

A link tells of its end by itself (at once when the connection breaks, after two seconds of silence when the peer is frozen);
what is here begins after that. Together they must satisfy:

- PROPOSAL_RETRY > a slow answer of the store, else a proposal races with itself and always loses.
- STAGGER > a round trip of the store and the watch: the member behind must see that the one before it has taken over.
- RESTART_GRACE > STAGGER * (longest usual ring - 2): a restarted member lets those go first that have lost nothing.
- FORCE_AFTER > RESTART_GRACE + STAGGER * ring: a mirror that is not in sync leads only when no better one came.
- SLOW + PROBE + PROBE_AGAIN > a link's SILENCE: a leader whom nobody answers learns first whether its links are dead.
- SLOW + PROBE + PROBE_AGAIN < 3: a member that is silent, or one of several that stands still, is out of the ring within
  the three seconds that users are promised.
- LAST > how long a busy disk may take for one sync: without the last mirror, what is confirmed is on one node alone.
- ALONE > a link's HEARTBEAT + a round trip of the store: two sides of a cut notice it so far apart, and the larger one must win.
- SILENCE of a link + ALONE < 3: and yet the smaller one goes on within the same three seconds, if there is no other.
- STOOD_STILL < a link's SILENCE - its HEARTBEAT: who was frozen for less cannot have been replaced for its silence.
- HANDOVER_LIMIT < a graceful stop's own limit: a stop that cannot hand over goes on without.
"""

from __future__ import annotations

from typing import Final

STAGGER: Final = 0.3
"""Between one candidate's turn to take over and the next one's."""

ALONE: Final = 0.8
"""A member that has lost its last link waits so long before it changes a ring: whoever still sees somebody goes first."""

TOGETHER: Final = 0.1
"""Links that one cut breaks are lost so close together: who would go on as the only member of its ring looks first whether it has
lost them all."""

RESTART_GRACE: Final = 1.0
"""A member that has restarted waits so long before it leads: its unsynced tail is gone, another's may not be."""

FORCE_AFTER: Final = 3.0
"""No in-sync member has been seen for so long: a policy of `always` lets a mirror lead that is not in sync."""

STOOD_STILL: Final = 1.0
"""A node that has noticed nothing for so long asks the store whether it still leads, before it delivers anything."""

FOLLOW_RETRY: Final = 0.5
"""A request to follow that was not answered is made again: the predecessor may not have seen the view yet."""

PROPOSAL_RETRY: Final = 0.5
"""A proposal whose outcome nobody knows is made again; for one epoch only one can win."""

SLOW: Final = 1.0
"""Entries that wait for the ring and make no progress for so long: the leader asks each member where it stands."""

PROBE: Final = 0.5
"""The members have so long to say it."""

PROBE_AGAIN: Final = 1.0
"""And so much longer if nobody at all says anything: then it may be the leader that is cut off, and its links tell soon."""

LAST: Final = 10.0
"""Without any progress for so long, of two that are left the slower one is put out although it answers."""

REJOIN_AFTER: Final = 5.0
"""A member put out for being slow is a learner at least so long: a disk that stutters must not stutter the confirms."""

JOIN_LIMIT: Final = 1.0
"""A learner that is about to join delays confirms; one that makes no progress for so long is let go again."""

HANDOVER_LIMIT: Final = 2.0
"""Publishers are held while the leader drains for a hand-over; no longer than this."""

HANDOVER_RETRY: Final = 5.0
"""After a hand-over that failed, the next attempt for the same wish."""

STABLE_NOTE: Final = 0.05
"""What is stable goes along with the next entries; where none follow, it is told on its own so much later."""

COMPARE_RETRY: Final = 1.0
"""A node that was asked for the state of its copy and has not answered is asked again."""

COMPARE_AFTER: Final = 30.0
"""The states of a ring are compared so long after something was appended."""

NEVER: Final = 1e18
"""No deadline."""
