"""Passive declares of reply addresses that lead to other nodes: is the requester still there?

A server asks so before it works on an answer that nobody may want. The requester's node knows; without it nobody is there.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.forward.codec import ID, PROBE, PROBED, encode_text
from mirrormq.wire.errors import NotFound
from mirrormq.wire.methods import QueueDeclare, QueueDeclareOk

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.forward.port import PeerPort


class Probe:
    def __init__(self, node: str, channel: Channel, method: QueueDeclare) -> None:
        self.node: str = node
        self.channel: Channel = channel
        self.method: QueueDeclare = method

    def finish(self, *, is_there: bool) -> None:
        channel, method = self.channel, self.method
        if channel.is_gone():
            return
        if not is_there:
            vhost = channel.connection.vhost
            channel.fail(NotFound(f"no queue '{method.queue}' in vhost '{'' if vhost is None else vhost.name}'"), method.id)
            return
        channel.last_queue = method.queue
        if not method.no_wait:
            channel.send(QueueDeclareOk(method.queue, 0, 1))
        channel.resume()


class Probes:
    """All that are under way, by their ids."""

    def __init__(self) -> None:
        self.waiting: dict[int, Probe] = {}

    def ask(self, id: int, port: PeerPort, probe: Probe) -> None:
        self.waiting[id] = probe
        probe.channel.suspend()
        port.send(PROBE, ID.pack(id) + encode_text(probe.method.queue))

    def answered(self, data: bytes) -> None:
        probe = self.waiting.pop(ID.unpack_from(data, 0)[0], None)
        if probe is not None:
            probe.finish(is_there=data[-1] != 0)

    def node_lost(self, node: str) -> None:
        for id, probe in list(self.waiting.items()):
            if probe.node == node:
                del self.waiting[id]
                probe.finish(is_there=False)


def answer(port: PeerPort, id: int, *, is_there: bool) -> None:
    port.send(PROBED, ID.pack(id) + (b"\x01" if is_there else b"\x00"))
