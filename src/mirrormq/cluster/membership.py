"""Who belongs to the cluster and who is up.

Rules
 1. `member/NAME` says that a node belongs; it stays until the node leaves or is forgotten. `node/NAME` says that it is up; it
    hangs on the node's lease, as everything does that must not outlive the node.
 2. A name belongs to one node id. A node that was forgotten does not come back by itself: it must be reset first.
 3. A lease is renewed only after a small write to the data directory: a node whose disk hangs must not look alive.
 4. Leases say who is up and whose exclusive queues go. No message depends on them.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mirrormq.cluster.coordination import (
    Absent,
    BadTransaction,
    Coordination,
    CoordinationError,
    Item,
    LeaseGone,
    Put,
)
from mirrormq.cluster.keepsake import Keepsake

MEMBER: Final = "member/"
NODE: Final = "node/"
CLUSTER: Final = "cluster"
LEASE: Final = 10           # seconds until a silent node counts as gone
RENEW: Final = LEASE / 4    # three tries before that
FORGETTING: Final = 2.0
PULSE: Final = "pulse"      # the file that is written before each renewal


class NotAdmitted(Exception):
    """This node cannot be part of that cluster; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """What a running node tells of itself."""

    name: str
    id: str
    incarnation: int
    host: str
    link_port: int
    about: dict[str, Any]       # ports, version: for people and tools
    lease: int = 0

    @staticmethod
    def read(name: str, item: Item) -> NodeInfo:
        value = json.loads(item.value)
        return NodeInfo(name, value["id"], value["incarnation"], value["host"], value["link_port"], value["about"], item.lease)

    def text(self) -> str:
        return json.dumps({"id": self.id, "incarnation": self.incarnation, "host": self.host, "link_port": self.link_port,
                           "about": self.about})


class Membership:
    def __init__(self, store: Coordination, keepsake: Keepsake, directory: Path) -> None:
        self.store = store
        self.keepsake = keepsake
        self.members: dict[str, str] = {}           # name to id
        self.running: dict[str, NodeInfo] = {}
        self.lease = 0
        self.is_first = False                       # nobody else was up when this node entered,
        self.entered_at = 0                         # which was at this revision
        self.on_change: Callable[[], None] = lambda: None
        self.on_gone: Callable[[str], None] = lambda _: None
        self.on_expired: Callable[[], None] = lambda: None
        self.on_forgotten: Callable[[], None] = lambda: None    # this very node, while it was cut off
        self._directory = directory
        self._me: NodeInfo | None = None
        self._is_out = False                        # the lease is gone, and the others do not know yet that we are here
        self._is_leaving = False
        self._leaving: dict[str, asyncio.Event] = {}

    @property
    def name(self) -> str:
        return self.keepsake.node

    # --- entering and leaving -----------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Become a member, or be one again; NotAdmitted if that cannot be. What an earlier run left on its lease goes."""
        cluster = await self._cluster_id()
        await self._become_member(cluster)
        found = await self.store.read(NODE)
        nodes = found.items
        mine = nodes.get(NODE + self.name)
        if mine is not None and mine.lease:
            await self.store.revoke(mine.lease)
        self.is_first = not any(key != NODE + self.name for key in nodes)
        self.entered_at = found.revision
        self.keepsake = self.keepsake.started(cluster)
        self.keepsake.save(self._directory)
        self.lease = await self.store.grant(LEASE)

    async def _cluster_id(self) -> str:
        known = self.keepsake.cluster
        found = (await self.store.read(CLUSTER)).items.get(CLUSTER)
        if found is None:
            if known:
                raise NotAdmitted(f"the store is empty, but {self._directory} belongs to a cluster: check which store is "
                                  "configured; to start anew with nothing, move the data directory away")
            value = json.dumps({"id": uuid.uuid4().hex})
            await self.store.transact([Absent(CLUSTER)], [Put(CLUSTER, value)])
            found = (await self.store.read(CLUSTER)).items[CLUSTER]
        cluster: str = json.loads(found.value)["id"]
        if known and known != cluster:
            raise NotAdmitted(f"{self._directory} belongs to another cluster than this store: check which store is configured; "
                              "to join this one with nothing, move the data directory away")
        return cluster

    async def _become_member(self, cluster: str) -> None:
        key = MEMBER + self.name
        found = (await self.store.read(key)).items.get(key)
        if found is None:
            if self.keepsake.cluster:
                raise NotAdmitted(f"node {self.name} was a member of this cluster and has been forgotten: reset it with "
                                  "'mirrormqctl reset', or, if its process cannot start, move its data directory away; then it "
                                  "can join again")
            self.keepsake.save(self._directory)         # a crash after the next line must not lose whose the name is
            outcome = await self.store.transact([Absent(key)], [Put(key, json.dumps({"id": self.keepsake.id}))])
            if not outcome.succeeded:
                await self._become_member(cluster)
        elif json.loads(found.value)["id"] != self.keepsake.id:
            raise NotAdmitted(f"the cluster has another node of the name {self.name}: give this one another name, or forget the "
                              f"other with 'forget_cluster_node {self.name}'")

    async def announce(self, host: str, link_port: int, about: dict[str, Any]) -> None:
        """This node is up and can be reached there."""
        self._me = NodeInfo(self.name, self.keepsake.id, self.keepsake.starts, host, link_port, about)
        try:
            await self.store.transact([], [Put(NODE + self.name, self._me.text(), self.lease)])
        except LeaseGone:           # a long log to recover: nobody renewed it meanwhile
            self.lease = await self.store.grant(LEASE)
            await self.store.transact([], [Put(NODE + self.name, self._me.text(), self.lease)])

    async def tell(self, **more: object) -> None:
        """Something else about this node that the others may know."""
        assert self._me is not None
        self._me = replace(self._me, about=self._me.about | more)
        await self.store.transact([], [Put(NODE + self.name, self._me.text(), self.lease)])

    async def leave_running(self) -> None:
        """A clean stop: everybody may know at once."""
        self._is_leaving = True
        if self.lease:
            await self.store.revoke(self.lease)
            self.lease = 0

    def lease_of(self, name: str) -> int:
        """What hangs on a node hangs on this; an empty name is this node."""
        if name in ("", self.name):
            if not self.lease:
                raise BadTransaction("this node is leaving")
            return self.lease
        info = self.running.get(name)
        if info is None or not info.lease:
            raise BadTransaction(f"node {name} is down")
        return info.lease

    # --- staying alive --------------------------------------------------------------------------------------------------

    async def keep(self, write: Callable[[Path], Awaitable[None]]) -> None:
        """Renew the lease until cancelled, or until this node leaves: then nobody may think that it comes back."""
        while not self._is_leaving:
            await asyncio.sleep(RENEW)
            try:
                await write(self._directory / PULSE)
                if not self._is_out:
                    await self.store.keep_alive(self.lease)
            except LeaseGone:
                self._is_out = True
            except (CoordinationError, OSError):
                continue            # the store's own state says so; the next try comes soon
            if self._is_out and not self._is_leaving:
                await self._return()

    async def _return(self) -> None:
        """The lease ran out while this node was frozen or cut off: take a new one, and say again what hangs on it."""
        try:
            lease = await self.store.grant(LEASE)
            if self._is_leaving:
                await self.store.revoke(lease)
                return
            self.lease = lease
            if self._me is not None:
                await self.store.transact([], [Put(NODE + self.name, self._me.text(), self.lease)])
        except CoordinationError:
            return                  # still out: the next round tries again
        self._is_out = False
        self.on_expired()

    # --- seeing the others ----------------------------------------------------------------------------------------------

    def load(self, items: dict[str, Item]) -> None:
        for key, item in items.items():
            self._note(key, item)
        self.on_change()

    def saw(self, key: str, item: Item | None) -> None:
        if self._note(key, item):
            self.on_change()

    def _note(self, key: str, item: Item | None) -> bool:
        if key.startswith(MEMBER):
            name = key[len(MEMBER):]
            if item is None:
                if self.members.pop(name, None) is not None and name == self.name:
                    self.on_forgotten()
                self._leaving.pop(name, asyncio.Event()).set()
            else:
                self.members[name] = json.loads(item.value)["id"]
            return True
        if not key.startswith(NODE):
            return False
        name = key[len(NODE):]
        if item is not None:
            self.running[name] = NodeInfo.read(name, item)
        elif self.running.pop(name, None) is not None and name != self.name:
            self.on_gone(name)
        return True

    async def declare_dead(self, info: NodeInfo) -> None:
        """Somebody knows that this run of a node is over: what hangs on its lease need not wait for the end of it."""
        running = self.running.get(info.name)
        if running is not None and running.incarnation == info.incarnation and running.lease:
            await self.store.revoke(running.lease)

    async def until_without(self, name: str) -> None:
        """Until this node's copy knows that another is no member any more; a slow store is not waited for."""
        if name in self.members:
            left = self._leaving.setdefault(name, asyncio.Event())
            with suppress(TimeoutError):
                await asyncio.wait_for(left.wait(), FORGETTING)


async def touch(path: Path) -> None:
    """A small write that has reached the disk, made beside the event loop."""
    await asyncio.get_running_loop().run_in_executor(None, _touch, path)


def _touch(path: Path) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(number, b"alive\n", 0)
        os.fsync(number)
    finally:
        os.close(number)
