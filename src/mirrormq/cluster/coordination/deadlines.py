"""How long coordination waits for what: every time-out in one place, in seconds, each with its reason.

Together they must satisfy:

- LOCK < CALL: a writer that gets no turn says so itself, knowing that nothing happened, before its caller gives up.
- TURN < LOCK: a frozen process at the head of the queue costs the others some patience, not their call.
- ATTEMPT + ATTEMPT < CALL: a call may meet one frozen endpoint and still be answered by the next.
- PROBE + CALL is the longest time until the loss of an idle store is noticed; a node's lease must be longer.
- TICK is how late an expired lease may be swept, and how late a change is seen whose bell was lost.
"""

from __future__ import annotations

from typing import Final

CALL: Final = 3.0
"""One call of the port, all attempts together: a declare must be answered within 5 seconds, store or no store."""

OPEN: Final = 5.0
"""Opening a file: another process may be creating it, or recovering it after a crash."""

READ: Final = 30.0
"""A read of many pages; each page has its own CALL."""

CLOSE: Final = 3.0
"""What was asked before the close is finished for so long; a disk that hangs must not keep the node from stopping."""

LOCK: Final = 2.5
"""Waiting for the write lock of a shared file: its holders need milliseconds, so this one is frozen."""

TURN: Final = 1.0
"""Waiting in the queue for that lock; afterwards a writer competes without queueing."""

PAUSE_SHORTEST: Final = 0.0002
"""Between two tries for a lock: a commit takes about a millisecond."""

PAUSE_LONGEST: Final = 0.005
"""The same after many tries."""

TICK: Final = 1.0
"""Between two looks at an idle file: expired leases, changes whose bell was lost."""

RETRY: Final = 0.5
"""Between two tries of a watcher, or of a probe, while the store is away."""

ATTEMPT: Final = 1.0
"""One endpoint's part of a call that may be repeated at the next endpoint. A leader election takes as long."""

AGAIN: Final = 0.1
"""Before the endpoints are asked once more: members without a leader answer at once, and need a moment to elect one."""

PROBE: Final = 1.0
"""A store that was not heard for so long is asked for a sign of life, so that its loss is noticed while nothing else is asked."""

QUIET: Final = 5.0
"""A watch that was silent for so long while the store moved on is asked anew: something between may have swallowed its stream."""

KEEP_ALIVE_IDLE: Final = 2
"""Whole seconds of silence after which TCP itself asks for the peer: a watch may be silent for hours."""

KEEP_ALIVE_TRIES: Final = 3
"""So many unanswered questions, a second apart, mean that the connection is dead."""

SILENCE: Final = 5_000
"""Milliseconds that sent bytes may stay without TCP's answer: KEEP_ALIVE_IDLE + KEEP_ALIVE_TRIES seconds."""
