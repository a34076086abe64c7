"""Which queues should be led by another node, so that the nodes share the work: a pure plan.

Rules
 1. A queue is led only by a node that is in sync with it, and that its policy allows to hold it. So no copy is lost by moving.
 2. Each queue moves at most once. Light queues move first, because they cost least; of those alike the first by name.
 3. A move is worth it only if it makes the fuller node emptier than the other becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

QUEUES: Final = "queues"
MESSAGES: Final = "messages"
CONNECTIONS: Final = "connections"
RANDOM: Final = "random"
ROUND_ROBIN: Final = "round_robin"
STRATEGIES: Final = (QUEUES, MESSAGES, CONNECTIONS, RANDOM, ROUND_ROBIN)

Pick = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class Led:
    """A mirrored queue: its id, for people its name, who leads it, who could, and what it weighs."""

    id: int
    name: str
    leader: str
    candidates: tuple[str, ...]
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    id: int
    name: str
    leader: str
    to: str


def plan(queues: Sequence[Led], nodes: Sequence[str], strategy: str = QUEUES, *, connections: Mapping[str, int] | None = None,
         pick: Pick | None = None) -> list[Move]:
    """`nodes` take queues; `connections` says how many clients each has."""
    if strategy == RANDOM:
        assert pick is not None
        return _each(queues, nodes, lambda _, able: pick(able))
    if strategy == ROUND_ROBIN:
        return _round(queues, nodes)
    weigh = (lambda queue: queue.messages + 1) if strategy == MESSAGES else (lambda _: 1)
    start = dict(connections or {}) if strategy == CONNECTIONS else {}
    return _even(queues, nodes, weigh, start)


def _even(queues: Sequence[Led], nodes: Sequence[str], weigh: Callable[[Led], int], start: Mapping[str, int]) -> list[Move]:
    load = {node: start.get(node, 0) for node in nodes}
    for queue in queues:
        load[queue.leader] = load.get(queue.leader, start.get(queue.leader, 0)) + weigh(queue)
    moves = []
    for queue in sorted(queues, key=lambda queue: (queue.messages, queue.name)):
        able = [node for node in queue.candidates if node in nodes and node != queue.leader]
        if not able:
            continue
        to = min(able, key=lambda node: (load[node], node))
        weight = weigh(queue)
        if load[to] + weight < load[queue.leader]:
            load[queue.leader] -= weight
            load[to] += weight
            moves.append(Move(queue.id, queue.name, queue.leader, to))
    return moves


def _round(queues: Sequence[Led], nodes: Sequence[str]) -> list[Move]:
    order = sorted(nodes)
    at = {queue.id: number for number, queue in enumerate(sorted(queues, key=lambda queue: queue.name))}
    return _each(queues, nodes, lambda queue, able: min(able, key=lambda node: (order.index(node) - at[queue.id]) % len(order)))


def _each(queues: Sequence[Led], nodes: Sequence[str], choose: Callable[[Led, Sequence[str]], str]) -> list[Move]:
    moves = []
    for queue in sorted(queues, key=lambda queue: queue.name):
        able = sorted({node for node in (queue.leader, *queue.candidates) if node in nodes})
        to = choose(queue, able) if able else queue.leader
        if to != queue.leader:
            moves.append(Move(queue.id, queue.name, queue.leader, to))
    return moves
