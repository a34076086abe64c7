"""One node of a simulated cluster: the real runtime, started and stopped as the server's application does it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrormq.admin import joining
from mirrormq.admin.errors import ApiError
from mirrormq.cluster.coordination import CoordinationError
from mirrormq.cluster.keepsake import Keepsake, WrongDirectory
from mirrormq.cluster.membership import NotAdmitted
from mirrormq.log.errors import LogError
from mirrormq.node import link_door, pressure, runtime
from mirrormq.node.cluster import LinkPortTaken
from mirrormq.node.config import NodeConfig
from mirrormq.node.config_format import Listener
from mirrormq.node.patience import StoreUnheard
from mirrormq.node.runtime import Runtime, StartError
from simnodes.disk import SimDisk, SimSurroundings
from simnodes.loop import SimLoop
from simnodes.store import SimStore
from simnodes.timing import Clock

if TYPE_CHECKING:
    from simnodes.network import Listener as SimListener
    from simnodes.world import World

AMQP = 5672
LINKS = 25672
START_FAULTS = (StartError, StoreUnheard, CoordinationError, WrongDirectory, NotAdmitted, LinkPortTaken, LogError)
DOWN, STARTING, UP, STOPPING, RESETTING = "down", "starting", "up", "stopping", "resetting"


def patch_sockets() -> None:
    """The few places that make or tune sockets by themselves, or ask the machine for its resources."""

    async def listen(_host: str, port: int) -> list[SimListener]:
        loop: Any = asyncio.get_running_loop()
        return [loop.world.network.listen(loop, port)]

    async def open_store(_config: NodeConfig, _keepsake: Keepsake) -> SimStore:
        loop: Any = asyncio.get_running_loop()
        return SimStore(loop.world.server, loop)

    link_door.listen = listen  # type: ignore[assignment]
    joining.open_store = open_store  # type: ignore[assignment]
    runtime.tune_listener = lambda _number, _options: None
    pressure.resident_memory = lambda: 100 << 20
    pressure.free_disk = lambda _folder: 100 << 30


class Application:
    """What the commands for joining and leaving ask of a node's application."""

    def __init__(self, node: SimNode) -> None:
        self.config = node.config
        self.runtime = node.runtime

    def changing(self) -> asyncio.Lock:
        return asyncio.Lock()

    def require_stopped(self) -> None:
        assert self.runtime is None


class SimNode:
    def __init__(self, world: World, host: str, root: Path) -> None:
        self.world = world
        self.host = host
        self.name = f"{host}@{host}"
        self.root = root
        self.clock = Clock(lambda: world.now)
        self.disk = SimDisk(world, root)
        self.state = DOWN
        self.loop: SimLoop | None = None
        self.runtime: Runtime | None = None
        self.given_up = ""                  # why it ended by itself
        self.is_leaving = False             # an operator is taking it out, and nobody else starts it
        self.is_blank = True                # there is nothing on its disk
        self.starts = 0
        self.config = NodeConfig(
            node_name=self.name, data_dir=root / "data", tcp_listeners=(Listener("", AMQP),), management_port=None,
            coordination="etcd:sim", link_port=LINKS, link_port_is_fixed=True, secret_file=root.parent / "cookie",
            loopback_users=(), cluster_name="sim", default_vhost="/")

    @property
    def is_up(self) -> bool:
        return self.state == UP

    def configure(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)

    # --- starting and stopping ----------------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.state == DOWN
        self.world.network.machine_back(self.host)
        self.state = STARTING
        self.given_up = ""
        self.is_blank = False
        self.starts += 1
        self.world.note(self.host, "starts")
        self._begin(self._run(), "running the node")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.loop = SimLoop(self.world, self.clock, self.host)
        self.world.graveyard.append(self.loop)
        self.loop.create_task(work, name=name)

    async def _run(self) -> None:
        try:
            made = Runtime(self.config, SimSurroundings(self.world, self.disk))
            self.world.graveyard.append(made)
            self.runtime = made
            made.cluster.on_failed = self._failed
            made.cluster.questions.answer = self._answer
            try:
                await made.start()
                await made.listen()
            except BaseException:
                await made.abandon()
                raise
        except (*START_FAULTS, OSError) as fault:
            self._ended(f"cannot start: {fault}")
            return
        if self.state == STARTING:
            self.state = UP
            made.cluster.membership.on_forgotten = lambda: self._failed("the cluster has forgotten it")
            self.world.note(self.host, "is up")

    async def _answer(self, what: str, about: dict[str, Any]) -> Any:
        assert self.runtime is not None
        if what == "ring_orders":
            return await self.runtime.orders.answer(about)
        if what == "quarantine":
            return await self.runtime.quarantine.answer(about)
        return None

    def _failed(self, why: str) -> None:
        self.world.note(self.host, f"gives up: {why}")
        self.given_up = why
        self.stop()

    def stop(self) -> None:
        """As if asked politely."""
        if self.state == UP:
            assert self.loop is not None
            self.state = STOPPING
            self.world.note(self.host, "stops")
            self.loop.create_task(self._stop(), name="stopping the node")
            self.loop.rearrange()

    async def _stop(self) -> None:
        assert self.runtime is not None
        try:
            await self.runtime.stop()
        except OSError as fault:            # of a disk that refuses: the process ends all the same
            self._ended(f"cannot stop as it should: {fault}")
        else:
            self._ended("")

    def reset(self) -> None:
        """What `mirrormqctl reset` does while the application is stopped."""
        assert self.state == DOWN
        self.state = RESETTING
        self.world.note(self.host, "is reset")
        self._begin(self._reset(), "resetting the node")

    async def _reset(self) -> None:
        try:
            await joining.reset(Application(self))  # type: ignore[arg-type]
        except (ApiError, *START_FAULTS, OSError) as fault:
            self._ended(f"cannot be reset: {fault}")
        else:
            self.disk.forget()
            self.is_blank = True
            self._ended("")

    def forget(self, name: str) -> asyncio.Task[bool]:
        """What `mirrormqctl forget_cluster_node` does; whether that node is no member any more."""
        assert self.loop is not None
        task = self.loop.create_task(self._forget(name), name="forgetting a node")
        self.loop.rearrange()
        return task

    async def _forget(self, name: str) -> bool:
        self.world.note(self.host, f"is asked to forget {name}")
        try:
            await joining.forget(Application(self), name)  # type: ignore[arg-type]
        except ApiError as fault:
            return fault.error == "not_a_cluster_node"
        except CoordinationError:
            return False
        return True

    def _ended(self, why: str) -> None:
        self.given_up = self.given_up or why
        self.world.note(self.host, f"has ended {why}")
        self._bury()

    def _bury(self) -> None:
        assert self.loop is not None
        self.loop.is_dead = True
        self.world.network.process_ended(self.loop)
        self.world.graveyard.append(asyncio.all_tasks(self.loop))
        self.loop = None
        self.runtime = None
        self.state = DOWN
        self._close_files()

    def _close_files(self) -> None:
        """What a process had open is closed when it is gone."""
        mine = str(self.root) + "/"
        for link in list(Path("/proc/self/fd").iterdir()):
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith(mine):
                os.close(int(link.name))

    # --- faults -------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: what was written stays, synced or not."""
        if self.state != DOWN:
            self.world.note(self.host, "is killed")
            self._bury()

    def lose_power(self) -> None:
        if self.state != DOWN:
            self.world.note(self.host, "loses power")
            self.world.network.machine_lost(self.host)
            self._bury()
            self.disk.lose_power()

    def lose_disk(self) -> None:
        assert self.state == DOWN
        self.world.note(self.host, "has lost its disk")
        shutil.rmtree(self.root)
        self.root.mkdir()
        self.disk.forget()
        self.is_blank = True

    def freeze(self, seconds: float) -> None:
        if self.loop is not None:
            self.world.note(self.host, f"is frozen for {seconds:.2f} s")
            self.loop.frozen_until = self.world.now + seconds
            self.loop.rearrange()

    def step_clock(self, seconds: float) -> None:
        self.world.note(self.host, f"its wall clock jumps by {seconds:.1f} s")
        self.clock.step += seconds

    # --- looking inside -----------------------------------------------------------------------------------------------

    def holdings(self) -> dict[int, Any]:
        return {} if self.runtime is None else dict(self.runtime.mirroring.rings.by_id)
