"""Who belongs to the cluster and who is up.

Rules
 1. `member/NAME` says that a node belongs; it stays until the node leaves or is forgotten. `node/NAME` says that it is up; it
    hangs on the node's lease, as everything does that must not outlive the node.
 2. A name belongs to one node id. A node that was forgotten does not come back by itself: it must be reset first. One that has
    lost its whole directory does, under a new id, when the earlier one does not run.
 3. A lease is renewed only after a small write to the data directory: a node whose disk hangs must not look alive.
 4. Leases say who is up and whose exclusive queues go. No message depends on them.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
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
    Reachability,
    Unchanged,
)
from mirrormq.cluster.keepsake import Keepsake

MEMBER: Final = "member/"
NODE: Final = "node/"
CLUSTER: Final = "cluster"
LEASE: Final = 10           # seconds until a silent node counts as gone
RENEW: Final = LEASE / 4    # three tries before that
PATIENCE: Final = 1.5 * LEASE   # a store may take longer to notice, after an election of its own
LOOK: Final = 0.5           # between two looks whether another node is down
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
    def __init__(self, store: Coordination, keepsake: Keepsake, directory: Path, renew: float = RENEW,
                 patience: float = PATIENCE) -> None:
        self.store = store
        self.keepsake = keepsake
        self.members: dict[str, str] = {}           # name to id
        self.running: dict[str, NodeInfo] = {}
        self.lease = 0
        self.is_first = False                       # nobody else was up when this node entered,
        self.entered_at = 0                         # which was at this revision
        self.has_lost_disk = False                  # an earlier node of the name had a directory
        self.on_change: Callable[[], None] = lambda: None
        self.on_gone: Callable[[NodeInfo], None] = lambda _: None
        self.on_expired: Callable[[], None] = lambda: None
        self.on_forgotten: Callable[[], None] = lambda: None    # this very node, while it was cut off
        self._directory = directory
        self._me: NodeInfo | None = None
        self._renew = renew
        self._patience = patience
        self._has_returned = asyncio.Event()        # the store, after it was away
        self._is_out = False                        # the lease is gone, and the others do not know yet that we are here
        self._is_doubtful = False                   # the store was away, and has not renewed the lease since
        self._is_untold = False                     # something was to be told, and the store did not hear it
        self._taking = asyncio.Lock()               # of a new lease: what hangs on one that is taken twice would be lost
        self._is_leaving = False
        self._leaving: dict[str, asyncio.Event] = {}

    @property
    def name(self) -> str:
        return self.keepsake.node

    @property
    def is_certain(self) -> bool:
        """Whether the others count on this node, as far as the store knew when it answered last."""
        return not self._is_out and not self._is_doubtful

    # --- entering and leaving -----------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Become a member, or be one again; NotAdmitted if that cannot be. What an earlier run left on its lease goes."""
        cluster = await self._cluster_id()
        await self._become_member()
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

    async def _become_member(self) -> None:
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
                await self._become_member()
        elif json.loads(found.value)["id"] != self.keepsake.id:
            if self.keepsake.cluster:
                raise NotAdmitted(f"the cluster has another node of the name {self.name}, which took its place with an empty "
                                  f"directory: forget that one with 'forget_cluster_node {self.name}' and move this directory "
                                  "away, or give this node another name")
            await self._take_place(key, found)

    async def _take_place(self, key: str, found: Item) -> None:
        """An empty directory under the name of a member: its node has lost its disk. It comes back as another node, which has
        never held anything. Nobody takes it for the earlier one, and that one is refused if its directory turns up again. A node
        that is up keeps its name."""
        await self._until_down()
        self.keepsake = replace(self.keepsake, starts=secrets.randbits(40))     # an incarnation that the earlier one never had
        self.keepsake.save(self._directory)
        outcome = await self.store.transact([Unchanged(key, found.revision), Absent(NODE + self.name)],
                                            [Put(key, json.dumps({"id": self.keepsake.id}))])
        if outcome.succeeded:
            self.has_lost_disk = True
        else:
            await self._become_member()

    async def _until_down(self) -> None:
        """Who was killed counts as up until its lease runs out. Who counts as up for longer is."""
        give_up = asyncio.get_running_loop().time() + self._patience
        while (found := (await self.store.read(NODE + self.name)).items.get(NODE + self.name)) is not None:
            if asyncio.get_running_loop().time() > give_up:
                info = NodeInfo.read(self.name, found)
                raise NotAdmitted(f"a node of the name {self.name} is running already and listens for other nodes at "
                                  f"{info.host}:{info.link_port}: give this one another name")
            await asyncio.sleep(LOOK)

    async def announce(self, host: str, link_port: int, about: dict[str, Any]) -> None:
        """This node is up and can be reached there."""
        self._me = NodeInfo(self.name, self.keepsake.id, self.keepsake.starts, host, link_port, about)
        async with self._taking:
            try:
                await self._say()
            except LeaseGone:           # a long log to recover: nobody renewed it meanwhile
                self.lease = await self.store.grant(LEASE)
                await self._say()

    async def tell(self, **more: object) -> None:
        """Something else about this node that the others may know. If the store does not hear it now, it is told it later."""
        assert self._me is not None
        self._me = replace(self._me, about=self._me.about | more)
        self._is_untold = True
        await self._say()

    async def _say(self) -> None:
        assert self._me is not None
        said = self._me
        await self.store.transact([], [Put(NODE + self.name, said.text(), self.lease)])
        if said is self._me:
            self._is_untold = False

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
        end_listening = self.store.reachability.listen(self._store_turned)
        try:
            while not self._is_leaving:
                await self._until_due()
                try:
                    await write(self._directory / PULSE)
                    await self._renew_lease()
                except (CoordinationError, OSError):
                    continue            # the store's own state says so; the next try comes soon
        finally:
            end_listening()

    def _store_turned(self, reachability: Reachability) -> None:
        if reachability.is_reachable:
            self._has_returned.set()
        else:
            self._is_doubtful = True

    async def _until_due(self) -> None:
        """A store that was away is asked as soon as it answers. The lease may be about to run out: links that are coming back
        would be torn down by that, and clients let in on a node that is no member for the others."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_returned.wait(), self._renew)
        self._has_returned.clear()

    async def _renew_lease(self) -> None:
        lease = self.lease
        try:
            if not self._is_out:
                await self.store.keep_alive(lease)
                self._is_doubtful = False
                if self._is_untold:
                    await self._say()
        except LeaseGone:
            self._is_out = self.lease == lease      # else another one was taken meanwhile
        if self._is_out and not self._is_leaving:
            await self._return()

    async def _return(self) -> None:
        """The lease ran out while this node was frozen or cut off: take a new one, and say again what hangs on it."""
        async with self._taking:
            try:
                lease = await self.store.grant(LEASE)
                if self._is_leaving:
                    await self.store.revoke(lease)
                    return
                self.lease = lease
                if self._me is not None:
                    await self._say()
            except CoordinationError:
                return                  # still out: the next round tries again
            self._is_out = self._is_doubtful = False
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
        elif (info := self.running.pop(name, None)) is not None and name != self.name:
            self.on_gone(info)
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
