"""What the record of a failover concludes from the words of those who are left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Stand
from typing import Any

import pytest

from mirrormq.cluster.coordination import Coordination, open_coordination
from mirrormq.mirror.machine.effects import BecameLeader, Compared
from mirrormq.node import audit
from mirrormq.node.audit import KEPT, PREFIX, Audit, Json, is_amended, is_stored, judge, note_quarantined, shorten


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
    assert "the state of e@x is not compared yet, so this rests on the ends of the logs alone" in about["verdict"]


def test_with_a_member_in_another_state_nobody_knows_what_is_lost() -> None:
    about = record(known_stable={"b@x": 100}, members=["b@x", "c@x", "d@x"],
                   compared={"c@x": [True, 12, 12], "d@x": [False, 12, 10]})
    judge(about)
    assert about["lost"] is None
    assert about["verdict"].startswith("it is not known whether confirmed messages are lost: b@x holds everything up to 100")
    about["known_stable"] = {"c@x": 103}
    judge(about)
    assert about["lost"] == 3
    assert about["verdict"].startswith("at least 3 confirmed messages lost: b@x")


def test_a_mirror_that_was_not_in_sync_may_be_in_another_state() -> None:
    about = record(known_stable={"b@x": 100}, members=["b@x", "c@x"],
                   compared={"c@x": [True, 12, 12], "d@x": [False, 12, 10]})
    judge(about)
    assert about["lost"] == 0
    assert "d@x" not in about["verdict"]


def test_members_in_another_state_are_named_where_replication_is_asynchronous() -> None:
    about = record(known_stable={"b@x": 100}, asynchronous=True, members=["b@x", "d@x"], compared={"d@x": [False, 12, 10]})
    judge(about)
    assert "d@x is in another state, with 10 persistent messages and not 12" in about["verdict"]


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
        found_there = partial(note_quarantined, node="a@x", count=10)
        assert await is_amended(store, 7, 4, [found_there])
        assert await is_amended(store, 7, 5, [found_there]), "there is no such record any more"
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


# --- comparisons that come late -----------------------------------------------------------------------------------------


class Leader:
    """As much of a node that leads queue 7 with c and d behind it as the audit needs."""

    def __init__(self, store: Coordination) -> None:
        cluster = Stand(store=store, ask_all=self._ask_all)
        self.audit = Audit(Stand(cluster=cluster, mirroring=Stand(now=lambda: 0.0),     # type: ignore[arg-type]
                                 broker=Stand(wall=lambda: 0, node_name="b@x")))
        self.store = store
        view = Stand(ring=("b@x", "c@x", "d@x"), learners=())
        state = Stand(me="b@x", end=100, stable=100, epoch=4, view=view, desired=None, linked=set(), now=0.0)
        self.holding: Any = Stand(state=state, former="a@x", knew={4: 100}, queue=None, log_id=7,
                                  front=Stand(vhost="/", name="q"))

    async def _ask_all(self, _: str, __: Json) -> Json:
        return {}

    def leads(self) -> None:
        self.audit.led(self.holding, BecameLeader(4, "a@x does not answer", False, False), 0)

    def compares(self, node: str, theirs: int = 12) -> None:
        self.audit.compared(self.holding, Compared(node, theirs == 12, 100, 12, theirs))

    async def told(self, *words: str) -> Json:
        """The record as soon as its verdict has all these words."""
        async with asyncio.timeout(5):
            while True:
                found = [json.loads(item.value) for item in (await self.store.read(PREFIX)).items.values()]
                if found and all(word in found[0]["verdict"] for word in words):
                    told: Json = found[0]
                    return told
                await asyncio.sleep(0.01)


@asynccontextmanager
async def leading(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Leader]:
    monkeypatch.setattr(audit, "COMPARING", 0.01)
    store = await open_coordination(f"sqlite:{directory / 'file'}")
    leader = Leader(store)
    writing = asyncio.create_task(leader.audit.write())
    try:
        yield leader
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        await store.close()


async def test_a_comparison_that_comes_after_the_record_corrects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with leading(tmp_path, monkeypatch) as leader:
        leader.leads()
        leader.compares("c@x")
        told = await leader.told("c@x is in the same state", "the state of d@x is not compared yet")
        assert told["lost"] == 0
        leader.compares("d@x", theirs=10)
        told = await leader.told("d@x is in another state")
        assert told["lost"] is None
        assert told["verdict"].startswith("it is not known whether confirmed messages are lost")


async def test_a_comparison_that_comes_while_the_record_is_written_is_in_it(tmp_path: Path,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    async with leading(tmp_path, monkeypatch) as leader:
        real = audit.is_stored

        async def stored(*about: Any) -> bool:
            is_done = await real(*about)
            leader.compares("c@x")
            return is_done

        monkeypatch.setattr(audit, "is_stored", stored)
        leader.leads()
        await leader.told("c@x is in the same state")


async def test_a_later_comparison_says_nothing_of_the_failover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a member that was compared already, and of one that has left the ring, and may have taken its copy anew."""
    async with leading(tmp_path, monkeypatch) as leader:
        leader.leads()
        await leader.told("the state of d@x is not compared yet")
        leader.compares("c@x")
        leader.compares("c@x", theirs=10)
        leader.holding.state.view.ring = ("b@x", "c@x")
        leader.compares("d@x")
        leader.holding.state.view.ring = ("b@x", "c@x", "d@x")
        leader.compares("d@x")
        leader.holding.state.epoch = 5
        told = await leader.told("c@x is in the same state")
        assert told["compared"] == {"c@x": [True, 12, 12]}
        assert "the state of d@x is not compared yet" in told["verdict"]


async def test_a_comparison_in_a_later_epoch_of_the_same_leader_counts(tmp_path: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that joins or leaves begins an epoch too."""
    async with leading(tmp_path, monkeypatch) as leader:
        leader.leads()
        await leader.told("the state of c@x is not compared yet")
        leader.holding.state.epoch = 5
        leader.compares("c@x")
        assert (await leader.told("c@x is in the same state"))["epoch"] == 4


@pytest.mark.parametrize("is_heard", [False, True])
async def test_what_the_store_did_not_hear_or_what_came_meanwhile_is_corrected_later(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_heard: bool) -> None:
    async with leading(tmp_path, monkeypatch) as leader:
        leader.leads()
        await leader.told("the state of d@x is not compared yet")
        real, asked = audit.is_amended, 0

        async def amended(*about: Any) -> bool:
            nonlocal asked
            asked += 1
            is_done = await real(*about) if is_heard or asked > 1 else False
            if asked == 1:
                leader.compares("d@x", theirs=10)
            return is_done

        monkeypatch.setattr(audit, "is_amended", amended)
        leader.compares("c@x")
        await leader.told("c@x is in the same state", "d@x is in another state")
        assert asked == 2
