"""What a node stands on beside its event loop: the clocks, the disk, who waits for it, and the coordination store. A simulation
puts others there; nothing else of a node knows."""

from __future__ import annotations

import asyncio
import time

from mirrormq.cluster.coordination import Coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.log.disk import Disk
from mirrormq.log.store import MIB
from mirrormq.log.syncer import Syncer, Worker, best_syncer
from mirrormq.node.clock import since_boot
from mirrormq.node.cluster_store import open_store
from mirrormq.node.config import NodeConfig


class Surroundings:
    wal_bytes: int = 64 * MIB
    segment_bytes: int = 16 * MIB

    def wall(self) -> float:
        """Seconds since 1970, as the machine's clock says."""
        return time.time()

    def steady(self) -> float:
        """Seconds that nobody sets."""
        return since_boot()

    def disk(self) -> Disk:
        return Disk()

    def syncer(self, loop: asyncio.AbstractEventLoop) -> Syncer:
        """Who waits for commits."""
        return best_syncer(loop)

    def worker(self, loop: asyncio.AbstractEventLoop, lock_fd: int) -> Worker:
        """Who does long work on files."""
        return Worker(loop, lock_fd)

    async def open_store(self, config: NodeConfig, keepsake: Keepsake) -> Coordination:
        return await open_store(config, keepsake)
