"""Another process that uses a store: one word says what it does. It answers in lines of JSON.

race SPEC KEY COUNT     adds one to a number so many times, each time by compare and swap; answers the numbers that it wrote
lease SPEC KEY TTL      grants a lease, hangs a key on it, keeps it alive until it is killed; answers the lease
watch SPEC PREFIX       answers each piece of news, as [revision, [[key, value] …]] or ["reset", revision, {key: value}]
write SPEC PREFIX       writes without end, as fast as it can; answers how many after each line that it is sent
hold PATH               holds the write lock of an SQLite file until it is killed
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from mirrormq.cluster.coordination import (
    Absent,
    Changes,
    Coordination,
    OutcomeUnknown,
    Put,
    Unreachable,
    ValueIs,
    open_coordination,
)


def answer(word: object) -> None:
    print(json.dumps(word), flush=True)


async def race(store: Coordination, key: str, count: str) -> None:
    written: list[int] = []
    snapshot = await store.read(key)
    known = snapshot.items[key].value if key in snapshot.items else None
    answer("ready")
    await asyncio.to_thread(sys.stdin.readline)
    while len(written) < int(count):
        compare = Absent(key) if known is None else ValueIs(key, known)
        value = str(int(known or 0) + 1)
        outcome = await store.transact([compare], [Put(key, value)])
        if outcome.succeeded:
            written.append(int(value))
            known = value
        else:
            known = outcome.found[key].value
    answer(written)


async def lease(store: Coordination, key: str, ttl: str) -> None:
    granted = await store.grant(int(ttl))
    await store.transact([], [Put(f"{key}1", "here", granted), Put(f"{key}2", "here", granted)])
    answer(granted)
    while remaining := await store.keep_alive(granted):  # noqa: ASYNC110 - a lease asks for just that
        await asyncio.sleep(remaining / 3)


async def watch(store: Coordination, prefix: str) -> None:
    snapshot = await store.read(prefix)
    news = store.watch(prefix, snapshot.revision)
    answer("ready")
    async for piece in news:
        if isinstance(piece, Changes):
            answer([piece.revision, [[change.key, change.item and change.item.value] for change in piece.changes]])
        else:
            found = {key: item.value for key, item in piece.snapshot.items.items()}
            answer(["reset", piece.snapshot.revision, found])


async def write(store: Coordination, prefix: str) -> None:
    done = 0

    async def tell() -> None:
        while await asyncio.to_thread(sys.stdin.readline):
            answer(done)

    telling = asyncio.create_task(tell())
    answer("ready")
    while not telling.done():
        try:
            await store.transact([], [Put(f"{prefix}{done:08}", "x")])
            done += 1
        except (Unreachable, OutcomeUnknown):
            continue


def hold(path: str) -> None:
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    database.execute("begin immediate")
    answer("held")
    while True:
        time.sleep(60)


async def main(word: str, spec: str, *arguments: str) -> None:
    tasks: dict[str, Callable[..., Awaitable[None]]] = {"race": race, "lease": lease, "watch": watch, "write": write}
    store = await open_coordination(spec)
    await tasks[word](store, *arguments)
    await store.close()


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2])
    else:
        uvloop.run(main(*sys.argv[1:]))
