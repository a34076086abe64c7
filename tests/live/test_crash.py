"""Kill -9 under confirmed load, at random moments: nothing confirmed is missing, nothing is doubled, order is kept."""
from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support import ServerProcess

from .load import Gone, Publisher, Taker, drain

ROUNDS = int(os.environ.get("MIRRORMQ_CRASHES", "3"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path)
    server.start()
    yield server
    server.stop()


class Round:
    """One run of load that ends with the server's death."""

    def __init__(self, server: ServerProcess, start: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.kept = Publisher(server.port, "kept", start=start, window=self.random.choice((16, 256, 2000)))
        self.passed = Publisher(server.port, "passed", start=start, window=256)
        self.taker = Taker(server.port, "passed", every=self.random.choice((1, 20, 60)))
        self.steps = self.random.randrange(20, 600)

    def run(self, server: ServerProcess) -> None:
        for _ in range(self.steps):
            self.kept.step()
            self.passed.step()
            self.taker.step()
        server.kill()
        for client in (self.kept, self.passed, self.taker):
            try:
                while client.has_input(0.2):
                    client.step()
            except Gone:
                pass
            client.close()


def check_kept(before: list[int], load: Round, found: list[tuple[int, bool]]) -> None:
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers)), "out of order or doubled"
    assert not set(load.kept.confirmed_numbers()) - set(numbers), "confirmed and missing"
    assert not set(before) - set(numbers), "lost what an earlier round had left"
    assert not set(numbers) - set(before) - set(load.kept.sent_numbers()), "never sent"


def check_passed(load: Round, found: list[tuple[int, bool]]) -> None:
    taken = [number for number, _ in load.taker.got]
    settled = set(taken[:load.taker.acked])
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers)), "out of order or doubled"
    assert not set(load.passed.confirmed_numbers()) - set(numbers) - settled, "confirmed and missing"
    for number, redelivered in found:
        if number in taken:
            assert redelivered, f"{number} was delivered before the crash and looks new"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_confirmed_message_is_lost_when_the_server_is_killed_under_load(server: ServerProcess) -> None:
    seed = int(os.environ.get("MIRRORMQ_SEED", "1"))
    start = 0
    confirmed = 0
    for turn in range(ROUNDS):
        load = Round(server, start, seed + turn)
        load.run(server)
        server.start()
        found = drain(server.port, "kept")
        check_kept([], load, found)
        check_passed(load, drain(server.port, "passed"))
        confirmed += load.kept.confirmed + load.passed.confirmed
        start += 1_000_000
        print(f"round {turn + 1}: {load.kept.confirmed} + {load.passed.confirmed} confirmed, nothing lost", flush=True)
    assert confirmed > 0
