"""How a node leaves for good: by itself, when it is reset, or because others forget it.

Rules
 1. The member's record goes first, and only while the node is not up: from then on it cannot come back by itself.
 2. Then the queues go whose only copy was on it, with their bindings. If that is interrupted, forgetting the node once more
    goes on with it. A mirrored queue with a copy on another member stays, in sync or not: its members find a leader for it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mirrormq.broker.metadata import below, parts
from mirrormq.cluster.coordination import (
    Absent,
    Coordination,
    CoordinationError,
    Delete,
    DeletePrefix,
    Item,
    Transaction,
    Unchanged,
)
from mirrormq.cluster.membership import CLUSTER, MEMBER, NODE
from mirrormq.cluster.replica import METADATA

QUEUES: Final = METADATA + below("queue")

Lost = list[tuple[str, str]]
"""Queues that went with a node, as virtual host and name."""


class StillUp(Exception):
    """The node runs, so it cannot be taken out."""


class NoMember(Exception):
    """The cluster does not know the node."""


async def remove(store: Coordination, name: str, node_id: str = "") -> Lost:
    """Take a node out of the cluster. With `node_id` only that very node; the name may be another one's by now."""
    was_member = await _drop_member(store, name, node_id)
    lost = [] if node_id and not was_member else await _drop_queues(store, name)
    if not was_member and not lost:
        raise NoMember
    return lost


async def _drop_member(store: Coordination, name: str, node_id: str) -> bool:
    key = MEMBER + name
    found = (await store.read(key)).items.get(key)
    if found is None or (node_id and json.loads(found.value)["id"] != node_id):
        return False
    outcome = await store.transact([Unchanged(key, found.revision), Absent(NODE + name)], [Delete(key)])
    if not outcome.succeeded and NODE + name in outcome.found:
        raise StillUp
    return outcome.succeeded or await _drop_member(store, name, node_id)


async def _drop_queues(store: Coordination, name: str) -> Lost:
    members = set(await others(store, name))
    found = (await store.read(QUEUES)).items
    homed = {key: item for key, item in found.items() if _is_only_on(name, json.loads(item.value), members)}
    outcomes = await store.transact_many([_ending(key, item) for key, item in homed.items()])
    for outcome in outcomes:
        if isinstance(outcome, CoordinationError):
            raise outcome
    return sorted(_place(key) for key in homed)


def _is_only_on(name: str, record: dict[str, Any], members: set[str]) -> bool:
    if "view" not in record:
        return bool(record["node"] == name)
    copies = {*record["view"]["ring"], *record["view"]["learners"]}
    return name in copies and copies.isdisjoint(members)


def _ending(key: str, item: Item) -> Transaction:
    """Somebody may have deleted the queue and declared it anew, elsewhere: then it stays."""
    vhost, name = _place(key)
    bindings = DeletePrefix(METADATA + below("binding", vhost, "queue", name))
    return Transaction([Unchanged(key, item.revision)], [Delete(key), bindings])


def _place(key: str) -> tuple[str, str]:
    _, vhost, name = parts(key[len(METADATA):])
    return vhost, name


async def others(store: Coordination, name: str) -> list[str]:
    """The members beside this one."""
    found = (await store.read(MEMBER)).items
    return sorted(key[len(MEMBER):] for key in found if key != MEMBER + name)


async def end_cluster(store: Coordination) -> None:
    """The last member has left: what it agreed on with itself goes. A node that becomes a member in this very moment finds no
    cluster at its next start, and says so; it has no data yet."""
    await store.transact([], [Delete(CLUSTER), DeletePrefix(METADATA), DeletePrefix(MEMBER)])
