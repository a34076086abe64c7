"""What only the file can suffer, and what it promises to be: quiet when idle, fair to its writers, careful with strange files."""

# ruff: noqa: ASYNC230, ASYNC240 - the event loops of these tests have nothing else to do

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, closing
from pathlib import Path

import pytest
import pytest_asyncio

from mirrormq.cluster.coordination import (
    Closed,
    Delete,
    Item,
    LeaseGone,
    Put,
    StoreDamaged,
    Unreachable,
    open_coordination,
)
from mirrormq.cluster.coordination.sqlite import FileCoordination
from mirrormq.cluster.coordination.sqlite.schema import APPLICATION, FORMAT
from mirrormq.cluster.coordination.sqlite.watching import LARGEST

from .support import PATIENCE, Child, Copy, changed, eventually, following, put, put_many, values

SAMPLE = Path(__file__).parent / "sample-v1.db"
Start = Callable[..., Child]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest_asyncio.fixture
async def store(path: Path) -> AsyncIterator[FileCoordination]:
    store = await open_file(path)
    yield store
    await store.close()


async def open_file(path: Path) -> FileCoordination:
    store = await open_coordination(f"sqlite:{path}")
    assert isinstance(store, FileCoordination)
    return store


def bells(path: Path) -> set[str]:
    return {bell.name for bell in Path(f"{path}-bells").glob("*")}


async def test_a_node_knows_its_own_change_when_it_is_answered(store: FileCoordination) -> None:
    watch = store.watch("", await put(store, "start"))
    waiting = asyncio.create_task(anext(watch))
    await asyncio.sleep(0.05)
    revision = await put(store, "a")
    assert watch._seen == revision
    assert values(await waiting) == [("a", "")]  # type: ignore[arg-type]


async def test_what_was_written_is_there_after_a_restart(store: FileCoordination, path: Path) -> None:
    lease = await store.grant(60)
    revision = await put(store, "a", "value", lease)
    await store.close()
    again = await open_file(path)
    snapshot = await again.read("")
    assert (snapshot.revision, snapshot.items) == (revision, {"a": Item("value", revision, lease)})
    assert await again.grant(60) > lease
    assert await put(again, "b") == revision + 1
    await again.close()


async def test_only_its_owner_can_read_the_file(store: FileCoordination, path: Path) -> None:
    await put(store, "a")
    watch = store.watch("", 0)
    assert {file.name: file.stat().st_mode & 0o077 for file in path.parent.iterdir() if file.stat().st_mode & 0o077} == {}
    await watch.aclose()


async def test_an_idle_store_asks_next_to_nothing(store: FileCoordination) -> None:
    watch = store.watch("", await put(store, "start"))
    waiting = asyncio.create_task(anext(watch))
    await asyncio.sleep(1.5)
    queries: list[str] = []
    for database in (store._writer._database, store._reader._database):
        assert database is not None
        database.set_trace_callback(queries.append)
    await asyncio.sleep(3)
    assert 1 <= len(queries) <= 6
    assert set(queries) == {"pragma data_version"}
    waiting.cancel()


async def test_bells_of_the_dead_are_swept(store: FileCoordination, path: Path, children: Start) -> None:
    watcher = children("watch", f"sqlite:{path}", "p/")
    watcher.expect("ready")
    [bell] = bells(path)
    watcher.kill()
    assert bells(path) == {bell}
    watch = store.watch("", await put(store, "a"))
    assert len(bells(path)) == 1
    assert bell not in bells(path)
    await watch.aclose()
    await store.close()
    assert bells(path) == set()


async def test_a_bell_that_was_removed_is_hung_again(store: FileCoordination, path: Path) -> None:
    other = await open_file(path)
    async with aclosing(store.watch("", await put(store, "start"))) as watch:
        shutil.rmtree(f"{path}-bells")
        await put(other, "a")
        assert values(await changed(watch)) == [("a", "")]
        await eventually(lambda: bool(bells(path)))
        await put(other, "b")
        assert values(await changed(watch)) == [("b", "")]
    await other.close()


async def test_a_writer_is_not_starved_by_busy_ones(store: FileCoordination, path: Path, children: Start) -> None:
    busy = [children("write", f"sqlite:{path}", f"busy{number}/") for number in range(2)]
    for child in busy:
        child.expect("ready")
    for number in range(200):
        await put(store, f"mine/{number}")
    done = []
    for child in busy:
        child.say("how many")
        done.append(child.hear())
    assert all(count >= 50 for count in done), done


async def test_a_frozen_process_in_the_queue_is_passed_by(store: FileCoordination, path: Path) -> None:
    with Path(f"{path}-turn").open("rb+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        await put(store, "a")


async def test_reads_and_watches_go_on_while_nobody_can_write(store: FileCoordination, path: Path, children: Start) -> None:
    revision = await put(store, "a", "value")
    children("hold", str(path)).expect("held")
    writing = asyncio.create_task(store.transact([], [Put("a", "new")]))
    await asyncio.sleep(0.1)
    assert (await store.read("")).items["a"].value == "value"
    assert values(await changed(store.watch("", revision - 1))) == [("a", "value")]
    with pytest.raises(Unreachable, match="another process holds"):
        await writing


async def test_a_full_disk_is_said_and_forgotten_when_there_is_room(store: FileCoordination) -> None:
    await put(store, "a")
    database = store._writer._database
    assert database is not None
    [pages] = database.execute("pragma page_count").fetchone()
    database.execute(f"pragma max_page_count = {pages + 2}")
    with pytest.raises(Unreachable, match="full"):
        await put(store, "large", "x" * 100_000)
    assert not store.reachability.is_reachable
    database.execute("pragma max_page_count = 1000000")
    await asyncio.wait_for(store.reachability.wait_reachable(), PATIENCE)
    assert set((await store.read("")).items) == {"a"}
    await put(store, "large", "x" * 100_000)


async def test_leases_of_an_earlier_boot_are_gone(store: FileCoordination, path: Path) -> None:
    lease = await store.grant(100_000)
    revision = await put(store, "node", "", lease)
    await put(store, "stays")
    await store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("update state set boot = 'another'")
    again = await open_file(path)
    assert set((await again.read("")).items) == {"stays"}
    with pytest.raises(LeaseGone):
        await again.keep_alive(lease)
    copy = Copy()
    copy.revision = revision
    copy.values = {"node": ""}
    copy.take(await following(again.watch("", revision)))
    assert copy.told == [("stays", ""), ("node", None)]
    await again.close()


async def test_leases_that_expired_while_nobody_looked_are_swept_at_the_start(store: FileCoordination, path: Path) -> None:
    lease = await store.grant(100_000)
    await put(store, "node", "", lease)
    await store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("update leases set expires = 1")
    again = await open_file(path)
    assert (await again.read("")).items == {}
    await again.close()


async def test_a_file_that_is_taken_away_is_not_used_further(store: FileCoordination, path: Path) -> None:
    watch = store.watch("", await put(store, "a"))
    path.rename(path.with_name("away.db"))
    with pytest.raises(StoreDamaged, match="removed or replaced"):
        await following(watch)
    with pytest.raises(StoreDamaged):
        await put(store, "b")
    with pytest.raises(StoreDamaged):
        await store.read("")
    assert not store.reachability.is_reachable


async def test_a_watch_from_the_future_means_that_the_file_was_set_back(store: FileCoordination) -> None:
    revision = await put(store, "a")
    with pytest.raises(StoreDamaged, match="set back"):
        await following(store.watch("", revision + 1))


def make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("create table records (name text)")


def make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"pragma application_id = {APPLICATION}")
        database.execute(f"pragma user_version = {FORMAT + 1}")


def make_garbage(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


@pytest.mark.parametrize(
    ("make", "words"),
    [(make_foreign, "another kind"), (make_newer, "start the release that wrote it"), (make_garbage, "restore it")],
)
async def test_a_strange_file_is_named_and_not_touched(path: Path, make: Callable[[Path], None], words: str) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match=words) as raised:
        await open_file(path)
    assert str(path) in str(raised.value)
    assert path.read_bytes() == before


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="look at the directory"):
        await open_file(tmp_path / "missing" / "store.db")


async def test_a_damaged_page_is_named(store: FileCoordination, path: Path) -> None:
    await put_many(store, "k/", 2000, "x" * 200)
    await store.close()
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = os.urandom(len(data) - 4096 * 3)
    path.write_bytes(data)
    with pytest.raises(StoreDamaged, match="restore it"):
        await read_all(path)


async def read_all(path: Path) -> None:
    store = await open_file(path)
    try:
        await store.read("")
    finally:
        await store.close()


async def test_a_long_path_does_no_harm(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 120) / ("e" * 120)
    directory.mkdir(parents=True)
    store, other = await open_file(directory / "store.db"), await open_file(directory / "store.db")
    watch = store.watch("", await put(store, "start"))
    await put(other, "a")
    assert values(await changed(watch)) == [("a", "")]
    await store.close()
    await other.close()


async def test_many_processes_create_the_file_at_once(path: Path, children: Start) -> None:
    watchers = [children("watch", f"sqlite:{path}", "p/") for _ in range(5)]
    for watcher in watchers:
        watcher.expect("ready")
    store = await open_file(path)
    await put(store, "p/a")
    for watcher in watchers:
        assert (await watcher.heard())[1] == [["p/a", ""]]
    await store.close()


VISIT = """
import asyncio, sys
from mirrormq.cluster.coordination import Put, open_coordination

async def visit():
    store = await open_coordination("sqlite:" + sys.argv[1])
    await store.transact([], [Put(sys.argv[2], "")])
    print(*(await store.read("")).items)
    await store.close()

asyncio.run(visit())
"""


async def test_a_process_that_leaves_does_not_take_the_log_from_under_the_others(store: FileCoordination, path: Path) -> None:
    """The last to close a file folds its log into it and removes it; who else has it open must not look gone."""
    seen: list[list[str]] = []
    for visitor in ("a", "b"):
        await put(store, f"before {visitor}".replace(" ", "-"))
        done = await asyncio.create_subprocess_exec(sys.executable, "-c", VISIT, str(path), visitor, stdout=subprocess.PIPE)
        seen.append((await done.communicate())[0].decode().split())
    assert seen == [["a", "before-a"], ["a", "b", "before-a", "before-b"]]
    assert sorted((await store.read("")).items) == seen[1]


async def test_a_process_killed_while_it_writes_leaves_a_whole_file(path: Path, children: Start) -> None:
    store = await open_file(path)
    for round in range(5):
        child = children("write", f"sqlite:{path}", f"r{round}/")
        child.expect("ready")
        await asyncio.sleep(0.1)
        child.kill()
        keys = sorted((await store.read(f"r{round}/")).items)
        assert keys == [f"r{round}/{number:08}" for number in range(len(keys))]
    copy = Copy()
    await put(store, "end")
    await copy.until(store.watch("", 0), "end")
    assert copy.values == {key: item.value for key, item in (await store.read("")).items.items()}
    await store.close()


async def test_a_watch_that_nobody_asks_keeps_little(store: FileCoordination) -> None:
    watch = store.watch("n/", await put(store, "start"))
    await put(store, "n/first")
    await changed(watch)
    count = LARGEST * 5 // 4
    await put_many(store, "n/", count)
    assert len(watch._pending) <= LARGEST
    copy = Copy()
    while len(copy.told) < count:
        copy.take(await following(watch))
    assert [key for key, _ in copy.told] == [f"n/{number:06}" for number in range(count)]


async def test_what_was_asked_before_the_close_is_done(store: FileCoordination, path: Path) -> None:
    writing = [asyncio.create_task(store.transact([], [Put(f"k/{number}", "")])) for number in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert all(outcome.succeeded for outcome in await asyncio.gather(*writing))
    with pytest.raises(Closed):
        await store.transact([], [Delete("a")])


async def test_the_first_format_is_still_read(path: Path) -> None:
    shutil.copy(SAMPLE, path)
    store = await open_file(path)
    snapshot = await store.read("")
    assert snapshot.revision == 5
    assert {key: item.value for key, item in snapshot.items.items()} == {"a/1": "eins", "ü": '{"name": "🐇"}'}
    copy = Copy()
    copy.take(await following(store.watch("", 0)))
    assert copy.told[:3] == [("a/1", "one"), ("a/2", "two"), ("ü", '{"name": "🐇"}')]
    assert copy.told[3:] == [("a/1", "eins"), ("a/2", None), ("node", ""), ("node", None)]
    await store.close()
