"""A node that has lost its whole directory comes back by itself, as another one of its name. One that is up keeps its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mirrormq.cluster.coordination import Coordination, open_coordination
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.cluster.membership import MEMBER, NODE, Membership, NotAdmitted

NAME = "a@localhost"
ABOUT: dict[str, object] = {}


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Coordination]:
    store = await open_coordination(f"sqlite:{tmp_path / 'store.db'}")
    yield store
    await store.close()


def node(store: Coordination, directory: Path) -> Membership:
    directory.mkdir(exist_ok=True)
    return Membership(store, Keepsake.load(directory, NAME), directory, patience=0.0)


async def entered(store: Coordination, directory: Path) -> Membership:
    found = node(store, directory)
    await found.enter()
    return found


async def id_of(store: Coordination) -> str:
    found: str = json.loads((await store.read(MEMBER)).items[MEMBER + NAME].value)["id"]
    return found


async def test_a_node_that_lost_its_directory_comes_back_as_another_one(store: Coordination, tmp_path: Path) -> None:
    former = await entered(store, tmp_path / "lost")
    await former.announce("127.0.0.1", 1, ABOUT)
    await former.leave_running()
    assert not former.has_lost_disk
    shutil.rmtree(tmp_path / "lost")
    latter = await entered(store, tmp_path / "lost")
    assert latter.has_lost_disk
    assert await id_of(store) == latter.keepsake.id != former.keepsake.id
    assert latter.keepsake.starts != former.keepsake.starts, "others would take it for the same process"
    again = await entered(store, tmp_path / "lost")
    assert (again.keepsake.id, again.keepsake.starts) == (latter.keepsake.id, latter.keepsake.starts + 1)
    assert not again.has_lost_disk


async def test_a_second_node_of_the_name_of_one_that_is_up_is_refused(store: Coordination, tmp_path: Path) -> None:
    first = await entered(store, tmp_path / "first")
    await first.announce("127.0.0.1", 4711, ABOUT)
    with pytest.raises(NotAdmitted, match=r"a node of the name a@localhost is running already .* 127\.0\.0\.1:4711"):
        await entered(store, tmp_path / "second")
    assert await id_of(store) == first.keepsake.id
    assert NODE + NAME in (await store.read(NODE)).items


async def test_a_directory_that_turns_up_again_is_refused_and_its_node_keeps_its_place(
    store: Coordination, tmp_path: Path
) -> None:
    former = await entered(store, tmp_path / "former")
    await former.leave_running()
    latter = await entered(store, tmp_path / "latter")
    await latter.leave_running()
    with pytest.raises(NotAdmitted, match="took its place with an empty directory"):
        await entered(store, tmp_path / "former")
    assert await id_of(store) == latter.keepsake.id


async def test_of_two_that_come_for_one_name_at_once_one_gets_it(store: Coordination, tmp_path: Path) -> None:
    former = await entered(store, tmp_path / "former")
    await former.leave_running()
    one, other = node(store, tmp_path / "one"), node(store, tmp_path / "other")
    key = MEMBER + NAME
    found = (await store.read(key)).items[key]
    await one.enter()
    await one.announce("127.0.0.1", 4711, ABOUT)
    with pytest.raises(NotAdmitted, match="is running already"):
        await other._take_place(key, found)
    assert await id_of(store) == one.keepsake.id


async def test_a_crash_before_the_store_heard_it_changes_nothing(store: Coordination, tmp_path: Path) -> None:
    former = await entered(store, tmp_path / "former")
    await former.leave_running()
    latter = node(store, tmp_path / "latter")
    latter.keepsake.save(tmp_path / "latter")
    again = await entered(store, tmp_path / "latter")
    assert again.has_lost_disk
    assert await id_of(store) == latter.keepsake.id
