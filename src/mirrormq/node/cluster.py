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
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol, TypeVar

from mirrormq.broker import agreement
from mirrormq.broker.broker import Broker
from mirrormq.cluster.coordination import Coordination, CoordinationError, StoreDamaged
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.link import BULK, CONTROL, RING, WORK, Frame, Identity
from mirrormq.cluster.link.deadlines import retry_pause
from mirrormq.cluster.membership import NODE, Membership, NodeInfo, touch
from mirrormq.cluster.replica import Replica
from mirrormq.node.clock import Clock
from mirrormq.node.clock_peers import ASKED, ClockPeers
from mirrormq.node.clock_peers import TOLD as CLOCK_TOLD
from mirrormq.node.cluster_store import link_addresses, spec_of
from mirrormq.node.config import NodeConfig
from mirrormq.node.everyone import Everyone
from mirrormq.node.links import Links, Peer
from mirrormq.node.neighbour import REVISION, Neighbour, Port
from mirrormq.node.patience import StoreUnheard
from mirrormq.node.questions import ASK, TOLD, Questions
from mirrormq.node.secret import shared_secret
from mirrormq.node.surroundings import Surroundings

MACHINE: Final = 10             # kind of RING and BULK frames: a message between two machines of a mirrored queue
APPLIED: Final = 1              # kinds of CONTROL frames
ALARMS: Final = 2
BEHIND: Final = 2.0             # seconds that frames wait for a copy that is older than their sender's
PROBE: Final = 1.0
AGAIN: Final = 0.25             # seconds between two tries of a start that waits for the store,
SPEAK: Final = 30.0             # and between two words about it
PARTED: Final = 5.0             # seconds without a link to a node that is up, after which that is no passing thing

Answer = TypeVar("Answer")


class LinkPortTaken(Exception):
    """The sentence says which port, and what to do."""


class RingLinks(Protocol):
    """What mirrored queues hear of links."""

    def link_up(self, node: str) -> None: ...

    def link_down(self, node: str) -> None: ...

    def received(self, node: str, payload: bytes) -> None: ...


class Cluster:
    def __init__(self, config: NodeConfig, broker: Broker, clock: Clock, tick: Callable[[], None],
                 report: Callable[[str, str], None], surroundings: Surroundings | None = None) -> None:
        self.config = config
        self._surroundings = surroundings or Surroundings()
        self.broker = broker
        self.neighbours: dict[str, Neighbour] = {}
        self.on_alarms: Callable[[dict[str, dict[str, str]]], None] = lambda _: None
        self.on_members: Callable[[], None] = lambda: None
        self.rings: RingLinks | None = None
        self.on_failed: Callable[[str], None] = lambda _: None      # this node cannot be part of its cluster any more
        self.on_time_moved: Callable[[], None] = lambda: None
        self.clocks = ClockPeers(config.node_name, clock, report)
        self.questions = Questions(broker.host.fault)
        self._tick = tick
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unlinked: dict[str, float] = {}               # nodes that are up and not linked, and since when
        self._silent: dict[str, NodeInfo] = {}              # nodes whose lease ran out, and whose process may live on
        self._ended_runs: dict[str, int] = {}               # incarnations of which it is known that they are over
        self._probed: set[tuple[str, str, int]] = set()     # runs of nodes
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
        self.store: Coordination = await self._surroundings.open_store(config, keepsake)
        self._opened.push_async_callback(self.store.close)
        self.membership = Membership(self.store, keepsake, config.data_dir)
        self.replica = Replica(self.store, self.broker, self.membership.lease_of, self._tick)
        await self.until_heard(self.membership.enter)
        self._is_member = True
        if self.membership.has_lost_disk:
            self._report("warning", f"the data directory is new, and the cluster had a node of the name {self.membership.name}: "
                                    "this one takes its place with nothing; it gets its mirrored queues again from the nodes "
                                    "that are in sync, and what no other node has is lost")
        snapshot = await self.until_heard(self.replica.load)
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

    async def until_heard(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """A start waits for a store that is away, with a word about it now and then: a node that ended instead would be missing
        when the store is back. A damaged store is left to people."""
        spoke = -SPEAK
        while True:
            try:
                return await ask()
            except StoreDamaged:
                raise
            except (CoordinationError, StoreUnheard) as fault:
                if self._loop.time() - spoke >= SPEAK:
                    spoke = self._loop.time()
                    self._report("warning", f"waiting for the coordination store: {fault}")
                await asyncio.sleep(AGAIN)

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
        port = config.advertised_port or self.links.port
        await self.until_heard(lambda: self.membership.announce(advertised, port, about))
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
        for name in self.membership.running:
            self._silent.pop(name, None)
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

    def parted(self, seconds: float = PARTED) -> list[str]:
        """Nodes that are up, as the store knows, and that this node has not reached for so long."""
        now = self._loop.time()
        return sorted(name for name, since in self._unlinked.items() if now - since > seconds)

    def unreachable(self) -> list[str]:
        """The same with those that count as down because nobody hears them: they were not stopped, and nothing says that their
        processes have ended."""
        members = self.membership.members
        return sorted({*self.parted(), *(name for name in self._silent if name in members)})

    def running(self) -> list[str]:
        """The nodes that are up, as far as this one can know: without the store, those that it is linked to."""
        if self.store.reachability.is_reachable:
            return sorted(self.membership.running)
        return sorted({self.membership.name, *self.neighbours})

    def _gone(self, info: NodeInfo) -> None:
        name = info.name
        self._report("warning", f"node {name} is down")
        if name not in self.neighbours and self._ended_runs.get(name) != info.incarnation:
            self._silent[name] = info           # its lease ran out; it may live on the other side of a cut
            self._look_after(info)
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
        self.clocks.link_up(peer)
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
        self.clocks.link_down(peer.name)
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
        if info is not None:
            self._look_after(info)

    def _look_after(self, info: NodeInfo) -> None:
        """Of a node that is not linked."""
        run = (info.name, info.id, info.incarnation)
        if run not in self._probed and not self._is_stopping:
            self._probed.add(run)
            self.spawn(self._probe(info), f"probing {info.name}")

    async def _probe(self, info: NodeInfo) -> None:
        """A process that is gone refuses connections; then nobody has to wait for its lease to run out. Once is not enough: the
        kernel closes the sockets of a killed process one by one, the links perhaps before the listener, which takes connections
        until then. So it goes on until the node is linked again, or is known to be down, or runs anew."""
        failures = 0
        try:
            while self._is_missing(info):
                if await _refuses(info) and await self._declare_dead(info, is_again=failures > 0):
                    return
                failures += 1
                await asyncio.sleep(retry_pause(failures, random.random()))  # noqa: S311 - spreads attempts, guards nothing
        finally:
            self._probed.discard((info.name, info.id, info.incarnation))

    async def _declare_dead(self, info: NodeInfo, *, is_again: bool) -> bool:
        self._silent.pop(info.name, None)
        self._ended_runs[info.name] = info.incarnation
        try:
            await self.membership.declare_dead(info)
        except CoordinationError as fault:
            if not is_again:
                self._report("warning", f"the store does not hear that node {info.name} is down: {fault}")
            return False
        return True

    def _is_missing(self, info: NodeInfo) -> bool:
        """Whether there is no link to that run of a node, and nobody knows that it is over."""
        known = self.membership.running.get(info.name) or self._silent.get(info.name)
        return info.name not in self.neighbours and info.name in self.membership.members and known is not None and \
            (known.id, known.incarnation) == (info.id, info.incarnation)

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
        elif kind in (ASKED, CLOCK_TOLD) and self.clocks.received(neighbour.peer, kind, payload):
            self.on_time_moved()

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


async def _refuses(info: NodeInfo) -> bool:
    try:
        async with asyncio.timeout(PROBE):
            _, writer = await asyncio.open_connection(info.host, info.link_port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
