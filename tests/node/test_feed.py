"""What a node keeps for lake mirrors, from the moment on at which it knows of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from inprocess import config
from mirrormq.broker import registry, rules
from mirrormq.broker.arguments import QueueArguments
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.queue import NEVER
from mirrormq.node.feed import COMPONENT, MAX_LEASE
from mirrormq.node.runtime import Runtime


class Desk:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._broker = runtime.broker

    async def register(self, pattern: str, *, age: int = 0) -> None:
        rules.put_parameter(self._broker, COMPONENT, "/", "lake", {"pattern": pattern, "renewed": self._broker.now - age})
        await self._runtime.agreed(0)

    async def unregister(self) -> None:
        rules.delete_parameter(self._broker, COMPONENT, "/", "lake")
        await self._runtime.agreed(0)

    async def publish(self, name: str, *, durable: bool = True) -> int:
        """The first entry of a new queue's log, which is told."""
        vhost = self._broker.vhosts["/"]
        registry.create_queue(self._broker, vhost, name, QueueArguments({}), durable=durable, auto_delete=False, owner=None)
        await self._runtime.agreed(0)
        return self._append(vhost.queues[name].log_id)

    async def delay(self, name: str) -> int:
        """The same of the log behind a new delayed exchange."""
        vhost = self._broker.vhosts["/"]
        registry.create_exchange(self._broker, vhost, name, "x-delayed-message", durable=True, auto_delete=False, internal=False,
                                 arguments={"x-delayed-type": "direct"})
        await self._runtime.agreed(0)
        return self._append(self._broker.delays.queues[vhost.exchanges[name]].log_id)

    def _append(self, log_id: int) -> int:
        builder = ChunkBuilder(log_id, 1, 1)
        builder.enqueue(0, b"to", b"content", 7)
        self._runtime.log.append(log_id, 1, 1, builder.seal(1), sync=True)
        return log_id

    def look(self) -> None:
        """As each five seconds."""
        self._runtime.lake_mirrors.hold()

    def kept_from(self, log_id: int) -> int:
        queue = self._runtime.log.store.queue(log_id)
        assert queue is not None
        return queue.retain_from


@asynccontextmanager
async def desk_in(directory: Path) -> AsyncIterator[Desk]:
    runtime = Runtime(config(directory))
    await runtime.start()
    try:
        yield Desk(runtime)
    finally:
        await runtime.stop()


async def test_a_queue_that_is_declared_after_a_lake_mirror_is_held_from_its_first_message_on(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register("^q$")
        assert desk.kept_from(await desk.publish("q")) == 1


async def test_a_queue_that_is_older_than_a_lake_mirror_is_held_as_soon_as_that_is_registered(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        covered, other = await desk.publish("q"), await desk.publish("other")
        assert desk.kept_from(covered) == NEVER
        await desk.register("^q$")
        assert (desk.kept_from(covered), desk.kept_from(other)) == (1, NEVER)


async def test_a_lake_mirror_that_wants_other_queues_has_them_held_at_once(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        log_id = await desk.publish("q")
        await desk.register("^other$")
        assert desk.kept_from(log_id) == NEVER
        await desk.register("^q$")
        assert desk.kept_from(log_id) == 1


async def test_a_queue_that_is_declared_when_the_last_lake_mirror_is_gone_is_not_held(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register(".*")
        await desk.unregister()
        assert desk.kept_from(await desk.publish("q")) == NEVER


async def test_what_began_while_there_was_a_lake_mirror_is_let_go_when_that_is_gone(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register(".*")
        log_id = await desk.publish("q")
        await desk.unregister()
        desk.look()
        assert desk.kept_from(log_id) == NEVER


async def test_a_lake_mirror_that_is_registered_again_at_once_is_new(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register(".*")
        await desk.unregister()
        log_id = await desk.publish("q")
        await desk.register(".*")
        assert desk.kept_from(log_id) == 1


async def test_a_lake_mirror_that_comes_back_after_its_lease_is_held_for_at_once(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register(".*", age=MAX_LEASE + 1)
        log_id = await desk.publish("q")
        desk.look()
        assert desk.kept_from(log_id) == NEVER
        await desk.register(".*")
        assert desk.kept_from(log_id) == 1


async def test_a_transient_queue_that_nobody_follows_is_let_go(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register("^other$")
        log_id = await desk.publish("q", durable=False)
        desk.look()
        assert desk.kept_from(log_id) == NEVER


async def test_what_a_delayed_exchange_keeps_is_not_held(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.register(".*")
        log_id = await desk.delay("later")
        desk.look()
        assert desk.kept_from(log_id) == NEVER
