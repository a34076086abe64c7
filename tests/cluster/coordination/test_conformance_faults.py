"""What every store promises when several processes use it, when some of them die, and when the store itself is away."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing

import pytest

from mirrormq.cluster.coordination import Coordination, OutcomeUnknown, Put, Transaction, Unreachable

from .conftest import Backend, Open
from .support import PATIENCE, Child, Copy, all_held, changed, eventually, following, put, values

pytestmark = pytest.mark.live

RACES = int(os.environ.get("MIRRORMQ_RACES", "1000"))
PROMPT = 15.0
"""Seconds within which a call is answered when the store is away: three, and the rest for a busy machine."""

Start = Callable[..., Child]


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_two_processes_race_on_one_key_many_times(backend: Backend, store: Coordination, children: Start) -> None:
    racers = [children("race", backend.spec, "counter", str(RACES // 2)) for _ in range(2)]
    for racer in racers:
        racer.expect("ready")
    for racer in racers:
        racer.say("go")
    written = [number for racer in racers for number in await racer.heard(280)]
    assert sorted(written) == list(range(1, RACES + 1))
    assert (await store.read("")).items["counter"].value == str(RACES)


async def test_the_keys_of_a_killed_process_go_with_its_lease(backend: Backend, store: Coordination, children: Start) -> None:
    child = children("lease", backend.spec, "node/", "5")
    await child.heard()
    snapshot = await store.read("node/")
    assert set(snapshot.items) == {"node/1", "node/2"}
    async with aclosing(store.watch("node/", snapshot.revision)) as watch:
        with pytest.raises(TimeoutError):
            await following(watch, 6)
        child.kill()
        assert values(await changed(watch)) == [("node/1", None), ("node/2", None)]
    assert (await store.read("node/")).items == {}


async def test_another_process_watches(backend: Backend, store: Coordination, children: Start) -> None:
    watchers = [children("watch", backend.spec, "p/") for _ in range(2)]
    for watcher in watchers:
        watcher.expect("ready")
    for number in range(100):
        await put(store, "p/key", str(number))
    for watcher in watchers:
        told: list[list[str]] = []
        while len(told) < 100:
            told += (await watcher.heard())[1]
        assert told == [["p/key", str(number)] for number in range(100)]


async def test_a_frozen_watcher_harms_nobody_and_misses_nothing(backend: Backend, store: Coordination, children: Start) -> None:
    watcher = children("watch", backend.spec, "p/")
    watcher.expect("ready")
    watcher.freeze()
    assert all_held(await store.transact_many([Transaction([], [Put("p/key", str(number))]) for number in range(500)]))
    watcher.thaw()
    told: list[list[str]] = []
    while len(told) < 500:
        told += (await watcher.heard())[1]
    assert told == [["p/key", str(number)] for number in range(500)]


async def test_while_the_store_is_away_calls_say_so_in_time(backend: Backend, store: Coordination) -> None:
    lease = await store.grant(60)
    before = await put(store, "a", "before")
    states: list[bool] = []
    store.reachability.listen(lambda state: states.append(state.is_reachable))
    copy = Copy()
    watch = store.watch("", before)
    following = asyncio.create_task(copy.follow(watch))
    backend.begin_outage()
    calls = (store.transact([], [Put("a", "lost")]), store.keep_alive(lease), store.grant(5), store.revoke(lease))
    async with asyncio.timeout(PROMPT):
        faults = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(fault, Unreachable | OutcomeUnknown) and len(str(fault)) > 30 for fault in faults), faults
    await asyncio.wait_for(store.reachability.wait_lost(), PATIENCE)
    assert "unreachable for" in str(store.reachability)
    backend.end_outage()
    await asyncio.wait_for(store.reachability.wait_reachable(), PATIENCE)
    for number in range(10):
        await put(store, f"after/{number}")
    await eventually(lambda: "after/9" in copy.values)
    assert copy.resets == 0
    assert [key for key, _ in copy.told if key != "a"] == [f"after/{number}" for number in range(10)]
    assert states == [False, True]
    await watch.aclose()
    await following


async def test_a_client_that_asks_nothing_notices_the_return(backend: Backend, opened: Open) -> None:
    store = await opened()
    await put(store, "a")
    backend.begin_outage()
    with pytest.raises((Unreachable, OutcomeUnknown)):
        await store.transact([], [Put("a", "")])
    await asyncio.wait_for(store.reachability.wait_lost(), PATIENCE)
    backend.end_outage()
    await asyncio.wait_for(store.reachability.wait_reachable(), PATIENCE)
    assert store.reachability.is_reachable


async def test_a_batch_ends_in_time_when_the_store_is_away(backend: Backend, store: Coordination) -> None:
    await put(store, "key", "0")
    backend.begin_outage()
    async with asyncio.timeout(PROMPT):
        outcomes = await store.transact_many([Transaction([], [Put("key", str(number))]) for number in range(20)])
    assert all(isinstance(outcome, Unreachable | OutcomeUnknown) for outcome in outcomes)
    backend.end_outage()
    await asyncio.wait_for(store.reachability.wait_reachable(), PATIENCE)
    assert (await store.transact([], [Put("key", "new")])).succeeded
