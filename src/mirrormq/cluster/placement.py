"""On which node a new queue lives.

Rules
 1. The queue's own argument decides, then its policy, then the configuration; without any of them it lives where it is declared.
 2. Only nodes that are up and take new queues are chosen from. If there is none, or the rule is not known, it lives where it is
    declared.
 3. Fewest queues: equal ones go to the declaring node first, then by name, so that the same cluster gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

CLIENT_LOCAL: Final = "client-local"
MIN_MASTERS: Final = "min-masters"
RANDOM: Final = "random"

Pick = Callable[[Sequence[str]], str]


def choose_home(locator: str, own: str, nodes: Sequence[str], homed: Mapping[str, int], pick: Pick) -> str:
    """`nodes` may be chosen, `homed` says how many queues each has, `pick` takes one at random."""
    if not nodes:
        return own
    if locator == RANDOM:
        return pick(sorted(nodes))
    if locator == MIN_MASTERS:
        return min(nodes, key=lambda name: (homed.get(name, 0), name != own, name))
    return own
