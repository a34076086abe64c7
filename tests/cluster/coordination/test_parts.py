"""The small parts of coordination, each alone: key ranges, addresses, plans of batches, etcd's answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.cluster.coordination import (
    Absent,
    Delete,
    DeletePrefix,
    Item,
    Outcome,
    Present,
    Put,
    Reachability,
    StoreDamaged,
    Transaction,
    open_coordination,
)
from mirrormq.cluster.coordination.etcd.codec import Codec, encode
from mirrormq.cluster.coordination.etcd.endpoints import Endpoints, Guard, StaleMember
from mirrormq.cluster.coordination.etcd.faults import EtcdFault, Meaning
from mirrormq.cluster.coordination.etcd.planning import MERGED, requests, waves
from mirrormq.cluster.coordination.keys import prefix_end
from mirrormq.cluster.coordination.opening import parse_etcd

texts = st.text(st.characters(codec="utf-8"), max_size=4)


@given(texts, texts)
def test_a_prefix_is_a_range(prefix: str, key: str) -> None:
    end = prefix_end(prefix)
    in_range = key >= prefix and (not end or key < end)
    assert in_range == key.startswith(prefix)
    in_bytes = key.encode() >= prefix.encode() and (not end or key.encode() < end.encode())
    assert in_bytes == key.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "end"), [("a/", "a0"), ("", ""), ("\U0010ffff", ""), ("a\U0010ffff", "b"), ("\ud7ff", "\ue000")]
)
def test_the_end_of_a_prefix(prefix: str, end: str) -> None:
    assert prefix_end(prefix) == end


def test_addresses_carry_what_an_etcd_needs() -> None:
    addresses, options = parse_etcd("https://me:p%40ss@h1:2379,https://[::1]:2379/?ca=/etc/ca.pem&namespace=mq")
    assert addresses == ["https://h1:2379", "https://[::1]:2379"]
    assert options == {"user": "me", "password": "p@ss", "ca": "/etc/ca.pem", "namespace": "mq"}


@pytest.mark.parametrize(
    "spec",
    [
        "", "sqlite", "sqlite:", "etcd:", "etcd:h1:2379", "etcd:ftp://h1", "etcd:http://h1/path", "etcd:http://h1?colour=red",
        "redis:x",
    ],
)
async def test_an_address_that_names_no_store_is_refused(spec: str) -> None:
    with pytest.raises(ValueError):
        await open_coordination(spec)


def test_independent_transactions_go_together() -> None:
    batch = [Transaction([Present("vhost"), Absent(f"q/{n}")], [Put(f"q/{n}", "")]) for n in range(150)]
    [wave] = waves(batch)
    groups = list(requests(wave, batch))
    assert [len(group) for group in groups] == [MERGED, MERGED, 30]
    assert [place for group in groups for place in group] == list(range(150))


def test_transactions_that_meet_go_one_after_another() -> None:
    batch = [
        Transaction([], [Put("a", "1")]),
        Transaction([Present("a")], [Put("b", "")]),
        Transaction([Present("a")], [Put("c", "")]),
        Transaction([], [Put("a", "2")]),
        Transaction([], [Put("z", "")]),
        Transaction([], [DeletePrefix("q/")]),
        Transaction([], [Put("d", "")]),
        Transaction([], [Delete("d")]),
    ]
    assert waves(batch) == [[0, 4], [1, 2], [3], [5], [6], [7]]


scripts = st.lists(
    st.builds(
        Transaction,
        st.lists(st.builds(Present, st.sampled_from("abc")), max_size=2),
        st.lists(st.one_of(st.builds(Delete, st.sampled_from("abc")), st.builds(DeletePrefix, st.just("a"))), max_size=2),
    ),
    max_size=12,
)


@given(scripts)
def test_no_plan_turns_the_order_of_those_that_meet(batch: list[Transaction]) -> None:
    level = {place: number for number, wave in enumerate(waves(batch)) for place in wave}
    assert sorted(level) == list(range(len(batch)))
    for later in range(len(batch)):
        for earlier in range(later):
            if meet(batch[earlier], batch[later]) or meet(batch[later], batch[earlier]):
                assert level[earlier] < level[later]


def meet(one: Transaction, other: Transaction) -> bool:
    """Whether one writes what the other touches."""
    touched = {compare.key for compare in other.compares} | {write.key for write in other.writes if isinstance(write, Delete)}
    return any(
        write.key in touched if isinstance(write, Delete) else isinstance(write, DeletePrefix) for write in one.writes
    )


def test_large_transactions_are_not_merged() -> None:
    large = Transaction([], [Put(f"k/{n}", "") for n in range(100)])
    heavy = Transaction([], [Put("heavy", "x" * 900_000)])
    small = Transaction([], [Put("small", "")])
    groups = list(requests([0, 1, 2], [small, large, heavy]))
    assert [1] in groups
    assert [2] in groups
    assert sorted(place for group in groups for place in group) == [0, 1, 2]


def test_answers_without_their_zeros_are_understood() -> None:
    codec = Codec("ns/")
    item = {"key": encode("ns/a"), "mod_revision": "7"}
    answer = {"header": {"revision": "9"}, "responses": [{"response_range": {"kvs": [item]}}, {"response_range": {}}]}
    assert codec.outcome(answer, 9) == Outcome(succeeded=False, revision=9, found={"a": Item("", 7)})
    assert codec.changes(8, [{"type": "DELETE", "kv": item}]).changes[0].item is None


def test_members_that_were_left_behind_do_not_count() -> None:
    guard = Guard()
    guard.check({"header": {"cluster_id": "1", "raft_term": "5"}})
    with pytest.raises(StaleMember, match="left behind in term 4"):
        guard.check({"header": {"cluster_id": "1", "raft_term": "4"}})
    with pytest.raises(StaleMember, match="correct the list of addresses"):
        guard.check({"header": {"cluster_id": "2", "raft_term": "6"}})
    guard.check({"header": {"cluster_id": "1", "raft_term": "6"}})


def test_a_revision_that_goes_back_is_noticed() -> None:
    guard = Guard()
    guard.check_revision({"header": {"revision": "10"}}, 0)
    guard.check_revision({"header": {"revision": "9"}}, 8)
    assert guard.revision == 10
    with pytest.raises(StoreDamaged):
        guard.check_revision({"header": {"revision": "9"}}, guard.revision)


def test_a_good_endpoint_is_kept_and_a_failed_one_left() -> None:
    endpoints = Endpoints(["a", "b", "c"])
    order = []
    for _ in range(4):
        order.append(endpoints.current)
        endpoints.fail("somewhere else")
        assert endpoints.current == order[-1]
        endpoints.fail(endpoints.current)
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert order[3] == order[0]


@pytest.mark.parametrize(
    ("code", "message", "meaning"),
    [
        (14, "etcdserver: no leader", Meaning.AGAIN),
        (14, "etcdserver: request timed out, possibly due to previous leader failure", Meaning.UNKNOWN),
        (14, "etcdserver: leader changed", Meaning.UNKNOWN),
        (4, "context deadline exceeded", Meaning.UNKNOWN),
        (16, "etcdserver: invalid auth token", Meaning.LOGIN),
        (3, "auth: revision in header is old", Meaning.LOGIN),
        (5, "etcdserver: requested lease not found", Meaning.FINAL),
        (8, "etcdserver: mvcc: database space exceeded", Meaning.FINAL),
    ],
)
def test_what_an_error_says_about_a_write(code: int, message: str, meaning: Meaning) -> None:
    assert EtcdFault({"error": message, "message": message, "code": code}).meaning is meaning
    assert EtcdFault({"error": {"grpc_code": code, "message": message}}).meaning is meaning
    assert len(str(EtcdFault({"code": code, "message": message}).translate())) > 20


def test_reachability_tells_each_change_once() -> None:
    reachability = Reachability()
    told: list[str] = []
    stop = reachability.listen(lambda state: told.append(state.reason))
    for _ in range(2):
        reachability.lost("the cable is out")
    for _ in range(2):
        reachability.found()
    stop()
    reachability.lost("again")
    assert told == ["the cable is out", ""]
