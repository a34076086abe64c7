"""What only an etcd of several members can suffer: its members die, freeze, lose each other, and are set back."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.etcd import EtcdCluster, etcd_cluster
from mirrormq.cluster.coordination import (
    Coordination,
    OutcomeUnknown,
    Put,
    Snapshot,
    StoreDamaged,
    Unreachable,
    ValueIs,
    open_coordination,
)
from mirrormq.cluster.coordination.etcd.store import EtcdCoordination

from .support import PATIENCE, Copy, eventually, following, put, put_many

pytestmark = pytest.mark.live


@pytest_asyncio.fixture
async def store(etcd: EtcdCluster) -> AsyncIterator[EtcdCoordination]:
    store = await open_coordination(etcd.spec, namespace=f"test-{secrets.token_hex(8)}")
    assert isinstance(store, EtcdCoordination)
    yield store
    await store.close()


def used_member(store: EtcdCoordination, etcd: EtcdCluster) -> int:
    """The number of the member that this client talks to."""
    address = store._transport._endpoints.current
    return next(number for number, member in enumerate(etcd.members) if member.url == address)


class Load:
    """Counts up in one key by compare and swap, as a careful client does: after an unknown outcome it looks."""

    def __init__(self, store: Coordination) -> None:
        self._store = store
        self.count = 0
        self.unknown = 0
        self.unreachable = 0
        self._is_over = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await put(self._store, "count", "0")
        while True:
            try:
                await self._step()
                if self._is_over:
                    return
            except OutcomeUnknown:
                self.unknown += 1
                await self._look()
            except Unreachable:
                self.unreachable += 1

    async def _step(self) -> None:
        following = str(self.count + 1)
        outcome = await self._store.transact([ValueIs("count", str(self.count))], [Put("count", following)])
        if outcome.succeeded:
            self.count += 1
        else:  # one whose outcome was unknown has happened after all, and no other
            assert outcome.found["count"].value == following
            self.count += 1

    async def _look(self) -> None:
        while True:
            try:
                value = int((await self._store.read("count")).items["count"].value)
            except Unreachable:
                continue
            assert value in (self.count, self.count + 1)
            self.count = value
            return

    async def grow(self, count: int) -> None:
        """Wait until so many more have succeeded."""
        wanted = self.count + count
        async with asyncio.timeout(PATIENCE):
            while self.count < wanted:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """A step that is under way ends first: given up, it could still happen after the last look."""
        self._is_over = True
        await asyncio.wait_for(self._task, PATIENCE)


async def under_load(store: Coordination, disturb: Callable[[Load], Awaitable[None]]) -> Load:
    """Let a client count and another watch while something happens; nothing may be lost, told twice, or skipped."""
    revision = (await store.read("")).revision
    copy = Copy()
    watch = store.watch("count", revision)
    copying = asyncio.create_task(copy.follow(watch))
    load = Load(store)
    await load.grow(20)
    await disturb(load)
    await load.grow(20)
    await load.stop()
    last = (await store.read("count")).items["count"].value
    await eventually(lambda: copy.values.get("count") == last)
    assert copy.resets == 0
    assert [value for _, value in copy.told] == [str(number) for number in range(int(last) + 1)]
    await watch.aclose()
    await copying
    return load


async def test_each_member_is_killed_in_turn_under_load(store: EtcdCoordination, etcd: EtcdCluster) -> None:
    async def disturb(load: Load) -> None:
        for number in range(3):
            etcd.kill(number)
            await load.grow(20)
            etcd.start_member(number)
            await asyncio.to_thread(etcd.wait_ready)
            await load.grow(20)

    await under_load(store, disturb)
    assert store.reachability.is_reachable


async def test_each_member_is_frozen_in_turn_under_load(store: EtcdCoordination, etcd: EtcdCluster) -> None:
    async def disturb(load: Load) -> None:
        for number in range(3):
            etcd.freeze(number)
            await load.grow(20)
            etcd.thaw(number)
            await asyncio.to_thread(etcd.wait_ready)

    await under_load(store, disturb)


async def test_all_members_are_killed_and_come_back_under_load(store: EtcdCoordination, etcd: EtcdCluster) -> None:
    async def disturb(load: Load) -> None:
        for number in range(3):
            etcd.kill(number)
        await asyncio.wait_for(store.reachability.wait_lost(), PATIENCE)
        await asyncio.to_thread(etcd.start)

    load = await under_load(store, disturb)
    assert load.unknown + load.unreachable > 0


async def test_an_idle_watch_leaves_a_member_that_froze(store: EtcdCoordination, etcd: EtcdCluster) -> None:
    other = await open_coordination(etcd.spec, namespace=store._codec._namespace)
    async with aclosing(store.watch("", await put(store, "start"))) as watch:
        frozen = used_member(store, etcd)
        etcd.freeze(frozen)
        copy = Copy()
        for number in range(20):
            try:
                await put(other, f"k/{number}")
            except (OutcomeUnknown, Unreachable):
                continue
        await put(other, "end")
        await copy.until(watch, "end")
        assert used_member(store, etcd) != frozen
    await other.close()


async def test_without_a_majority_the_store_is_away_and_the_watch_goes_on_later(
    store: EtcdCoordination, etcd: EtcdCluster
) -> None:
    copy = Copy()
    async with aclosing(store.watch("", await put(store, "start"))) as watch:
        survivor = used_member(store, etcd)
        for number in {0, 1, 2} - {survivor}:
            etcd.kill(number)
        await asyncio.wait_for(store.reachability.wait_lost(), PATIENCE)
        with pytest.raises(Unreachable):
            await store.read("")
        with pytest.raises((Unreachable, OutcomeUnknown)):
            await put(store, "a")
        await asyncio.to_thread(etcd.start)
        await asyncio.wait_for(store.reachability.wait_reachable(), PATIENCE)
        await put(store, "end")
        await copy.until(watch, "end")


async def test_a_client_may_start_while_etcd_is_away(etcd: EtcdCluster) -> None:
    for number in range(3):
        etcd.kill(number)
    store = await open_coordination(etcd.spec, namespace="early")
    watch = store.watch("", 0)
    await asyncio.wait_for(store.reachability.wait_lost(), PATIENCE)
    await asyncio.to_thread(etcd.start)
    await asyncio.wait_for(store.reachability.wait_reachable(), PATIENCE)
    await put(store, "a")
    await following(watch)
    await store.close()


async def test_a_member_of_another_cluster_is_not_listened_to(
    store: EtcdCoordination, etcd: EtcdCluster, tmp_path: Path
) -> None:
    with etcd_cluster(tmp_path / "other", size=1) as stranger:
        spec = f"{etcd.spec},{stranger.members[0].url}"
        mixed = await open_coordination(spec, namespace="mixed")
        assert isinstance(mixed, EtcdCoordination)
        await put(mixed, "a", "0")
        home = mixed._transport._endpoints.current
        for _ in range(8):
            mixed._transport._fail(mixed._transport._endpoints.current)
            if mixed._transport._endpoints.current != home:
                await put(mixed, "a", "1")
        found = {url: await read_alone(url) for url in (home, stranger.members[0].url)}
        assert sum("a" in items for items in found.values()) == 1
        await mixed.close()


async def read_alone(url: str) -> set[str]:
    alone = await open_coordination(f"etcd:{url}", namespace="mixed")
    try:
        return set((await alone.read("")).items)
    finally:
        await alone.close()


async def test_a_store_that_was_set_back_is_not_used_further(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path / "first", size=1) as cluster:
        store = await open_coordination(cluster.spec)
        await put_many(store, "k/", 10)
        await put(store, "k/last")
        watch = store.watch("", 0)
        await following(watch)
        cluster.kill(0)
        (tmp_path / "first" / "m0").rename(tmp_path / "away")
        await asyncio.to_thread(cluster.start)  # the same name and address: the same cluster id, and empty
        with pytest.raises(StoreDamaged, match="set back"):
            await asyncio.wait_for(read_again_and_again(store), PATIENCE)
        with pytest.raises(StoreDamaged):
            await following(watch)
        with pytest.raises(StoreDamaged):
            await put(store, "a")
        await store.close()


async def read_again_and_again(store: Coordination) -> None:
    while True:
        with suppress(Unreachable):
            await store.read("")


async def read_at_last(store: Coordination, prefix: str) -> Snapshot:
    """As a node reads when it starts: again, where megabytes took too long."""
    while True:
        with suppress(Unreachable):
            return await store.read(prefix)


async def test_values_too_large_for_one_answer_are_read_in_smaller_pages(store: EtcdCoordination) -> None:
    for number in range(40):
        await put(store, f"large/{number:02}", chr(97 + number % 26) * 900_000)
    items = (await asyncio.wait_for(read_at_last(store, "large/"), PATIENCE)).items
    assert [item.value[0] for _, item in sorted(items.items())] == [chr(97 + number % 26) for number in range(40)]


async def test_a_compaction_between_two_pages_begins_the_read_anew(store: EtcdCoordination, etcd: EtcdCluster) -> None:
    await put_many(store, "k/", 5000)
    stop = asyncio.Event()

    async def compact() -> None:
        while not stop.is_set():
            await put(store, "other")
            await asyncio.to_thread(etcd.compact)

    compacting = asyncio.create_task(compact())
    for _ in range(5):
        assert len((await store.read("k/")).items) == 5000
    stop.set()
    await compacting
