"""What may go wrong between a node and the coordination store. No other exception leaves an adapter.

Each error's text is a sentence for the log and for people: what happened, and what to do. Whether a write happened is never
guessed: `Unreachable` says that it did not, `OutcomeUnknown` that nobody here can tell.
"""

from __future__ import annotations


class CoordinationError(Exception):
    """The base of everything that a store may answer with."""


class Unreachable(CoordinationError):
    """The store did not answer in time or cannot work now, and this call changed nothing in it. Try again later."""


class OutcomeUnknown(CoordinationError):
    """The answer to a write was lost: it may have happened, or may yet. Read before deciding again."""


class LeaseGone(CoordinationError):
    """The lease has expired or was revoked, and its keys with it. Grant a new one and write the keys again."""


class Refused(CoordinationError):
    """The store is there and lets us not in: credentials, permissions, certificates. A person must act."""


class StoreDamaged(CoordinationError):
    """The store is not the one that it was: broken, replaced, set back, or of another format. A person must act."""


class Closed(CoordinationError):
    """This end has closed the store."""


class BadTransaction(ValueError):
    """A transaction that no store takes: a fault of our own, so no `CoordinationError`."""
