"""The handshake, between two ends in memory: who knows the secret is let in and known by name; a stranger learns nothing."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.cluster.link import Acceptor, Dialler, HandshakeFailed, Identity, Introduction, LinkError, LinkFault, Refused
from mirrormq.cluster.link.handshake import HELLO_SIZE, MAGIC, PROOF_SIZE, _letter, _mac
from mirrormq.cluster.link.identity import decode_introduction
from mirrormq.node.link_judge import Standing, refusal

from .support import SECRET, introduction, nonce, portions, shake_hands

A = introduction("rabbit@a", to="rabbit@b", attempt=7)
B = introduction("rabbit@b")


def dialler(secret: bytes = SECRET, number: int = 1) -> Dialler:
    return Dialler(secret, A, nonce(number))


def acceptor(secret: bytes = SECRET, number: int = 2) -> Acceptor:
    return Acceptor(secret, nonce(number))


@given(size=st.integers(1, 500))
def test_two_who_know_the_secret_learn_who_they_are_however_the_bytes_come(size: int) -> None:
    one, other = dialler(), acceptor()
    shake_hands(one, other, B, size)
    assert one.is_done
    assert other.is_done
    assert one.peer is not None
    assert other.peer is not None
    assert (one.peer.who.name, one.peer.who.node_id) == ("rabbit@b", "id-of-rabbit@b")
    assert (other.peer.who.name, other.peer.to, other.peer.attempt) == ("rabbit@a", "rabbit@b", 7)
    assert one.version == other.version == 1


def test_bytes_of_the_session_that_come_with_the_verdict_are_kept() -> None:
    one, other = dialler(), acceptor()
    letter = one.receive(other.receive(one.receive(other.receive(one.hello))))
    other.receive(letter)
    one.receive(other.welcome(B) + b"what follows")
    assert one.rest == b"what follows"


def test_the_secret_is_never_sent() -> None:
    up, down = shake_hands(dialler(), acceptor(), B)
    assert SECRET not in up + down


def test_a_stranger_gets_a_nonce_and_nothing_else() -> None:
    one, other = dialler(b"another secret"), acceptor()
    answer = other.receive(one.hello)
    assert answer == MAGIC + nonce(2)
    with pytest.raises(HandshakeFailed, match="same cookie"):
        other.receive(one.receive(answer))
    assert not other.is_authenticated
    assert other.peer is None


def test_a_stranger_that_is_dialled_gets_no_name() -> None:
    one = dialler()
    sent = one.hello + one.receive(MAGIC + nonce(9))
    with pytest.raises(HandshakeFailed, match="same cookie"):
        one.receive(os.urandom(PROOF_SIZE))
    assert len(sent) == HELLO_SIZE + PROOF_SIZE
    assert b"rabbit" not in sent


@given(data=st.binary(min_size=1, max_size=2000), size=st.integers(1, 2000))
def test_random_bytes_get_no_answer(data: bytes, size: int) -> None:
    other = acceptor()
    for part in portions(data, size):
        try:
            assert other.receive(part) == b""
        except HandshakeFailed:
            return
    assert MAGIC.startswith(data[:8])


@given(data=st.binary(min_size=0, max_size=400), size=st.integers(1, 400))
def test_random_bytes_after_the_magic_get_a_nonce_at_most(data: bytes, size: int) -> None:
    other = acceptor()
    sent = b""
    try:
        for part in portions(MAGIC + data, size):
            sent += other.receive(part)
    except HandshakeFailed:
        pass
    assert sent in {b"", MAGIC + nonce(2)}
    assert not other.is_authenticated


def test_a_replayed_handshake_proves_nothing() -> None:
    recorded, _ = shake_hands(dialler(), acceptor(), B)
    again = acceptor(number=3)
    assert again.receive(recorded[:HELLO_SIZE]) == MAGIC + nonce(3)
    with pytest.raises(HandshakeFailed):
        again.receive(recorded[HELLO_SIZE : HELLO_SIZE + PROOF_SIZE])


def test_a_dialler_is_not_fooled_by_a_replayed_acceptor() -> None:
    _, recorded = shake_hands(dialler(), acceptor(), B)
    again = dialler(number=4)
    again.receive(recorded[:HELLO_SIZE])
    with pytest.raises(HandshakeFailed):
        again.receive(recorded[HELLO_SIZE : HELLO_SIZE + PROOF_SIZE])


def test_a_dialler_whose_words_come_back_gives_up() -> None:
    one = dialler()
    with pytest.raises(HandshakeFailed, match="repeats"):
        one.receive(one.hello)


def test_a_proof_that_comes_back_proves_the_wrong_role() -> None:
    one = dialler()
    proof = one.receive(MAGIC + nonce(9))
    with pytest.raises(HandshakeFailed):
        one.receive(proof)


def test_a_dialler_that_is_relayed_to_another_node_is_refused_there() -> None:
    third = introduction("rabbit@c")
    one, other = dialler(), acceptor()
    other.receive(one.receive(other.receive(one.receive(other.receive(one.hello)))))
    assert other.peer is not None
    words = refusal(third, other.peer, Standing(is_member=True, node_id="", linked=None))
    assert words == "this is rabbit@c, not rabbit@b"
    with pytest.raises(Refused, match=words):
        one.receive(other.refuse(words))


def test_a_dialler_refuses_an_answer_of_another_node() -> None:
    one, other = dialler(), acceptor()
    with pytest.raises(LinkFault, match="rabbit@c answered where rabbit@b was expected"):
        shake_hands(one, other, introduction("rabbit@c"))


@given(at=st.integers(0, 10_000))
def test_an_introduction_that_is_changed_on_its_way_is_refused(at: int) -> None:
    one, other = dialler(), acceptor()
    letter = bytearray(one.receive(other.receive(one.receive(other.receive(one.hello)))))
    letter[2 + at % (len(letter) - 2)] ^= 1
    with pytest.raises(HandshakeFailed):
        other.receive(bytes(letter))
    assert other.peer is None


@given(at=st.integers(0, 10_000))
def test_a_verdict_that_is_changed_on_its_way_is_refused(at: int) -> None:
    one, other = dialler(), acceptor()
    other.receive(one.receive(other.receive(one.receive(other.receive(one.hello)))))
    verdict = bytearray(other.welcome(B))
    verdict[2 + at % (len(verdict) - 2)] ^= 1
    with pytest.raises(HandshakeFailed):
        one.receive(bytes(verdict))


@pytest.mark.parametrize("surplus", [1, 100, 1 << 20])
def test_before_authentication_nothing_beyond_the_next_message_is_taken(surplus: int) -> None:
    with pytest.raises(HandshakeFailed, match="more bytes"):
        acceptor().receive(dialler().hello + bytes(surplus))
    one, other = dialler(), acceptor()
    proof = one.receive(other.receive(one.hello))
    with pytest.raises(HandshakeFailed, match="more bytes"):
        other.receive(proof + bytes(surplus))


def test_nothing_may_follow_the_introduction_before_the_verdict() -> None:
    one, other = dialler(), acceptor()
    letter = one.receive(other.receive(one.receive(other.receive(one.hello))))
    with pytest.raises(HandshakeFailed, match="more bytes"):
        other.receive(letter + b"!")


def test_an_impossible_size_is_refused_when_it_is_announced() -> None:
    one, other = dialler(), acceptor()
    one.receive(other.receive(one.receive(other.receive(one.hello))))
    with pytest.raises(HandshakeFailed, match="impossible size"):
        other.receive(b"\xff\xff")


def test_a_dialler_knows_that_it_reached_something_else() -> None:
    with pytest.raises(HandshakeFailed, match="does not speak"):
        dialler().receive(b"AMQP\0\0\x09\x01")


GOOD = json.loads(A.encode())


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b"[]",
        b"{}",
        b"[" * 9000,
        json.dumps(GOOD | {"name": ""}).encode(),
        json.dumps(GOOD | {"name": "x" * 256}).encode(),
        json.dumps(GOOD | {"name": 5}).encode(),
        json.dumps(GOOD | {"role": "king"}).encode(),
        json.dumps(GOOD | {"incarnation": -1}).encode(),
        json.dumps(GOOD | {"incarnation": True}).encode(),
        json.dumps(GOOD | {"incarnation": 1 << 80}).encode(),
        json.dumps(GOOD | {"newest": "1"}).encode(),
        b'{"incarnation": ' + b"9" * 5000 + b"}",
    ],
)
def test_an_introduction_that_makes_no_sense_is_refused_even_with_the_secret(content: bytes) -> None:
    with pytest.raises(LinkFault):
        decode_introduction(content)


def test_the_longest_names_fit() -> None:
    name, there, cluster = "\U0001f407" * 255, "\U0001f430" * 255, "\U0001f955" * 255
    longest = Introduction(Identity(name, name, 1 << 62), to=there, cluster_id=cluster, attempt=1 << 62)
    one, other = Dialler(SECRET, longest, nonce(1)), acceptor()
    shake_hands(one, other, Introduction(Identity(there, there, 1), cluster_id=cluster))
    assert one.is_done


def test_a_verdict_with_a_version_that_was_not_offered_is_refused() -> None:
    one, other = dialler(), acceptor()
    other.receive(one.receive(other.receive(one.receive(other.receive(one.hello)))))
    content = json.dumps(json.loads(B.encode()) | {"version": 9}).encode()
    with pytest.raises(LinkFault, match="version 9"):
        one.receive(_letter(content, _mac(other._key, b"mirrormq link: verdict\0", other._mac + content)))


def known(**fields: object) -> Standing:
    return Standing(**({"is_member": True, "node_id": "", "linked": None} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("guest", "standing", "sentence"),
    [
        (introduction("a"), known(), ""),
        (introduction("a", oldest=2, newest=3), known(), "a speaks versions 2 to 3 of the link and b speaks 1 to 1; upgrade"),
        (introduction("a", cluster_id="blue"), known(), "a belongs to the cluster blue and b to red"),
        (introduction("a", cluster_id="blue", role="visitor"), known(), ""),
        (introduction("a", role="visitor"), known(is_member=False), ""),
        (introduction("b"), known(), "two nodes of a cluster cannot have one name"),
        (introduction("c"), known(), "b dials c, not the other way round"),
        (introduction("a"), known(is_member=False), "a is no member of the cluster as b knows it"),
        (introduction("a"), known(node_id="other"), "the member a has the id other, not id-of-a; forget the old node first"),
        (introduction("a", attempt=3), known(linked=introduction("a", attempt=4)), "a newer connection of a is up already"),
        (introduction("a", attempt=5), known(linked=introduction("a", attempt=4)), ""),
    ],
)
def test_who_is_let_in(guest: object, standing: Standing, sentence: str) -> None:
    words = refusal(introduction("b", cluster_id="red"), guest, standing)  # type: ignore[arg-type]
    assert sentence in words
    assert bool(words) == bool(sentence)


def test_every_failure_is_a_link_error() -> None:
    assert all(issubclass(kind, LinkError) for kind in (HandshakeFailed, LinkFault, Refused))
