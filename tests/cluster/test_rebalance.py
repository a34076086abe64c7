"""Plans to spread leads: RabbitMQ's cases, and what must never happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from mirrormq.cluster.rebalance import STRATEGIES, Led, Move, plan

A, B, C = "a", "b", "c"


def led_after(queues: Sequence[Led], moves: Sequence[Move]) -> Counter[str]:
    moved = {move.id: move.to for move in moves}
    return Counter(moved.get(queue.id, queue.leader) for queue in queues)


def five(candidates: tuple[str, ...] = (B, C)) -> list[Led]:
    lengths = [5, 3, 0, 0, 0]
    return [Led(number, f"q{number}", A, candidates, messages) for number, messages in enumerate(lengths, 1)]


def test_five_queues_on_one_of_three_nodes_are_spread_and_the_longest_stay() -> None:
    moves = plan(five(), [A, B, C])
    assert max(led_after(five(), moves).values()) == 2
    assert {1, 2}.isdisjoint(move.id for move in moves)


def test_only_nodes_that_are_in_sync_are_given_a_lead() -> None:
    moves = plan(five((B,)), [A, B, C])
    assert led_after(five((B,)), moves) == {A: 3, B: 2}


def test_a_node_that_takes_no_queues_gets_none() -> None:
    moves = plan(five(), [A, B])
    assert led_after(five(), moves) == {A: 3, B: 2}


def test_what_is_even_stays() -> None:
    queues = [Led(1, "q1", A, (B, C)), Led(2, "q2", B, (A, C)), Led(3, "q3", C, (A, B))]
    assert plan(queues, [A, B, C]) == []


def test_messages_weigh() -> None:
    queues = [Led(1, "big", A, (B,), 1000), Led(2, "one", A, (B,), 10), Led(3, "two", A, (B,), 10)]
    moves = plan(queues, [A, B], "messages")
    assert sorted(move.name for move in moves) == ["one", "two"]


def test_a_node_with_many_clients_gets_fewer() -> None:
    moves = plan(five(), [A, B, C], "connections", connections={B: 10})
    assert B not in led_after(five(), moves)


def test_round_robin_gives_each_its_turn() -> None:
    queues = [Led(number, f"q{number}", A, (B, C)) for number in range(6)]
    assert led_after(queues, plan(queues, [A, B, C], "round_robin")) == {A: 2, B: 2, C: 2}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_queue_moves_twice_or_to_who_has_no_copy(strategy: str) -> None:
    queues = [Led(number, f"q{number}", A if number % 3 else B, (B, C) if number % 3 else (A,), number) for number in range(30)]
    moves = plan(queues, [A, B, C], strategy, pick=lambda able: able[-1])
    by_id = {queue.id: queue for queue in queues}
    assert len({move.id for move in moves}) == len(moves)
    assert all(move.to in by_id[move.id].candidates for move in moves)
