"""Rows of queues in which nothing happens, kept as they were encoded.

A list of thousands of queues is asked for every few seconds, and most of them are as they were. Of a quiet queue (no rates) the
row follows from a few numbers: as long as these are the same, so is the row. A queue whose consumers may stop or start to take
messages without any number changing is shown anew every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mirrormq.admin.mirrors import Mirrors
from mirrormq.admin.rates import Rates
from mirrormq.broker.backlog import PlainBacklog
from mirrormq.broker.queue import Queue

VARIANTS: Final = 4             # different questions whose rows are kept
MOST: Final = 20_000            # rows of each
HARMLESS: Final = frozenset(("columns", "page", "page_size", "name", "use_regex", "sort", "sort_reverse", "pagination"))
Mark = tuple[Any, ...]


def mark_of(queue: Queue, mirrors: Mirrors) -> Mark | None:
    """What the row of a quiet queue follows from; None if it follows from more."""
    backlog, everyone, holder = queue.backlog, queue.turns.everyone, queue.holder
    if not isinstance(backlog, PlainBacklog) or (everyone and backlog.count):
        return None
    return (
        queue.published, queue.delivered, queue.delivered_no_ack, queue.got, queue.got_no_ack, queue.redelivered,
        queue.acknowledged, backlog.count, backlog.bytes, backlog.tail, backlog.window_bytes, queue.held, queue.held_bytes,
        queue.kept, queue.kept_bytes, queue.next_index, queue.delivered_high, queue.last_used, len(everyone),
        None if holder is None else holder.tag, queue.policy, queue.operator_policy, queue.effective_policy, queue.settings,
        queue.damage, mirrors.ring(queue),
    )  # fmt: skip


class RowCache:
    def __init__(self) -> None:
        self._variants: dict[str, dict[int, tuple[Mark, str]]] = {}

    def variant(self, query: Mapping[str, str]) -> str | None:
        """A name for questions that get the same rows; None for those that have to be answered anew."""
        if not HARMLESS.issuperset(query):
            return None
        return query.get("columns", "")

    def rows(self, variant: str) -> dict[int, tuple[Mark, str]]:
        found = self._variants.get(variant)
        if found is None or len(found) > MOST:
            if len(self._variants) >= VARIANTS:
                self._variants.pop(next(iter(self._variants)))
            found = self._variants[variant] = {}
        return found


def cached(cache: RowCache, query: Mapping[str, str], text: Callable[[Queue], str], counters: Callable[[Queue], dict[str, int]],
           rates: Rates, mirrors: Mirrors, now: int) -> Callable[[Queue], str]:
    """The same rows, told from memory where that is certain."""
    variant = cache.variant(query)
    if variant is None:
        return text
    rows = cache.rows(variant)

    def row(queue: Queue) -> str:
        mark, known = mark_of(queue, mirrors), rows.get(int(queue.log_id))
        key = ("queue", queue.vhost, queue.name)
        if mark is not None and known is not None and known[0] == mark and rates.still(key, now):
            return known[1]
        was_still = rates.is_still(key) and rates.is_quiet(key, counters(queue))        # also since the last look
        encoded = text(queue)
        if mark is not None and was_still and rates.is_still(key):
            rows[int(queue.log_id)] = (mark, encoded)
        else:
            rows.pop(int(queue.log_id), None)
        return encoded

    return row
