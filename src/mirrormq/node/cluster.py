"""The node's part in its cluster: the store, this node's copy of it, its membership, and the links to the other nodes.

Rules
 1. What a node sends about queues stands on what it knows: it tells its revision of the store first, and the receiver waits with
    the rest until its own copy is as new. So no node hears of a queue that it does not know yet.
 2. A proposal is settled when the other linked nodes have it too, or have had time for it: a client that is answered here may
    go on at another node.
 3. A node is gone when its lease is. A link that breaks says less; but a process that refuses connections is not there any more.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

from mirrormq.broker import agreement
from mirrormq.broker.broker import Broker
from mirrormq.cluster.coordination import Coordination, CoordinationError
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.link import BULK, CONTROL, RING, WORK, Frame, Identity
from mirrormq.cluster.membership import NODE, Membership, NodeInfo, touch
from mirrormq.cluster.replica import Replica
from mirrormq.node.cluster_store import link_addresses, open_store, spec_of
from mirrormq.node.config import NodeConfig
from mirrormq.node.everyone import Everyone
from mirrormq.node.links import Links, Peer
from mirrormq.node.neighbour import REVISION, Neighbour, Port
from mirrormq.node.questions import ASK, TOLD, Questions
from mirrormq.node.secret import shared_secret

MACHINE: Final = 10             # kind of RING and BULK frames: a message between two machines of a mirrored queue
APPLIED: Final = 1              # kinds of CONTROL frames
ALARMS: Final = 2
BEHIND: Final = 2.0             # seconds that frames wait for a copy that is older than their sender's
PROBE: Final = 1.0
PARTED: Final = 5.0             # seconds without a link to a node that is up, after which that is no passing thing


class LinkPortTaken(Exception):
    """The sentence says which port, and what to do."""


class RingLinks(Protocol):
    """What mirrored queues hear of links."""

    def link_up(self, node: str) -> None: ...

    def link_down(self, node: str) -> None: ...

    def received(self, node: str, payload: bytes) -> None: ...


class Cluster:
    def __init__(self, config: NodeConfig, broker: Broker, tick: Callable[[], None], report: Callable[[str, str], None]) -> None:
        self.config = config
        self.broker = broker
        self.neighbours: dict[str, Neighbour] = {}
        self.on_alarms: Callable[[dict[str, dict[str, str]]], None] = lambda _: None
        self.on_members: Callable[[], None] = lambda: None
        self.rings: RingLinks | None = None
        self.on_failed: Callable[[str], None] = lambda _: None      # this node cannot be part of its cluster any more
        self.questions = Questions(broker.host.fault)
        self._tick = tick
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unlinked: dict[str, float] = {}               # nodes that are up and not linked, and since when
        self._own_alarms: dict[str, str] = {}
        self._everyone = Everyone(lambda: (neighbour.applied for neighbour in self.neighbours.values()))
        self._is_stopping = False
        self._is_member = False
        self.link_host = ""
        self._is_linking = False
        self._opened = AsyncExitStack()

    # --- starting and stopping ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, enter the cluster, and load everything that it knows. Nothing runs yet."""
        config = self.config
        keepsake = Keepsake.load(config.data_dir, config.node_name)
        self.store: Coordination = await open_store(config, keepsake)
        self._opened.push_async_callback(self.store.close)
        self.membership = Membership(self.store, keepsake, config.data_dir)
        self.replica = Replica(self.store, self.broker, self.membership.lease_of, self._tick)
        await self._until_entered()
        self._is_member = True
        snapshot = await self.replica.load()
        self.membership.load(snapshot.items)
        for name in self.broker.forwarding.embassies:
            if name not in self.membership.running:
                self.broker.forwarding.node_gone(name)
        self.replica.on_other = self.membership.saw
        self.replica.own_key = NODE + self.membership.name
        self.replica.on_advance = self._advanced
        self.membership.on_change = self._members_changed
        self.membership.on_gone = self._gone
        self.membership.on_expired = self._expired

    async def _until_entered(self) -> None:
        """A store that is away is waited for, with a word about it now and then."""
        while True:
            try:
                await self.membership.enter()
                return
            except CoordinationError as fault:
                self._report("warning", f"waiting for the coordination store: {fault}")
                await asyncio.sleep(1)

    async def run(self, about: dict[str, Any]) -> None:
        """Follow the store, link to the others, and be seen by them."""
        config = self.config
        keepsake = self.membership.keepsake
        self.link_host, advertised = link_addresses(config, keepsake)
        self.spawn(self.replica.follow(), "following the store", is_vital=True)
        self.spawn(self.replica.propose(self._everyone.until), "proposing to the store", is_vital=True)
        self.spawn(self.replica.insist(), "insisting", is_vital=True)
        self.spawn(self.membership.keep(touch), "keeping the lease", is_vital=True)
        me = Identity(keepsake.node, keepsake.id, keepsake.starts)
        self.links = Links(me, self._secret(), self, cluster_id=keepsake.cluster, report=self._report)
        self._opened.push_async_callback(self.links.stop)
        self._is_linking = True
        await self._listen()
        await self.membership.announce(advertised, config.advertised_port or self.links.port, about)
        self._members_changed()

    async def _listen(self) -> None:
        config = self.config
        try:
            await self.links.start(self.link_host, config.link_port)
        except OSError as fault:
            if config.link_port_is_fixed:
                raise LinkPortTaken(f"cannot listen for other nodes at {self.link_host or '*'}:{config.link_port} "
                                    f"({fault.strerror or fault}): choose another port with --link-port") from fault
            await self.links.start(self.link_host, 0)

    def _secret(self) -> bytes:
        return shared_secret(self.config.secret_file)

    def derived_key(self, purpose: str) -> bytes:
        """The same on every node of this cluster, and of no other."""
        about = f"{purpose} of cluster {self.membership.keepsake.cluster}"
        return hmac.digest(self._secret(), about.encode(), "sha256")

    def spawn(self, work: Any, name: str, *, is_vital: bool = False) -> None:
        """Without what is vital a node would know less and less of its cluster and go on all the same: it has to stop."""
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._vital_ended if is_vital else self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.broker.host.fault(fault)

    def _vital_ended(self, task: asyncio.Task[None]) -> None:
        self._ended(task)
        if not self._is_stopping and not task.cancelled():
            self.on_failed(f"{task.get_name()} has ended ({task.exception() or 'the store was closed'})")

    async def leave(self) -> None:
        """Others may know that this node stops: its exclusive queues go, nobody waits for it."""
        self._is_stopping = True
        if not self._is_member:
            return
        try:
            await self.membership.leave_running()
        except CoordinationError as fault:
            self._report("warning", f"the store does not hear that this node stops: {fault}")

    async def stop(self) -> None:
        self._is_stopping = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._opened.aclose()

    # --- the store ------------------------------------------------------------------------------------------------------

    def _members_changed(self) -> None:
        """Links follow the members that are up."""
        self._note_unlinked()
        others = [info for info in self.membership.running.values() if info.name != self.membership.name]
        self.links.set_peers({info.name: (info.host, info.link_port) for info in others},
                             {info.name: info.id for info in others})
        self._everyone.check()
        self.on_members()

    def _note_unlinked(self) -> None:
        now = self._loop.time()
        names = [name for name in self.membership.running if name != self.membership.name and name not in self.neighbours]
        self._unlinked = {name: self._unlinked.get(name, now) for name in names}

    def loop_time(self) -> float:
        return self._loop.time()

    def address(self) -> tuple[str, int] | None:
        """Where other nodes are listened for."""
        return (self.link_host or "::", self.links.port) if self._is_linking else None

    def parted(self) -> list[str]:
        """Nodes that are up, as the store knows, and that this node cannot reach."""
        now = self._loop.time()
        return sorted(name for name, since in self._unlinked.items() if now - since > PARTED)

    def _gone(self, name: str) -> None:
        self._report("warning", f"node {name} is down")
        self.broker.forwarding.node_gone(name)
        self.broker.schedule()

    def _expired(self) -> None:
        self._report("warning", "this node's lease ran out while it was frozen or cut off; it has taken a new one")
        self.broker.records.restate()
        self.broker.schedule()

    def _advanced(self, revision: int) -> None:
        for neighbour in self.neighbours.values():
            neighbour.peer.send(CONTROL, APPLIED, revision.to_bytes(8, "big"))
            self._let_go(neighbour)

    # --- links --------------------------------------------------------------------------------------------------------------

    def link_up(self, peer: Peer) -> None:
        self._tick()
        self.neighbours[peer.name] = Neighbour(peer)
        self._note_unlinked()
        peer.send(CONTROL, APPLIED, self.replica.revision.to_bytes(8, "big"))
        if self._own_alarms:
            peer.send(CONTROL, ALARMS, json.dumps(self._own_alarms).encode())
        self._report("info", f"linked to node {peer.name}")
        self.broker.forwarding.link_up(Port(self.replica, peer), peer.incarnation)
        agreement.look_after_stranded(self.broker)
        if self.rings is not None:
            self.rings.link_up(peer.name)
        self.broker.schedule()

    def link_down(self, peer: Peer, reason: str) -> None:
        self._tick()
        neighbour = self.neighbours.pop(peer.name, None)
        if neighbour is not None:
            neighbour.held.clear()      # of a session that is over: let go later, they would pass for frames of the next one
        self._note_unlinked()
        self.questions.lost(peer)
        if not self._is_stopping:
            self._report("warning", f"the link to node {peer.name} is down: {reason}")
        self.broker.forwarding.link_down(peer.name)
        if self.rings is not None:
            self.rings.link_down(peer.name)
        if neighbour is not None and neighbour.alarms:
            self._tell_alarms()
        self._everyone.check()
        self.broker.schedule()
        info = self.membership.running.get(peer.name)
        if info is not None and not self._is_stopping:
            self.spawn(self._probe(info), f"probing {peer.name}")

    async def _probe(self, info: NodeInfo) -> None:
        """A process that is gone refuses connections; then nobody has to wait for its lease to run out."""
        try:
            async with asyncio.timeout(PROBE):
                _, writer = await asyncio.open_connection(info.host, info.link_port)
            writer.close()
        except ConnectionRefusedError:
            try:
                await self.membership.declare_dead(info)
            except CoordinationError:
                return
        except (OSError, TimeoutError):
            return

    def link_frames(self, peer: Peer, frames: list[Frame]) -> None:
        self._tick()
        neighbour = self.neighbours.get(peer.name)
        if neighbour is None or neighbour.peer is not peer:
            return
        for frame in frames:
            if frame.kind == MACHINE and frame.lane in (RING, BULK) and self.rings is not None:
                self.rings.received(peer.name, frame.payload)
            elif frame.lane == WORK:
                self._work(neighbour, frame.kind, frame.payload)
            elif frame.lane == CONTROL:
                self._control(neighbour, frame.kind, frame.payload)
            else:
                self._question(neighbour, frame.kind, frame.payload)
            if frame.lane not in (CONTROL, WORK):
                peer.consumed(frame.lane, len(frame.payload))
        self.broker.schedule()

    def link_drained(self, peer: Peer, lane: int) -> None:
        if lane == WORK:
            self.broker.forwarding.drained(peer.name)
            self.broker.schedule()

    def _work(self, neighbour: Neighbour, kind: int, payload: bytes) -> None:
        if neighbour.held or (kind == REVISION and int.from_bytes(payload, "big") > self.replica.revision):
            if not neighbour.held:
                self._wait_for(neighbour, int.from_bytes(payload, "big"))
            neighbour.held.append((kind, payload))
        else:
            self._handle(neighbour, kind, payload)

    def _wait_for(self, neighbour: Neighbour, revision: int) -> None:
        neighbour.needs = revision
        self._loop.call_later(BEHIND, self._give_up_waiting, neighbour, revision)

    def _handle(self, neighbour: Neighbour, kind: int, payload: bytes) -> None:
        """What is held back is not digested either: so much of it waits here as the link's window allows."""
        neighbour.peer.consumed(WORK, len(payload))
        if kind != REVISION:
            self.broker.forwarding.received(neighbour.peer.name, kind, payload)

    def _let_go(self, neighbour: Neighbour, *, anyway: bool = False) -> None:
        """Frames that waited for this node's copy, as far as it is new enough now."""
        held = neighbour.held
        while held:
            kind, payload = held[0]
            if kind == REVISION:
                needs = int.from_bytes(payload, "big")
                if needs > self.replica.revision and not anyway:
                    if needs != neighbour.needs:
                        self._wait_for(neighbour, needs)
                    return
            held.popleft()
            self._handle(neighbour, kind, payload)

    def _give_up_waiting(self, neighbour: Neighbour, needs: int) -> None:
        if neighbour.held and neighbour.needs == needs:
            self._tick()
            self._report("warning", f"the copy of the store is behind that of {neighbour.peer.name} for {BEHIND} s; going on")
            self._let_go(neighbour, anyway=True)
            self.broker.schedule()

    def flush(self) -> None:
        """The end of a turn."""
        if self._is_linking:
            self.links.flush()

    # --- control ------------------------------------------------------------------------------------------------------------

    def _control(self, neighbour: Neighbour, kind: int, payload: bytes) -> None:
        if kind == APPLIED:
            neighbour.applied = int.from_bytes(payload, "big")
            self._everyone.check()
        elif kind == ALARMS:
            neighbour.alarms = json.loads(payload)
            self._tell_alarms()

    def _question(self, neighbour: Neighbour, kind: int, payload: bytes) -> None:
        if kind == ASK:
            self.spawn(self.questions.reply(neighbour.peer, payload), "answering a node")
        elif kind == TOLD:
            self.questions.told(payload)

    def set_alarms(self, alarms: dict[str, str]) -> None:
        """This node's own alarms: everybody's publishers wait."""
        if alarms != self._own_alarms:
            self._own_alarms = dict(alarms)
            text = json.dumps(self._own_alarms).encode()
            for neighbour in self.neighbours.values():
                neighbour.peer.send(CONTROL, ALARMS, text)

    def _tell_alarms(self) -> None:
        self.on_alarms({name: neighbour.alarms for name, neighbour in self.neighbours.items() if neighbour.alarms})

    async def ask(self, name: str, what: str, about: dict[str, Any]) -> Any:
        """Another node's answer; None if it has none in time."""
        neighbour = self.neighbours.get(name)
        return None if neighbour is None else await self.questions.ask(neighbour.peer, what, about)

    async def ask_all(self, what: str, about: dict[str, Any]) -> dict[str, Any]:
        """The answers of all linked nodes, by name."""
        peers = {name: neighbour.peer for name, neighbour in self.neighbours.items()}
        return await self.questions.ask_all(peers, what, about)

    async def visit(self, request: dict[str, Any]) -> dict[str, Any]:
        """A node that knows the secret and is no member yet: which store is ours?"""
        keepsake = self.membership.keepsake
        return {"node": keepsake.node, "cluster": keepsake.cluster, "coordination": spec_of(self.config, keepsake),
                "members": sorted(self.membership.members), "running": sorted(self.membership.running)}
