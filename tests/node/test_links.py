"""Links over real sockets in one process: linking, sending, credit, losing, replacing, and visits. On asyncio and on uvloop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.link.support import HOST, Member, all_linked, eventually, introduce, on_both_loops, on_uvloop, started
from faultproxy import DOWN, UP, FaultProxy
from mirrormq.cluster.link import BULK, CONTROL, RING, WORK, Frame, HandshakeFailed, Refused, Unreachable, VisitFailed
from mirrormq.node.links import Links, Peer

LONG = 60.0


def peer_of(member: Member, other: Member) -> Peer:
    return member.links.peers[other.name]


@on_both_loops
async def test_three_nodes_link_once_with_each_other() -> None:
    a, b, c = Member("a"), Member("b"), Member("c")
    async with started(a, b, c):
        introduce(a, b, c)
        await all_linked(a, b, c)
        assert sorted(a.diary.events) == [("up", "b"), ("up", "c")]
        assert sorted(c.diary.events) == [("up", "a"), ("up", "b")]
        peer = peer_of(b, a)
        assert (peer.node_id, peer.incarnation, peer.is_up) == ("id-of-a", 1, True)


@on_both_loops
async def test_what_is_sent_arrives_in_the_order_of_its_lane() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        sent = [Frame(lane, number, bytes([number]) * number * 4000) for number in range(200) for lane in (WORK, RING)]
        for frame in sent:
            peer_of(a, b).send(frame.lane, frame.kind, frame.payload)
        peer_of(b, a).send(CONTROL, 9, b"back")
        await eventually(lambda: len(b.diary.frames) == len(sent))
        await eventually(lambda: a.diary.frames == [Frame(CONTROL, 9, b"back")])
        for lane in (WORK, RING):
            assert [f for f in b.diary.frames if f.lane == lane] == [f for f in sent if f.lane == lane]


@on_both_loops
async def test_flush_writes_at_once_and_everything_of_a_turn_together() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        peer = peer_of(a, b)
        for number in range(100):
            peer.send(WORK, number, b"x" * 100)
        assert peer.waiting(WORK) == 10_000
        a.links.flush()
        assert peer.waiting(WORK) == 0
        await eventually(lambda: len(b.diary.frames) == 100)


@on_both_loops
async def test_a_message_of_64_mib_crosses() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        content = b"0123456789abcdef" * (4 << 20)
        peer_of(a, b).send(WORK, 1, content)
        await eventually(lambda: b.diary.frames == [Frame(WORK, 1, content)])
        assert a.diary.events == [("up", "b")]


@on_both_loops
async def test_a_receiver_that_does_not_digest_stops_the_sender_and_nothing_else() -> None:
    a, b = Member("a"), Member("b")
    b.diary.digests = False
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        peer = peer_of(a, b)
        for _ in range(40):
            peer.send(BULK, 1, bytes(1 << 20))
        await eventually(lambda: len(b.diary.frames) >= 4)
        peer.send(RING, 2, b"through")
        await eventually(lambda: b.diary.frames[-1].payload == b"through")
        assert len(b.diary.frames) == 5
        assert peer.waiting(BULK) == 36 << 20
        assert a.diary.drained == []
        b.diary.digests = True
        peer_of(b, a).consumed(BULK, 4 << 20)
        await eventually(lambda: len(b.diary.frames) == 41)
        await eventually(lambda: a.diary.drained == [BULK])


@on_both_loops
async def test_a_full_socket_keeps_the_rest_in_the_lanes() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b), FaultProxy(b.address) as line:
        a.links.set_peers({"b": line.address})
        b.links.set_peers({"a": a.address})
        await all_linked(a, b)
        line.hold(UP)
        peer = peer_of(a, b)
        for _ in range(64):
            peer.send(RING, 1, bytes(1 << 20))
            peer.send(WORK, 1, bytes(1 << 20))
        a.links.flush()
        assert peer.waiting(RING) + peer.waiting(WORK) >= 100 << 20
        peer.send(CONTROL, 3, b"first of all that waits")
        line.heal()
        await eventually(lambda: len(b.diary.frames) == 129)
        assert [f.lane for f in b.diary.frames].index(CONTROL) < 30
        assert a.diary.events == [("up", "b")]


@on_both_loops
async def test_a_lost_connection_is_replaced() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b), FaultProxy(b.address) as line:
        a.links.set_peers({"b": line.address})
        b.links.set_peers({"a": a.address})
        for count in range(1, 6):
            await eventually(lambda count=count: len(a.diary.peers) == len(b.diary.peers) == count)  # type: ignore[misc]
            line.reset()
        await eventually(lambda: len(b.diary.peers) == 6)
        assert [what for what, _ in a.diary.events[:10]] == ["up", "down"] * 5
        assert [what for what, _ in b.diary.events[:10]] == ["up", "down"] * 5
        assert not a.diary.peers[0].is_up
        a.diary.peers[0].send(WORK, 1, b"into the void")
        assert a.diary.peers[0].waiting(WORK) == 0


@on_both_loops
async def test_a_line_that_is_cut_is_dialled_until_it_heals() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b), FaultProxy(b.address) as line:
        line.cut()
        a.links.set_peers({"b": line.address})
        b.links.set_peers({"a": a.address})
        await eventually(lambda: line.accepted >= 4)
        assert a.diary.events == b.diary.events == []
        line.heal()
        await all_linked(a, b)
        assert len([words for words in a.log if "no link to b" in words]) <= 3


@on_uvloop
@pytest.mark.parametrize("directions", [(UP,), (DOWN,), (UP, DOWN)])
async def test_silence_is_noticed_even_if_only_one_way_is_dead(directions: tuple[str, ...]) -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b), FaultProxy(b.address) as line:
        a.links.set_peers({"b": line.address})
        b.links.set_peers({"a": a.address})
        await all_linked(a, b)
        line.hold(*directions)
        deaf = [b] if directions == (UP,) else [a] if directions == (DOWN,) else [a, b]
        for member in deaf:
            await eventually(lambda member=member: "nothing came for" in member.diary.last_words)  # type: ignore[misc]
        line.heal()
        await all_linked(a, b)


@on_uvloop
async def test_a_slow_line_is_not_a_dead_one() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b), FaultProxy(b.address) as line:
        line.delay(0.3)
        a.links.set_peers({"b": line.address})
        b.links.set_peers({"a": a.address})
        await all_linked(a, b)
        for number in range(20):
            peer_of(a, b).send(WORK, number, bytes(100_000))
            await asyncio.sleep(0.1)
        await eventually(lambda: len(b.diary.frames) == 20)
        assert a.diary.events == [("up", "b")]


@on_both_loops
async def test_who_is_no_longer_a_member_is_dropped_and_not_let_in() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        b.links.set_peers({})
        assert b.links.peers == {}
        assert b.diary.events == [("up", "a")], "the user is not called from inside its own call"
        await eventually(lambda: "it is no longer a member of the cluster" in a.diary.last_words)
        assert "it is no longer a member of the cluster" in b.diary.last_words
        await eventually(lambda: any("a is no member of the cluster as b knows it" in words for words in a.log))
        introduce(a, b)
        await all_linked(a, b)


@on_both_loops
async def test_a_dialler_stops_when_its_peer_is_no_member() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b), FaultProxy(b.address) as line:
        a.links.set_peers({"b": line.address})
        await eventually(lambda: line.accepted >= 2)
        a.links.set_peers({})
        seen = line.accepted
        await asyncio.sleep(0.5)
        assert line.accepted <= seen + 1


@on_both_loops
async def test_a_member_that_moved_is_dialled_at_its_new_place() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        b.links.set_peers({"a": a.address})
        a.links.set_peers({"b": (HOST, 1)})
        await eventually(lambda: any("cannot be reached" in words for words in a.log))
        a.links.set_peers({"b": b.address})
        await all_linked(a, b)


@on_both_loops
async def test_a_restarted_node_takes_the_place_of_its_former_self() -> None:
    a, b = Member("a"), Member("b")
    again = Member("a", incarnation=2)
    async with started(a, b, again):
        introduce(a, b)
        await all_linked(a, b)
        again.links.set_peers({"b": b.address})
        a.links.set_peers({})  # or both would take the place from each other
        await eventually(lambda: "b" in again.links.peers)
        await eventually(lambda: b.links.peers["a"].incarnation == 2)
        assert [what for what, _ in b.diary.events] == ["up", "down", "up"]


@on_both_loops
async def test_an_older_incarnation_is_refused_while_the_newer_is_linked() -> None:
    a, b, old = Member("a", incarnation=5), Member("b"), Member("a", incarnation=4)
    async with started(a, b, old):
        introduce(a, b)
        await all_linked(a, b)
        old.links.set_peers({"b": b.address})
        await eventually(lambda: any("a newer connection of a is up already" in words for words in old.log))
        assert b.diary.events == [("up", "a")]


@on_both_loops
async def test_another_node_of_the_same_name_is_refused_with_a_sentence() -> None:
    a, b, twin = Member("a"), Member("b"), Member("a", node_id="another", incarnation=9)
    async with started(a, b, twin):
        introduce(a, b)
        await all_linked(a, b)
        twin.links.set_peers({"b": b.address})
        words = "another node called a, with the id id-of-a, is linked already"
        await eventually(lambda: any(words in line for line in twin.log))
        assert peer_of(b, a).node_id == "id-of-a"


@on_both_loops
async def test_a_name_with_a_known_id_is_let_in_only_with_that_id() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        b.links.set_peers({"a": a.address}, {"a": "quite another"})
        a.links.set_peers({"b": b.address}, {"b": "id-of-b"})
        await eventually(lambda: any("the member a has the id quite another" in words for words in a.log))
        b.links.set_peers({"a": a.address}, {"a": "id-of-a"})
        await all_linked(a, b)
        b.links.set_peers({"a": a.address}, {"a": "a third"})
        await eventually(lambda: "the member a is another node now" in b.diary.last_words)


@on_both_loops
async def test_nodes_of_different_clusters_do_not_link() -> None:
    a, b = Member("a", cluster_id="red"), Member("b", cluster_id="blue")
    async with started(a, b):
        introduce(a, b)
        await eventually(lambda: any("a belongs to the cluster red and b to blue" in words for words in a.log))
        assert a.diary.events == b.diary.events == []
        a.links.cluster_id = "blue"
        await all_linked(a, b)


@on_both_loops
async def test_a_node_that_stops_says_so() -> None:
    a, b = Member("a"), Member("b")
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        peer_of(b, a).send(CONTROL, 1, b"last words")
        await b.links.stop()
        assert b.diary.last_words == "a: the node is stopping"
        await eventually(lambda: a.diary.last_words == "b: the node is stopping")
        assert a.diary.frames == [Frame(CONTROL, 1, b"last words")]


@on_both_loops
async def test_a_user_that_links_back_from_its_own_calls_is_not_entered_twice() -> None:
    a, b = Member("a"), Member("b")
    inside: list[str] = []

    def guarded(name: str, act: Any) -> Any:
        def call(*arguments: Any) -> None:
            assert inside == []
            inside.append(name)
            act(*arguments)
            b.links.flush()
            b.links.set_peers({"a": a.address})
            inside.pop()

        return call

    for name in ("link_up", "link_down", "link_frames", "link_drained"):
        setattr(b.diary, name, guarded(name, getattr(b.diary, name)))
    async with started(a, b):
        introduce(a, b)
        await all_linked(a, b)
        peer_of(b, a).send(WORK, 1, bytes(3 << 20))
        peer_of(a, b).send(WORK, 1, bytes(3 << 20))
        await eventually(lambda: b.diary.frames and b.diary.drained)


@on_both_loops
async def test_a_visitor_asks_and_is_answered_though_it_is_no_member() -> None:
    a, b = Member("a"), Member("z", cluster_id="another")
    async with started(a, b):
        large = {"text": "x" * 3_000_000}
        assert await a.links.call(b.address, large, LONG) == {"echo": large}
        assert await b.links.call(a.address, {"what": "status"}, LONG, name="a") == {"echo": {"what": "status"}}
        assert a.diary.events == b.diary.events == []


@on_both_loops
async def test_a_visit_fails_with_the_other_nodes_sentence() -> None:
    a, b = Member("a"), Member("b")

    def refuse(request: dict[str, Any]) -> dict[str, Any]:
        if request == {"do": "fall"}:
            raise ZeroDivisionError("private matters")
        raise VisitFailed("rabbit@b is in maintenance")

    b.diary.answer = refuse
    async with started(a, b):
        with pytest.raises(VisitFailed, match=r"^rabbit@b is in maintenance$"):
            await a.links.call(b.address, {}, LONG)
        with pytest.raises(VisitFailed, match="the log of the node says why"):
            await a.links.call(b.address, {"do": "fall"}, LONG)
        assert any("private matters" in words for words in b.log)


@on_both_loops
async def test_a_call_that_cannot_succeed_says_why() -> None:
    a, b, stranger = Member("a"), Member("b"), Member("s", secret=b"quite another secret")
    async with started(a, b, stranger), FaultProxy(b.address) as line:
        with pytest.raises(Unreachable, match=r"cannot be reached: Connection refused"):
            await a.links.call((HOST, 1), {}, LONG)
        with pytest.raises(Refused, match="this is b, not c"):
            await a.links.call(b.address, {}, LONG, name="c")
        with pytest.raises(HandshakeFailed, match="same cookie"):
            await stranger.links.call(b.address, {}, LONG)
        line.blackhole()
        with pytest.raises(Unreachable, match=r"gave no answer within 0\.3 s"):
            await a.links.call(line.address, {}, 0.3)
        assert b.diary.visits == []


@on_both_loops
async def test_a_request_that_was_taken_is_carried_out_without_its_visitor() -> None:
    a, b = Member("a"), Member("b")
    gate, done = asyncio.Event(), asyncio.Event()

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        b.diary.visits.append(request)
        await gate.wait()
        done.set()
        return {}

    b.diary.visit = slow  # type: ignore[method-assign]
    b.links = Links(b.links.me, b"one secret for all of them", b.diary)
    async with started(a, b):
        with pytest.raises(Unreachable):
            await a.links.call(b.address, {"do": "it"}, 2.0)
        assert b.diary.visits == [{"do": "it"}]
        gate.set()
        await asyncio.wait_for(done.wait(), LONG)


@on_uvloop
async def test_a_visit_longer_than_the_silence_limit_is_no_silence() -> None:
    a, b = Member("a"), Member("b")

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(2.6)
        return {"late": True}

    b.diary.visit = slow  # type: ignore[method-assign]
    b.links = Links(b.links.me, b"one secret for all of them", b.diary)
    async with started(a, b):
        assert await a.links.call(b.address, {}, LONG) == {"late": True}
