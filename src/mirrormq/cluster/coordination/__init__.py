"""Coordination: the small port through which nodes agree, its SQLite and etcd adapters, and a batcher on top of it."""

from __future__ import annotations

from .batcher import Batcher
from .errors import (
    BadTransaction,
    Closed,
    CoordinationError,
    LeaseGone,
    OutcomeUnknown,
    Refused,
    StoreDamaged,
    Unreachable,
)
from .opening import open_coordination
from .port import (
    MAX_BYTES,
    MAX_WRITES,
    Absent,
    Change,
    Changes,
    Compare,
    Coordination,
    Delete,
    DeletePrefix,
    Item,
    Outcome,
    Present,
    Put,
    Reset,
    Snapshot,
    Transaction,
    Unchanged,
    ValueIs,
    Watch,
    Write,
)
from .reachability import Reachability

__all__ = [
    "MAX_BYTES",
    "MAX_WRITES",
    "Absent",
    "BadTransaction",
    "Batcher",
    "Change",
    "Changes",
    "Closed",
    "Compare",
    "Coordination",
    "CoordinationError",
    "Delete",
    "DeletePrefix",
    "Item",
    "LeaseGone",
    "Outcome",
    "OutcomeUnknown",
    "Present",
    "Put",
    "Reachability",
    "Refused",
    "Reset",
    "Snapshot",
    "StoreDamaged",
    "Transaction",
    "Unchanged",
    "Unreachable",
    "ValueIs",
    "Watch",
    "Write",
    "open_coordination",
]
