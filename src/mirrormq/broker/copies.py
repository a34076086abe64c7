"""Copy queues: whatever enters one queue enters those that copy it, under their own names.

Rules
 1. Copies are worked out with the route, so they hold for every way into a queue: exchanges, the default exchange, dead letters,
    delays, transactions. A message that is put back into a queue (undo, quarantine) is not new, and not copied.
 2. A copy is copied on in turn. A queue gets each message once, however many ways lead to it, so circles end.
 3. The queue that is copied need not exist; where it does not, nothing enters it.
 4. An exclusive queue is its connection's own, and not copied.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.topic import TopicTrie
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import Table, type_name

if TYPE_CHECKING:
    from mirrormq.broker.queue import Queue

EVERYTHING: Final = "#"
GROUP: Final = "x-copy-group"           # whose copy this is, where a mirrored exchange made it
MIRRORED: Final = "x-mirrored"
GROUPS: Final = "x-mirrored-groups"
DEFAULT_GROUP: Final = "mirror"
MOST_GROUPS: Final = 32                 # of one exchange: a binding makes a queue for each, in one proposal


class Copies:
    """Which queues of a virtual host copy which, by name."""

    def __init__(self) -> None:
        self._by_source: dict[str, TopicTrie[str]] = {}

    def add(self, name: str, arguments: QueueArguments) -> None:
        source = arguments.copy_from
        if source is not None:
            trie = self._by_source.get(source)
            if trie is None:
                trie = self._by_source[source] = TopicTrie()
            trie.add(_pattern(arguments), name)

    def remove(self, name: str, arguments: QueueArguments) -> None:
        source = arguments.copy_from
        trie = None if source is None else self._by_source.get(source)
        if source is not None and trie is not None:
            trie.remove(_pattern(arguments), name)
            if trie.is_empty():
                del self._by_source[source]

    def is_used(self) -> bool:
        return len(self._by_source) > 0

    def follow(self, queues: list[Queue], keys: list[str], by_name: dict[str, Queue]) -> list[Queue]:
        """These queues, and every queue that gets a copy of what enters them under these routing keys."""
        found: dict[Queue, None] = dict.fromkeys(queues)
        order = list(found)
        at = 0
        while at < len(order):
            for name in self._names(order[at], keys):
                copy = by_name.get(name)
                if copy is not None and copy not in found:
                    found[copy] = None
                    order.append(copy)
            at += 1
        return order

    def _names(self, source: Queue, keys: list[str]) -> list[str]:
        trie = self._by_source.get(source.name)
        if trie is None or source.exclusive:
            return []
        names: list[str] = []
        for key in keys:
            names += trie.match(key)
        return names


def _pattern(arguments: QueueArguments) -> str:
    return EVERYTHING if arguments.copy_routing_key is None else arguments.copy_routing_key


# --- mirrored exchanges ---------------------------------------------------------------------------------------------

def groups_of(arguments: Table) -> list[str]:
    """The consumer groups of a mirrored exchange, each of which has a copy of every queue bound to it."""
    groups = arguments.get(GROUPS)
    if isinstance(groups, list):
        return [group for group in groups if isinstance(group, str)]
    return [DEFAULT_GROUP] if arguments.get(MIRRORED) is True else []


def check_mirrored(arguments: Table, resource: str) -> None:
    if MIRRORED in arguments and not isinstance(arguments[MIRRORED], bool):
        raise _invalid(MIRRORED, resource, f"expected bool, got {type_name(arguments[MIRRORED])}")
    if GROUPS not in arguments:
        return
    groups = arguments[GROUPS]
    if arguments.get(MIRRORED) is False:
        raise _invalid(GROUPS, resource, "x-mirrored is false")
    if not isinstance(groups, list) or not groups:
        raise _invalid(GROUPS, resource, "expected a list of group names")
    if len(groups) > MOST_GROUPS:
        raise _invalid(GROUPS, resource, f"there are more than {MOST_GROUPS} groups")
    if not all(isinstance(group, str) and 0 < len(group) <= 127 for group in groups):
        raise _invalid(GROUPS, resource, "a group is a name of 1 to 127 characters")
    if len({str(group) for group in groups}) < len(groups):
        raise _invalid(GROUPS, resource, "a group is named twice")


def _invalid(key: str, resource: str, fault: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{key}' for {resource}: {fault}")


def copy_name(queue: str, group: str) -> str:
    return f"{queue}.{group}"


def is_copy_for(found: Queue, source: str, group: str) -> bool:
    """Whether this is the queue that a mirrored exchange made for the group."""
    return found.arguments.copy_from == source and found.arguments.table.get(GROUP) == group
