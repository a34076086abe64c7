"""Nodes that join, leave, are forgotten, or lose their disk: what an operator does, step by step, until it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mirrormq.wire.methods import QueueDeclare, QueueDelete
from simnodes.line import Gone, Line, Refused
from simnodes.node import DOWN, STARTING, UP, SimNode

if TYPE_CHECKING:
    from simnodes.copies import Copies
    from simnodes.world import World

MOST = 5            # nodes of a cluster
FEWEST = 2
LOOK = 0.1          # seconds between two looks of an operator
AGAIN = 1.0         # seconds until something that failed is tried again


class Members:
    def __init__(self, world: World, copies: Copies) -> None:
        self.world = world
        self.copies = copies
        self.on_end: Callable[[], None] = lambda: None      # of something that the operator did
        self.works: list[asyncio.Task[None]] = []
        copies.on_deleted = lambda queue: self._begin(self._declare(queue))
        copies.on_bereft = lambda queue: self._begin(self._make_anew(queue))

    @property
    def is_busy(self) -> bool:
        return not all(work.done() for work in self.works)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.world.clients_loop.create_task(self._guard(work))
        self.world.clients_loop.rearrange()
        self.works.append(task)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as fault:  # noqa: BLE001 - a fault of the simulation itself must not pass for quiet
            self.world.complain("operator", "an operator's work failed", fault)
        self.on_end()

    def _pick(self, remaining: int) -> SimNode | None:
        """A node that may be away for a while, so that so many others remain."""
        left = [node for node in self.world.nodes if not node.is_leaving]
        return self.world.rng.choice(left) if len(left) > remaining else None

    # --- what happens to nodes -----------------------------------------------------------------------------------------

    def join(self) -> None:
        if len(self.world.nodes) < MOST:
            self.world.add_node().start()

    def leave(self) -> None:
        if (node := self._pick(FEWEST)) is not None:
            self._begin(self._leave(node))

    def forget(self) -> None:
        if (node := self._pick(FEWEST)) is not None:
            self._begin(self._forget(node))

    def lose_disk(self) -> None:
        if (node := self._pick(1)) is not None:
            self._begin(self._lose_disk(node))

    async def _leave(self, node: SimNode) -> None:
        """It is stopped and reset, and perhaps comes back with nothing."""
        node.is_leaving = True
        await self._stop(node)
        while not node.is_blank:
            if node.state == DOWN:
                self.copies.gone(node.name, is_forgotten=True)
                node.reset()
            await asyncio.sleep(AGAIN)
        await self._go_or_return(node)

    async def _forget(self, node: SimNode) -> None:
        """It ends, and others forget it. It is refused when it comes back as if nothing had happened."""
        rng = self.world.rng
        node.is_leaving = True
        if rng.random() < 0.3:
            await self._stop(node)
        elif rng.random() < 0.5:
            node.lose_power()
        else:
            node.kill()
        self.copies.gone(node.name, is_forgotten=True)
        while True:
            if await self._is_forgotten(node):
                break
            await asyncio.sleep(AGAIN)
        if rng.random() < 0.4:
            node.start()
            await self._until(lambda: node.state != STARTING)
            if node.state == UP:
                self.world.violate(f"(members) {node.host} was forgotten and has come back by itself")
        node.kill()
        node.lose_disk()
        await self._go_or_return(node)

    async def _is_forgotten(self, node: SimNode) -> bool:
        """Whether another node says so now."""
        others = [each for each in self.world.nodes if each.is_up and each is not node]
        if not others:
            return False
        by = self.world.rng.choice(others)
        process = by.loop
        answer = by.forget(node.name)
        await self._until(lambda: answer.done() or by.loop is not process)      # a killed one never answers
        return answer.done() and answer.result()

    async def _lose_disk(self, node: SimNode) -> None:
        """Its data directory is gone; it is started with an empty one."""
        node.is_leaving = True
        if self.world.rng.random() < 0.5:
            node.lose_power()
        else:
            node.kill()
        self.copies.gone(node.name, is_forgotten=False)
        node.lose_disk()
        await asyncio.sleep(self.world.rng.random() * 3)
        await self._return(node)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while True:
            if condition():
                return
            await asyncio.sleep(LOOK)

    async def _stop(self, node: SimNode) -> None:
        while node.state != DOWN:
            node.stop()
            await asyncio.sleep(LOOK)

    async def _go_or_return(self, node: SimNode) -> None:
        left = sum(1 for each in self.world.nodes if not each.is_leaving)
        if left >= FEWEST and self.world.rng.random() < 0.4:
            self.world.note(node.host, "leaves for good")
            self.world.nodes.remove(node)
            self.world.network.machine_back(node.host)      # it refuses connections, and nobody waits for it
        else:
            await asyncio.sleep(self.world.rng.random() * 3)
            await self._return(node)

    async def _return(self, node: SimNode) -> None:
        """Started again and again until it is up, or until somebody takes it out once more."""
        node.is_leaving = False
        self.copies.returned(node.name)
        while not node.is_up and not node.is_leaving:
            if node.state == DOWN:
                node.start()
            await self._until(lambda: node.state != STARTING)
            if not node.is_up:
                await asyncio.sleep(AGAIN)

    # --- what happens to queues ----------------------------------------------------------------------------------------

    async def _declare(self, queue: str) -> None:
        """A queue that went with its only node."""
        await self._ask_until_done(lambda line: line.call(QueueDeclare(queue, durable=True)))

    async def _make_anew(self, queue: str) -> None:
        """A queue that nobody may lead any more. Once it is deleted it is declared again, as any that goes."""
        await asyncio.sleep(5.0)
        await self._ask_until_done(lambda line: line.call(QueueDelete(queue)))

    async def _ask_until_done(self, work: Callable[[Line], Coroutine[Any, Any, object]]) -> None:
        while True:
            line = Line(self.world, "operator")
            self.world.graveyard.append(line)
            try:
                await line.open(self.world.rng.choice([node for node in self.world.nodes if node.is_up] or self.world.nodes))
                await work(line)
                await line.close()
                return
            except (Gone, Refused):
                await asyncio.sleep(AGAIN)
