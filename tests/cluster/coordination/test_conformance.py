"""What every store promises, on SQLite and on a real three-member etcd: reading, writing, watching, leases."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from mirrormq.cluster.coordination import (
    MAX_BYTES,
    MAX_WRITES,
    Absent,
    BadTransaction,
    Closed,
    Coordination,
    CoordinationError,
    Delete,
    DeletePrefix,
    Item,
    LeaseGone,
    Outcome,
    Present,
    Put,
    Reset,
    Transaction,
    Unchanged,
    ValueIs,
)

from .conftest import Backend, Open
from .support import PATIENCE, Copy, all_held, changed, following, put, put_many, values


async def test_what_was_put_is_read_with_its_revision(store: Coordination) -> None:
    revision = await put(store, "a/1", "one")
    snapshot = await store.read("a/")
    assert snapshot.items == {"a/1": Item("one", revision)}
    assert snapshot.revision >= revision


async def test_a_read_sees_what_another_client_was_told(opened: Open) -> None:
    first, second = await opened(), await opened()
    for number in range(20):
        await put(first, "key", str(number))
        assert (await second.read("key")).items["key"].value == str(number)


async def test_only_keys_below_the_prefix_are_read(store: Coordination) -> None:
    keys = ["a", "a/", "a/1", "a/ü", "a/\U0010ffff", "a/\U0010ffff\U0010ffff", "a0", "b", "é/1", "\U0010ffff"]
    for key in keys:
        await put(store, key)
    for prefix in ("", "a", "a/", "a/\U0010ffff", "b", "é", "\U0010ffff", "nothing"):
        assert sorted((await store.read(prefix)).items) == [key for key in keys if key.startswith(prefix)]


async def test_values_come_back_as_they_were(store: Coordination) -> None:
    texts = ["", " ", "\n\r\t\0", '{"name": "ünïcödé 🐇"}', "x" * 100_000]
    for number, text in enumerate(texts):
        await put(store, f"{number}", text)
    assert [item.value for _, item in sorted((await store.read("")).items.items())] == texts


async def test_each_change_has_a_higher_revision(store: Coordination) -> None:
    revisions = [await put(store, "a"), await put(store, "b"), await put(store, "a")]
    assert revisions == sorted(set(revisions))


async def test_a_transaction_that_changes_nothing_has_no_revision_of_its_own(store: Coordination) -> None:
    revision = await put(store, "a")
    outcome = await store.transact([], [Delete("none"), DeletePrefix("none/")])
    assert outcome == Outcome(succeeded=True, revision=revision)
    assert (await store.transact([Absent("a")], [Put("a", "")])).revision == revision


async def test_compares_hold_when_they_should(store: Coordination) -> None:
    revision = await put(store, "there", "value")
    for compare in (
        Absent("away"), Present("there"), Unchanged("there", revision), Unchanged("away", 0), ValueIs("there", "value"),
    ):  # fmt: skip
        assert (await store.transact([compare], [])).succeeded, compare
    for compare in (
        Absent("there"), Present("away"), Unchanged("there", revision - 1), Unchanged("there", 0), Unchanged("away", revision),
        ValueIs("there", "other"), ValueIs("away", ""), ValueIs("away", "value"),
    ):  # fmt: skip
        assert not (await store.transact([compare], [])).succeeded, compare


async def test_one_false_compare_and_nothing_is_written(store: Coordination) -> None:
    revision = await put(store, "there", "old")
    outcome = await store.transact(
        [Present("there"), Present("away"), Absent("away")], [Put("there", "new"), Put("more", "new")]
    )
    assert not outcome.succeeded
    assert outcome.found == {"there": Item("old", revision)}
    assert set((await store.read("")).items) == {"there"}


async def test_writes_of_a_transaction_happen_together(store: Coordination) -> None:
    await put_many(store, "old/", 3)
    await put(store, "single")
    outcome = await store.transact(
        [Present("single")], [Put("new/1", "a"), Delete("single"), DeletePrefix("old/"), Delete("old/000001"), Put("new/2", "b")]
    )
    items = (await store.read("")).items
    assert items == {"new/1": Item("a", outcome.revision), "new/2": Item("b", outcome.revision)}


async def test_the_empty_prefix_deletes_everything(store: Coordination) -> None:
    await put_many(store, "a/", 3)
    await put(store, "z")
    assert (await store.transact([], [DeletePrefix("")])).succeeded
    assert (await store.read("")).items == {}


@pytest.mark.parametrize(
    "writes",
    [
        [Put("a", ""), Put("a", "")],
        [Put("a", ""), Delete("a")],
        [Put("a/1", ""), DeletePrefix("a/")],
        [Put("", "")],
        [Put("a\0b", "")],
        [Put("\ud800", "")],
        [Put("a", "\ud800")],
        [Put(str(number), "") for number in range(MAX_WRITES + 1)],
        [Put("a", "x" * (MAX_BYTES + 1))],
    ],
)
async def test_what_some_store_would_refuse_all_refuse(store: Coordination, writes: list[Put | Delete | DeletePrefix]) -> None:
    with pytest.raises(BadTransaction):
        await store.transact([], writes)


async def test_the_largest_transaction_is_taken(store: Coordination) -> None:
    compares = [Absent(f"new/{number}") for number in range(MAX_WRITES)]
    value = "x" * (MAX_BYTES // MAX_WRITES - 10)
    assert (await store.transact(compares, [Put(f"new/{number}", value) for number in range(MAX_WRITES)])).succeeded
    outcome = await store.transact(compares, [])
    assert len(outcome.found) == MAX_WRITES


async def test_a_watch_tells_changes_in_order(opened: Open) -> None:
    store, other = await opened(), await opened()
    first = await put(store, "a/1", "one")
    async with aclosing(store.watch("a/", first)) as watch:
        await put(other, "a/2", "two")
        await put(store, "b/1")
        await put(other, "a/1", "three")
        last = (await store.transact([], [Delete("a/2")])).revision
        copy = Copy()
        while copy.revision < last:
            copy.take(await following(watch))
        assert copy.told == [("a/2", "two"), ("a/1", "three"), ("a/2", None)]


async def test_a_watch_begins_after_the_revision_that_it_is_given(store: Coordination) -> None:
    revisions = [await put(store, "key", str(number)) for number in range(5)]
    async with aclosing(store.watch("", revisions[2])) as watch:
        assert values(await changed(watch))[0] == ("key", "3")


async def test_a_watch_tells_items_as_a_read_does(store: Coordination) -> None:
    lease = await store.grant(60)
    revision = await put(store, "key", "value", lease)
    async with aclosing(store.watch("key", revision - 1)) as watch:
        [change] = (await changed(watch)).changes
    assert change.item == (await store.read("key")).items["key"] == Item("value", revision, lease)


async def test_a_transaction_arrives_in_one_piece(opened: Open) -> None:
    writer, reader = await opened(), await opened()
    after = await put(writer, "start")
    async with aclosing(reader.watch("t/", after)) as watch:
        load = asyncio.gather(
            *(writer.transact([], [Put(f"t/{number}/{part}", "") for part in range(MAX_WRITES)]) for number in range(50))
        )
        told = 0
        while told < 50 * MAX_WRITES:
            news = await changed(watch)
            assert len(news.changes) % MAX_WRITES == 0
            for start in range(0, len(news.changes), MAX_WRITES):
                assert len({change.key.split("/")[1] for change in news.changes[start : start + MAX_WRITES]}) == 1
            told += len(news.changes)
        await load


async def test_the_deletion_of_many_keys_arrives_in_one_piece(store: Coordination) -> None:
    after = await put_many(store, "many/", 5000, "x" * 500)
    async with aclosing(store.watch("many/", after)) as watch:
        await store.transact([], [DeletePrefix("many/")])
        news = await changed(watch)
    assert values(news) == [(f"many/{number:06}", None) for number in range(5000)]


async def test_a_cancelled_wait_loses_nothing(store: Coordination) -> None:
    after = await put(store, "start")
    async with aclosing(store.watch("n/", after)) as watch:
        copy = Copy()
        writing = asyncio.create_task(put_in_order(store, 200))
        while "n/000199" not in copy.values:
            try:
                copy.take(await asyncio.wait_for(anext(watch), 0.001))
            except TimeoutError:
                continue
        await writing
    assert [key for key, _ in copy.told] == [f"n/{number:06}" for number in range(200)]


async def put_in_order(store: Coordination, count: int) -> None:
    for number in range(count):
        await put(store, f"n/{number:06}")


async def test_two_watches_do_not_disturb_each_other(store: Coordination) -> None:
    after = await put(store, "start")
    first, second = store.watch("a/", after), store.watch("", after)
    await put(store, "a/1")
    await changed(first)
    await first.aclose()
    await put(store, "a/2")
    copy = Copy()
    await copy.until(second, "a/2")
    assert [key for key, _ in copy.told] == ["a/1", "a/2"]
    with pytest.raises(StopAsyncIteration):
        await anext(first)


async def test_a_watcher_that_was_away_too_long_is_told_everything(backend: Backend, store: Coordination) -> None:
    after = await put(store, "p/gone")
    await put(store, "p/stays", "value")
    await store.transact([], [Delete("p/gone")])
    await backend.forget_history(store)
    async with aclosing(store.watch("p/", after)) as watch:
        reset = await following(watch)
        assert isinstance(reset, Reset)
        assert {key: item.value for key, item in reset.snapshot.items.items()} == {"p/stays": "value"}
        await put(store, "p/later")
        assert values(await changed(watch)) == [("p/later", "")]


async def test_closing_the_store_ends_its_watches(opened: Open) -> None:
    store = await opened()
    watch = store.watch("nothing/", await put(store, "a"))
    waiting = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.wait_for(waiting, PATIENCE) is None
    with pytest.raises(Closed):
        await store.read("")
    with pytest.raises(Closed):
        await store.transact([], [Put("a", "")])


async def test_revoking_a_lease_deletes_its_keys_together(store: Coordination) -> None:
    lease, other = await store.grant(60), await store.grant(60)
    await store.transact([], [Put("l/1", "", lease), Put("l/2", "", lease), Put("l/3", "", other), Put("l/4", "")])
    after = (await store.transact([], [Put("l/2", "without a lease")])).revision
    await put(store, "l/5", "", lease)
    async with aclosing(store.watch("l/", after + 1)) as watch:
        await store.revoke(lease)
        assert values(await changed(watch)) == [("l/1", None), ("l/5", None)]
    assert set((await store.read("l/")).items) == {"l/2", "l/3", "l/4"}
    await store.revoke(lease)


async def test_a_lease_that_is_gone_holds_nothing(store: Coordination) -> None:
    lease = await store.grant(60)
    assert await store.keep_alive(lease) > 0
    await store.revoke(lease)
    with pytest.raises(LeaseGone):
        await store.keep_alive(lease)
    with pytest.raises(LeaseGone):
        await store.transact([], [Put("a", "", lease), Put("b", "")])
    with pytest.raises(LeaseGone):
        await store.keep_alive(lease + 1)
    assert (await store.read("")).items == {}


async def test_a_lease_that_nobody_keeps_goes_with_its_keys(opened: Open) -> None:
    store, other = await opened(), await opened()
    kept, left = await store.grant(4), await store.grant(4)
    after = (await store.transact([], [Put("kept", "", kept), Put("left", "", left)])).revision
    keeping = asyncio.create_task(keep(store, kept))
    async with aclosing(other.watch("", after)) as watch:
        assert values(await changed(watch)) == [("left", None)]
    with pytest.raises(LeaseGone):
        await store.keep_alive(left)
    assert set((await store.read("")).items) == {"kept"}
    keeping.cancel()


async def keep(store: Coordination, lease: int) -> None:
    while remaining := await store.keep_alive(lease):  # noqa: ASYNC110 - a lease asks for just that
        await asyncio.sleep(remaining / 4)


async def test_a_batch_has_an_outcome_for_each(store: Coordination) -> None:
    gone = await store.grant(60)
    await store.revoke(gone)
    await put(store, "there", "old")
    outcomes = await store.transact_many(
        [
            Transaction([Absent("a")], [Put("a", "")]),
            Transaction([Absent("there")], [Put("there", "new")]),
            Transaction([], [Put("b", "", gone)]),
            Transaction([Present("there")], [Put("c", "")]),
        ]
    )
    assert [outcome if isinstance(outcome, CoordinationError) else outcome.succeeded for outcome in outcomes] == [
        True, False, outcomes[2], True,
    ]  # fmt: skip
    assert isinstance(outcomes[2], LeaseGone)
    assert isinstance(outcomes[1], Outcome)
    assert outcomes[1].found["there"].value == "old"
    assert set((await store.read("")).items) == {"a", "c", "there"}


async def test_proposals_for_the_same_key_keep_their_order(store: Coordination) -> None:
    await put(store, "counter", "0")
    for start in range(0, 300, 100):
        transactions = []
        for number in range(start, start + 100):
            transactions.append(Transaction([ValueIs("counter", str(number))], [Put("counter", str(number + 1))]))
            transactions.append(Transaction([Absent(f"side/{number}")], [Put(f"side/{number}", "")]))
        transactions.append(Transaction([Present(f"side/{start + 99}")], [DeletePrefix("side/")]))
        assert all_held(await store.transact_many(transactions))
    assert {key: item.value for key, item in (await store.read("")).items.items()} == {"counter": "300"}


async def test_ten_thousand_keys(opened: Open) -> None:
    store, other = await opened(), await opened()
    value = "x" * 300
    async with aclosing(other.watch("q/", (await store.read("")).revision)) as watch:
        writing = asyncio.create_task(_write_all(store, [f"q/{number}" for number in range(10_000)], value))
        copy = Copy()
        async with asyncio.timeout(240):
            while len(copy.values) < 10_000:
                copy.take(await anext(watch))
        await writing
    assert copy.resets == 0
    snapshot = await other.read("")
    assert len(snapshot.items) == 10_000
    assert all(item.value == value for item in snapshot.items.values())


async def _write_all(store: Coordination, keys: list[str], value: str) -> None:
    for start in range(0, len(keys), 1000):
        wanted = [Transaction([Absent(key)], [Put(key, value)]) for key in keys[start : start + 1000]]
        assert all_held(await store.transact_many(wanted))
