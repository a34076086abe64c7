"""A node may hear of a new queue after its successor: what the successor asked for meanwhile is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.world import START, MemoryLog, Notes
from mirrormq.broker.arguments import QueueArguments, QueueSettings
from mirrormq.broker.broker import Broker
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.log.store import Store
from mirrormq.mirror.codec import encode
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.messages import Follow
from mirrormq.mirror.machine.records import View
from mirrormq.mirror.rings import RingHost, RingLog, Rings

QUEUE = 7
RING = View(1, ("first", "second", "third"))


class Host(RingHost):
    def now(self) -> float:
        return 1.0

    def send(self, node: str, payload: bytes, *, is_bulk: bool) -> None:
        pass

    def wake_at(self, when: float) -> None:
        pass


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Rings]:
    broker = Broker(Notes(), MemoryLog(), "second", START)
    store = Store(tmp_path)
    store.open()
    rings = Rings(broker, Host(), RingLog(), store)
    for node in ("first", "third"):
        rings.link_up(node)
    yield rings
    store.close()


def hold(rings: Rings) -> list[str]:
    """Whose requests wait for an answer when the node has heard of the queue."""
    arguments = QueueArguments({})
    front = AwayQueue(rings.broker, "/", "q", QUEUE, home="first", durable=True, auto_delete=False, owner=None,
                      arguments=arguments, settings=QueueSettings(arguments, {}))
    return list(rings.hold(front, RING, 1, is_fresh=True).state.waiting)


def test_a_request_to_follow_is_kept_until_the_queue_is_known(second: Rings) -> None:
    second.received("third", encode(QUEUE, Follow(1, 1, Lineage(), True)))
    assert hold(second) == ["third"]


def test_one_whose_sender_is_gone_is_forgotten(second: Rings) -> None:
    second.received("third", encode(QUEUE, Follow(1, 1, Lineage(), True)))
    second.link_down("third")
    assert hold(second) == []
