"""What the record of a failover concludes from the words of those who are left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrormq.cluster.coordination import open_coordination
from mirrormq.node.audit import KEPT, PREFIX, Json, add_quarantined, is_stored, judge, shorten


def record(**more: object) -> Json:
    return {"forced": False, "asynchronous": False, "new_leader": "b@x", "old_leader": "a@x", "end": 100, "messages": 2,
            **more}


@pytest.mark.parametrize(("known", "lost", "words"), [
    ({"b@x": 90}, 0, "0 confirmed messages lost: b@x holds everything up to 100, and up to 90 is known"),
    ({"b@x": 90, "c@x": 100}, 0, "by the word of b@x and c@x"),
    ({"b@x": 90, "c@x": 103}, 3, "3 confirmed messages lost: b@x holds everything up to 100, and up to 103 is known"),
])
def test_a_survivor_that_knows_of_more_shows_a_loss(known: dict[str, int], lost: int, words: str) -> None:
    about = record(known_stable=known)
    judge(about)
    assert about["lost"] == lost
    assert words in about["verdict"]


@pytest.mark.parametrize("how", ["forced", "asynchronous"])
def test_what_cannot_be_known_is_not_claimed(how: str) -> None:
    about = record(known_stable={"b@x": 100}, **{how: True})
    judge(about)
    assert about["lost"] is None
    assert "0 confirmed messages lost" not in about["verdict"]


def test_the_states_of_the_members_are_told() -> None:
    about = record(known_stable={"b@x": 100}, members=["b@x", "c@x", "d@x", "e@x"],
                   compared={"c@x": [True, 12, 12], "d@x": [False, 12, 10]})
    judge(about)
    assert "c@x is in the same state, with 12 persistent messages" in about["verdict"]
    assert "d@x is in another state, with 10 persistent messages and not 12" in about["verdict"]
    assert "the state of e@x is not compared yet" in about["verdict"]


async def test_however_far_apart_their_epochs_are_the_newest_records_of_a_queue_stay(tmp_path: Path) -> None:
    store = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    try:
        epochs = [2, 3, *range(500, 5000, 100), 9000]
        assert await is_stored(store, [(7, record(epoch=epoch)) for epoch in epochs] + [(8, record(epoch=2))], [])
        await shorten(store, 7)
        kept = [int(name.rpartition("/")[2]) for name in sorted((await store.read(f"{PREFIX}{7:016x}/")).items)]
        assert kept == epochs[-KEPT:]
        assert len((await store.read(PREFIX)).items) == KEPT + 1
        assert await is_stored(store, [], [7])
        assert len((await store.read(PREFIX)).items) == 1
    finally:
        await store.close()


async def test_what_comes_back_into_quarantine_is_in_the_record_of_the_takeover(tmp_path: Path) -> None:
    store = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    try:
        about = record(epoch=4, forced=True, known_stable={"b@x": 100})
        judge(about)
        assert "b@x was not in sync and held 2 messages; how many the others had beyond that is not known" in about["verdict"]
        assert await is_stored(store, [(7, about)], [])
        assert await add_quarantined(store, 7, 4, "a@x", 10)
        assert await add_quarantined(store, 7, 5, "a@x", 10), "there is no such record any more"
        found = (await store.read(f"{PREFIX}{7:016x}/")).items
        told = json.loads(next(iter(found.values())).value)
        assert (told["lost"], told["quarantined"]) == (10, {"a@x": 10})
        assert "10 on a@x" in told["verdict"]
    finally:
        await store.close()


async def test_a_record_that_the_store_did_not_take_is_known_not_to_be_there(tmp_path: Path) -> None:
    store = await open_coordination(f"sqlite:{tmp_path / 'file'}")
    await store.close()
    assert not await is_stored(store, [(7, record(epoch=2))], [])
