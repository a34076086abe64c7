"""etcd's errors, sorted by what they mean for a call, and as the port's own with a sentence each."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from mirrormq.cluster.coordination.errors import CoordinationError, LeaseGone, Refused, Unreachable

from .codec import Json

UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
NOT_FOUND: Final = 5
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
OUT_OF_RANGE: Final = 11
UNAUTHENTICATED: Final = 16


class Meaning(Enum):
    AGAIN = auto()
    """Nothing happened here; another member, or this one in a moment, may do it."""
    UNKNOWN = auto()
    """It may have happened."""
    LOGIN = auto()
    """Nothing happened; the token is not, or no longer, good."""
    FINAL = auto()
    """Nothing happened, and nothing else will at another member."""


class EtcdFault(Exception):
    """An error that a member answered with."""

    def __init__(self, answer: Json) -> None:
        nested = answer.get("error")
        detail: Json = nested if isinstance(nested, dict) else answer
        self.code = int(detail.get("code") or detail.get("grpc_code") or UNKNOWN)
        self.message = str(detail.get("message") or nested or detail)
        super().__init__(self.message)

    @property
    def meaning(self) -> Meaning:
        if self.code == UNAUTHENTICATED or "invalid auth token" in self.message or "auth: revision" in self.message:
            return Meaning.LOGIN
        if "no leader" in self.message or "too many requests" in self.message:
            return Meaning.AGAIN
        final = (INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE)
        return Meaning.FINAL if self.code in final else Meaning.UNKNOWN

    @property
    def is_compaction(self) -> bool:
        return "compacted" in self.message

    @property
    def is_too_large(self) -> bool:
        """The answer, not the question."""
        return self.code == RESOURCE_EXHAUSTED and "larger than max" in self.message

    @property
    def is_lease_there_already(self) -> bool:
        return "lease already exists" in self.message

    @property
    def is_without_logins(self) -> bool:
        return "authentication is not enabled" in self.message

    def translate(self) -> CoordinationError:
        if self.code == NOT_FOUND and "lease" in self.message:
            return LeaseGone("the lease has expired or was revoked: grant a new one")
        if self.code == PERMISSION_DENIED:
            return Refused(f"etcd lets this user not in ({self.message}): grant its role read and write below the namespace")
        if self.code == UNAUTHENTICATED or "user name is empty" in self.message or "authentication failed" in self.message:
            return Refused(f"etcd does not accept the login ({self.message}): check user and password")
        if "space exceeded" in self.message:
            return Unreachable("etcd's database is full: compact and defragment it, raise its quota, then disarm the alarm")
        if "too many operations" in self.message or "request is too large" in self.message:
            return Refused(f"etcd has smaller limits than its defaults ({self.message}): raise max-txn-ops and max-request-bytes")
        return Unreachable(f"etcd cannot do it now ({self.message})")
