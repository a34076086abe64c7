"""Two nodes that are both up and reach the store, and only the link between them is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from mirrormq.node import detours

from .trio import PERSISTENT, QUEUE, Nodes, nodes_in, until


def cut(nodes: Nodes) -> None:
    for runtime in nodes.running.values():
        runtime.cluster.links.set_peers({}, {})


def heal(nodes: Nodes) -> None:
    for runtime in nodes.running.values():
        runtime.cluster._members_changed()


def refused(channel: BlockingChannel) -> bool:
    """Whether a publish there is answered with a refusal."""
    try:
        channel.basic_publish("", QUEUE, b"refused", PERSISTENT, mandatory=True)
    except NackError:
        return True
    return False


def missing(channel: BlockingChannel) -> str:
    """What the error says with which a get there is answered."""
    with pytest.raises(ChannelClosedByBroker) as found:
        channel.basic_get(QUEUE)
    return f"{found.value.reply_code} {found.value.reply_text}"


async def test_clients_of_the_node_that_does_not_lead_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detours, "GIVE_UP", 5.0)
    async with nodes_in(tmp_path, "a", "b") as nodes:
        await nodes.want(ha_mode="all", ha_sync_mode="automatic")
        await until(lambda: nodes.ring() == ["a", "b"])
        await nodes.publish("a", b"1")
        cut(nodes)
        await until(lambda: len(nodes.ring()) == 1)
        leader, = nodes.ring()
        other = "b" if leader == "a" else "a"
        assert await nodes.at(other, refused)
        assert (await nodes.at(other, missing)).startswith("404 ")
        await nodes.publish(leader, b"2")

        heal(nodes)
        await until(lambda: sorted(nodes.ring()) == ["a", "b"])
        assert await nodes.count(other) == 2
        await nodes.publish(other, b"3")
        assert await nodes.count(leader) == 3
