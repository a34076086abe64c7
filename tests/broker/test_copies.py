"""Which queues copy which."""

from __future__ import annotations

import pytest

from mirrormq.broker.arguments import QueueArguments, parse_queue_arguments
from mirrormq.broker.copies import Copies, check_mirrored, groups_of
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import Table


def test_groups_are_the_listed_ones_or_one() -> None:
    assert groups_of({}) == []
    assert groups_of({"x-mirrored": False}) == []
    assert groups_of({"x-mirrored": True}) == ["mirror"]
    assert groups_of({"x-mirrored-groups": ["a", "b"]}) == ["a", "b"]


def test_the_last_copy_leaves_nothing_behind() -> None:
    copies = Copies()
    first, second = QueueArguments({"x-copy-from": "s"}), QueueArguments({"x-copy-from": "s", "x-copy-routing-key": "a.*"})
    copies.add("one", first)
    copies.add("two", second)
    copies.remove("one", first)
    assert copies.is_used()
    copies.remove("two", second)
    copies.remove("two", second)
    assert not copies.is_used()


@pytest.mark.parametrize("arguments", [{"x-mirrored": 1}, {"x-mirrored-groups": [""]}, {"x-mirrored-groups": ["a" * 128]}])
def test_what_makes_no_sense_is_refused(arguments: Table) -> None:
    with pytest.raises(PreconditionFailed):
        check_mirrored(arguments, "exchange 'x' in vhost '/'")


def test_a_queue_cannot_copy_itself() -> None:
    with pytest.raises(PreconditionFailed, match="cannot copy itself"):
        parse_queue_arguments({"x-copy-from": "q"}, "q", "/")
