"""The node's application: what `stop_app` stops and `start_app` starts, while the process and its door stay.

Rules
 1. Each start makes a new runtime; nothing of an earlier one is used again.
 2. One change of state at a time. A stop does not wait for a start that waits for the store: it gives it up.
 3. The directory belongs to the process, running or not.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Final

from mirrormq.admin.definitions_import import DefinitionsError, load_file
from mirrormq.admin.errors import ApiError
from mirrormq.cluster.coordination import CoordinationError
from mirrormq.cluster.keepsake import WrongDirectory
from mirrormq.cluster.membership import NotAdmitted
from mirrormq.log.errors import LogError
from mirrormq.node import directory, maintenance
from mirrormq.node.cluster import LinkPortTaken
from mirrormq.node.config import NodeConfig
from mirrormq.node.patience import StoreUnheard
from mirrormq.node.runtime import Runtime, StartError
from mirrormq.node.secret import SecretError
from mirrormq.node.tls import TlsError

log = logging.getLogger("mirrormq")
STARTING: Final = "starting"
RUNNING: Final = "running"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
NEEDS_RUNNING: Final = ("this command requires the 'rabbit' app to be running on the target node. Start it with "
                        "'mirrormqctl start_app'.")
NEEDS_STOPPED: Final = ("this command requires the 'rabbit' app to be stopped on the target node. Stop it with "
                        "'mirrormqctl stop_app'.")
START_FAULTS: Final = (StartError, StoreUnheard, CoordinationError, WrongDirectory, NotAdmitted, SecretError, LinkPortTaken,
                       LogError, TlsError, directory.DirectoryTaken)


class GivenUp(Exception):
    """Somebody has stopped what was starting."""


class App:
    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.state = STOPPED
        self.runtime: Runtime | None = None
        self.on_runtime: Callable[[Runtime | None], None] = lambda _: None      # the API serves this one from now on
        self.on_state: Callable[[], None] = lambda: None
        self._lock = directory.take(config.data_dir)
        self._change = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    # --- starting and stopping ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """One of START_FAULTS if it cannot be, GivenUp if somebody stops it meanwhile."""
        async with self._change:
            if self.state == RUNNING:
                return
            self._starting = asyncio.get_running_loop().create_task(self._start(), name="starting the application")
            await asyncio.wait({self._starting})
            if self._starting.cancelled():
                raise GivenUp("the application was stopped before it had started")
            self._starting.result()

    async def _start(self) -> None:
        self._set(STARTING)
        runtime = Runtime(self.config)
        runtime.cluster.on_failed = self._failed
        try:
            await runtime.start()
            await _load_definitions(runtime)
            self.on_runtime(runtime)
            await runtime.listen()
            await maintenance.introduce(runtime)
        except BaseException:
            self.on_runtime(None)
            await runtime.abandon()
            self._set(STOPPED)
            raise
        runtime.cluster.membership.on_forgotten = self._forgotten
        self.runtime = runtime
        _settle_memory()
        self._set(RUNNING)

    async def stop(self) -> None:
        if self._starting is not None and not self._starting.done() and not self._starting.cancelling():
            self._starting.cancel()         # once: what is given up must be able to let go of what it has
        async with self._change:
            runtime, self.runtime = self.runtime, None
            if runtime is None:
                return
            self._set(STOPPING)
            self.on_runtime(None)
            await runtime.stop()
            gc.unfreeze()           # or the runtime that is over would stay in memory for ever
            self._set(STOPPED)

    async def close(self) -> None:
        """The process ends."""
        await self.stop()
        self._lock.close()

    def _set(self, state: str) -> None:
        log.info("the application is %s", state)
        self.state = state
        self.on_state()

    def _forgotten(self) -> None:
        self._give_up("the cluster has forgotten this node while it was cut off; its application stops: reset it with "
                      "'mirrormqctl reset', then it can join again")

    def _failed(self, why: str) -> None:
        self._give_up(f"this node cannot follow its cluster any more: {why}; its application stops: see to the coordination "
                      "store, then start it with 'mirrormqctl start_app'")

    def _give_up(self, sentence: str) -> None:
        log.critical(sentence)
        if self._ending is None or self._ending.done():
            self._ending = asyncio.get_running_loop().create_task(self.stop(), name="stopping by itself")

    # --- for commands ---------------------------------------------------------------------------------------------------

    def running(self) -> Runtime:
        if self.runtime is None:
            raise ApiError(503, "app_not_running", NEEDS_RUNNING)
        return self.runtime

    def require_stopped(self) -> None:
        if self.state != STOPPED:
            raise ApiError(400, "app_running", NEEDS_STOPPED)

    def changing(self) -> asyncio.Lock:
        """Held while something is done to a stopped node, so that it does not start meanwhile."""
        return self._change


async def _load_definitions(runtime: Runtime) -> None:
    """What `load_definitions` names, before the first client comes."""
    path = runtime.config.load_definitions
    if path is not None:
        try:
            await load_file(runtime, path)
        except DefinitionsError as fault:
            raise StartError(str(fault)) from None
        await runtime.offer_events()        # the virtual host for them may be one of those


def _settle_memory() -> None:
    """What is there after the start stays; the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
