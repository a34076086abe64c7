"""Output is joined where it is many small pieces, and large messages go out without another copy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fuzz.client import Client
from fuzz.runner import Runner
from fuzz.world import Pipe
from mirrormq.broker.message import build_content, retarget
from mirrormq.broker.outlet import LARGE, gathered
from mirrormq.wire.methods import BasicConsume, QueueDeclare


class Socket(Pipe):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def write_all(self, pieces: list[bytes]) -> None:
        self.pieces += pieces


@given(st.lists(st.sampled_from([0, 1, 50, LARGE - 1, LARGE, LARGE + 1])))
def test_gathering_keeps_every_byte_and_copies_nothing_large(sizes: list[int]) -> None:
    out = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    pieces = gathered(out)
    assert b"".join(pieces) == b"".join(out)
    for large in (piece for piece in out if len(piece) >= LARGE):
        assert any(piece is large for piece in pieces)


def test_a_large_message_reaches_the_socket_as_the_bytes_that_the_queue_has() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q"))
    client.publish("q", b"x" * 60_000)
    client.rest()
    socket = Socket()
    client.session.connection.transport = socket
    queue = client.runner.world.broker.vhosts["/"].queues["q"]
    head = queue.backlog.head()
    assert head is not None
    content = head.content
    client.say(BasicConsume("q", "t"))
    client.runner.world.turn()
    assert any(piece is content for piece in socket.pieces)


def test_content_for_its_own_channel_is_not_copied_unless_its_frames_are_too_large() -> None:
    content = build_content(1, b"\x00\x00", b"x" * 9000, 4096)
    assert retarget(content, 1, 4096) is content
    assert retarget(content, 1, 0) is content
    assert retarget(content, 2, 4096) == build_content(2, b"\x00\x00", b"x" * 9000, 4096)
    assert retarget(build_content(1, b"\x00\x00", b"x" * 9000, 0), 1, 4096) == content
