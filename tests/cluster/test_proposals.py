"""Proposals that are large, that cannot hold, or that come many at once."""

from __future__ import annotations

from pathlib import Path

from mirrormq.broker import registry
from mirrormq.broker.journal import LARGEST, MOST, Proposal
from mirrormq.cluster.coordination import Put
from mirrormq.cluster.coordination.port import MAX_BYTES, MAX_WRITES
from mirrormq.cluster.membership import NODE
from mirrormq.cluster.replica import METADATA

from .copies import Copy, copies, until


async def _expire(copy: Copy) -> None:
    """Its lease runs out and it takes another, as a node does that was frozen."""
    await copy.store.revoke(copy.lease)
    await copy.enter()
    await until(lambda: NODE + copy.name in copy.replica._known)
    copy.broker.records.restate()


async def _left(copy: Copy, kind: str) -> list[str]:
    return [key for key in (await copy.store.read(METADATA)).items if key.startswith(f'{METADATA}["{kind}"')]


def test_the_largest_proposal_is_one_that_every_store_takes() -> None:
    assert MOST <= MAX_WRITES
    assert LARGEST * 2 <= MAX_BYTES


async def test_what_is_sent_while_changes_are_applied_stands_on_them(tmp_path: Path) -> None:
    """Who gets it waits for them: a consumer that moved to a node that had not yet heard that it leads was forgotten there."""
    async with copies(tmp_path, "a", "b") as (a, b):
        stood: list[tuple[int, int]] = []
        b.replica.on_other = lambda key, item: stood.append((b.replica.revision, item.revision if item is not None else 0))
        await a.store.transact([], [Put("other/1", "x"), Put("other/2", "x")])
        await a.store.transact([], [Put("other/1", "y")])
        await until(lambda: len(stood) >= 3)
        assert all(sender >= change for sender, change in stood)


async def test_a_queue_with_many_bindings_is_restated_whole(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        a.make_exchange("topics")
        a.make_queue("big")
        await a.agree()
        for number in range(3 * MOST):
            a.bind("topics", "big", f"k{number}")
        await a.agree()
        await until(lambda: b.routes("topics") == 3 * MOST)
        await a.store.revoke(a.lease)
        await until(lambda: b.routes("topics") == 0)
        assert a.routes("topics") == 3 * MOST
        await a.enter()
        await until(lambda: NODE + "a" in a.replica._known)
        a.broker.records.restate()
        await a.agree()
        await until(lambda: b.routes("topics") == 3 * MOST)
        assert b.queue("big").log_id == a.queue("big").log_id
        assert not a.host.said


async def test_a_queue_that_another_node_took_meanwhile_gets_no_bindings_of_the_former(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        a.make_exchange("topics")
        a.make_queue("q")
        await a.agree()
        for number in range(2 * MOST):
            a.bind("topics", "q", f"k{number}")
        await a.agree()
        await until(lambda: b.routes("topics") == 2 * MOST)
        await a.store.revoke(a.lease)
        await until(lambda: "q" not in b.vhost.queues)
        b.make_queue("q")
        await b.agree()
        await a.enter()
        await until(lambda: a.queue("q").log_id == b.queue("q").log_id)
        a.broker.records.restate()
        await a.agree()
        assert (a.routes("topics"), b.routes("topics")) == (0, 0)
        assert await _left(a, "binding") == []


async def test_a_queue_goes_with_however_many_auto_delete_exchanges_lead_to_it(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        names = [f"ad{number}" for number in range(MOST)]
        a.make_queue("q", durable=True)
        for name in names:
            a.make_exchange(name, auto_delete=True)
        await a.agree()
        for name in names:
            a.bind(name, "q", "k")
        await a.agree()
        a.broker.delete_queue(a.queue("q"))
        await a.agree()
        assert not [name for name in names if name in a.vhost.exchanges]
        assert await _left(a, "exchange") + await _left(a, "guard") + await _left(a, "binding") == []
        await until(lambda: "q" not in b.vhost.queues)


async def test_an_exchange_takes_the_records_of_its_bindings_along(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        a.make_queue("q", durable=True)
        a.make_exchange("topics")
        await a.agree()
        for number in range(2 * MOST + 7):
            a.bind("topics", "q", f"k{number}")
        await a.agree()
        registry.delete_exchange(a.broker, a.vhost, a.exchange("topics"))
        await a.agree()
        assert await _left(a, "binding") == []
        assert "topics" not in a.vhost.exchanges


async def test_binds_to_one_auto_delete_exchange_do_not_hinder_each_other(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        a.make_exchange("fan", auto_delete=True)
        for number in range(50):
            a.make_queue(f"q{number}")
        await a.agree()
        a.count_rounds()
        for number in range(50):
            a.bind("fan", f"q{number}", "k")
        await a.agree()
        assert a.routes("fan") == 50
        assert a.rounds == 1
        for number in range(50):
            a.broker.delete_queue(a.queue(f"q{number}"), is_stubborn=True)
        await a.agree()
        assert a.rounds == 2
        assert "fan" not in a.vhost.exchanges


async def test_an_exchange_that_another_node_binds_meanwhile_stays(tmp_path: Path) -> None:
    async with copies(tmp_path, "a", "b") as (a, b):
        a.make_exchange("fan", auto_delete=True)
        a.make_queue("old", durable=True)
        a.make_queue("new", durable=True)
        await a.agree()
        a.bind("fan", "old", "k")
        await a.agree()
        await until(lambda: b.routes("fan") == 1)
        b.bind("fan", "new", "k")
        a.broker.delete_queue(a.queue("old"), is_stubborn=True)
        await b.agree()
        await a.agree()
        await until(lambda: "old" not in a.vhost.queues and a.routes("fan") == 1)


async def test_a_queue_that_was_to_go_and_went_with_the_lease_is_not_asked_for_again(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        a.make_queue("q")
        await a.agree()
        await a.store.revoke(a.lease)
        await until(lambda: NODE + "a" not in a.replica._known)
        a.broker.delete_queue(a.queue("q"), is_stubborn=True)
        a.count_rounds()
        await a.agree()
        assert "q" not in a.vhost.queues
        assert a.rounds == 1
        await _expire(a)
        await a.agree()
        assert await _left(a, "queue") == []


async def test_a_queue_that_went_before_it_could_be_restated_does_not_come_back(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        a.make_queue("q")
        await a.agree()
        await a.store.revoke(a.lease)
        await until(lambda: NODE + "a" not in a.replica._known)
        a.broker.records.restate()
        await a.agree()
        a.broker.delete_queue(a.queue("q"), is_stubborn=True)
        await a.agree()
        assert "q" not in a.vhost.queues
        await a.enter()
        await until(lambda: not a.replica._stubborn)
        a.make_exchange("behind-it")
        await a.agree()
        assert await _left(a, "queue") == []
        assert "q" not in a.vhost.queues


async def test_a_stubborn_end_that_was_lost_is_proposed_again_when_more_is_known(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        a.make_queue("q", durable=True)
        a.make_exchange("later")
        await a.agree()
        queue = a.queue("q")
        right, queue.revision = queue.revision, 1
        a.broker.delete_queue(queue, is_stubborn=True)
        a.count_rounds()
        await a.agree()
        assert a.rounds == 1
        assert a.broker.lingering
        assert not queue.is_deleted
        queue.revision = right
        a.broker.records.finish()
        await a.agree()
        assert queue.is_deleted


async def test_what_no_store_can_take_is_reported_and_given_up(tmp_path: Path) -> None:
    async with copies(tmp_path, "a") as (a,):
        proposal = Proposal(is_stubborn=True)
        for number in range(MAX_WRITES + 1):
            proposal.delete(f'["parameter", "{number}"]')
        a.broker.journal.propose(proposal)
        await a.agree()
        assert len(a.host.said) == 1
        assert a.host.said[0].startswith('error: a change of ["parameter", "0"] was given up: a transaction has at most')
