"""Hostile and broken peers against a real server process."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import attacks
from .process import Server

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
SEED = 20
MEBI = 1 << 20
WARM = 2_000
SEQUENCES = int(os.environ.get("MIRRORMQ_SOCKET_SEQUENCES", "5000"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(Path(tmp_path_factory.mktemp("attacked")))
    yield server
    server.stop()


def test_mutated_sequences_over_sockets_end_in_order_and_memory_stays_flat(server: Server) -> None:
    attacks.sequences(server, SEED, 0, 300, Counter())
    before = server.resident()
    attacks.sequences(server, SEED, 300, 700, Counter())
    assert server.resident() - before < 16 * MEBI
    server.check_alive()


def test_resets_and_half_open_connections_leave_nothing(server: Server) -> None:
    attacks.reset(server, 100)
    attacks.half_open(server, 20)
    server.wait_until_alone(attacks.GIVE_UP)
    server.check_alive()


def test_peers_that_never_log_in_cost_next_to_nothing_and_are_sent_away(server: Server) -> None:
    assert attacks.silent_crowd(server, 1000) < 20_000
    server.check_alive()


def test_a_handshake_has_its_time(server: Server) -> None:
    attacks.slow_handshake(server)
    server.check_alive()


def test_announced_sizes_cost_nothing(server: Server) -> None:
    attacks.announced_sizes(server)
    server.check_alive()


def test_what_a_closed_peer_sends_is_not_kept(server: Server) -> None:
    attacks.noise_after_close(server, 50)
    server.check_alive()


def test_a_peer_that_does_not_read_cannot_make_the_server_grow(server: Server) -> None:
    assert attacks.deaf_publisher(server, 150) < 32 * MEBI
    assert attacks.deaf_asker(server, 2) < 32 * MEBI
    assert attacks.deaf_consumer(server, 150) < 64 * MEBI
    server.check_alive()


def test_a_peer_that_neither_reads_nor_sends_is_given_up(server: Server) -> None:
    attacks.deaf_and_silent(server)
    server.check_alive()


def test_a_name_is_one_line_of_the_log_whatever_it_is(server: Server) -> None:
    attacks.names_for_the_log(server)
    server.check_alive()


def test_no_more_channels_than_agreed_can_be_opened(server: Server) -> None:
    attacks.many_channels(server)
    server.check_alive()


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_many_mutated_sequences_over_sockets_and_thousands_of_strangers(server: Server) -> None:
    attacks.sequences(server, SEED + 1, 0, WARM, Counter())
    before = server.resident()
    attacks.sequences(server, SEED + 1, WARM, SEQUENCES, Counter())
    assert server.resident() - before < 32 * MEBI
    assert attacks.silent_crowd(server, 5000) < 20_000
    server.check_alive()
