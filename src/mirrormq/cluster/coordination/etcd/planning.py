"""How many independent transactions become few requests.

Those that do not touch what another of them writes are merged: etcd takes transactions inside a transaction. Those that do are
put into later waves, which begin when the wave before is answered, so that they happen in the order given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mirrormq.cluster.coordination.port import MAX_BYTES, DeletePrefix, Put, Transaction

MERGED: Final = 60
"""Transactions in one request. etcd counts: those inside may have as many operations as its limit, 128, leaves after these."""

SMALL: Final = 60
"""Operations of a transaction that may be merged."""


def waves(transactions: Sequence[Transaction]) -> list[list[int]]:
    """The places of the transactions, in the waves in which they may happen."""
    levels: list[list[int]] = []
    written: dict[str, int] = {}
    compared: dict[str, int] = {}
    barrier = 0
    for place, transaction in enumerate(transactions):
        keys = [write.key for write in transaction.writes if not isinstance(write, DeletePrefix)]
        level = max([barrier, *(max(written.get(key, 0), compared.get(key, 0)) for key in keys),
                     *(written.get(compare.key, 0) for compare in transaction.compares)])
        if len(keys) < len(transaction.writes):  # the deletion of a prefix: after all before it, before all after it
            level = len(levels)
            barrier = level + 1
        written.update((key, level + 1) for key in keys)
        compared.update((compare.key, max(level + 1, compared.get(compare.key, 0))) for compare in transaction.compares)
        while len(levels) <= level:
            levels.append([])
        levels[level].append(place)
    return levels


def requests(wave: Sequence[int], transactions: Sequence[Transaction]) -> Iterator[list[int]]:
    """A wave's places in groups, each of which fits in one request."""
    group: list[int] = []
    size = 0
    for place in wave:
        own = _size(transactions[place])
        if not _is_small(transactions[place]):
            yield [place]
            continue
        if group and (len(group) == MERGED or size + own > MAX_BYTES):
            yield group
            group, size = [], 0
        group.append(place)
        size += own
    if group:
        yield group


def _is_small(transaction: Transaction) -> bool:
    return max(len(transaction.compares), len(transaction.writes)) <= SMALL


def _size(transaction: Transaction) -> int:
    return sum(200 + 4 * len(write.value) if isinstance(write, Put) else 200 for write in transaction.writes)
