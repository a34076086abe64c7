"""A process with links, for tests that kill and freeze it. Its life is told on standard output, one JSON list per line.

    python link_child.py NAME INCARNATION      then one JSON object per line on standard input: who is where
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import uvloop

from mirrormq.cluster.link import WORK, Frame
from mirrormq.node.links import Identity, Links, Peer

SECRET = b"one secret for all of them"


def tell(*words: object) -> None:
    print(json.dumps(words), flush=True)


class Teller:
    def link_up(self, peer: Peer) -> None:
        tell("up", peer.name, peer.incarnation)

    def link_down(self, peer: Peer, reason: str) -> None:
        tell("down", peer.name, reason)

    def link_frames(self, peer: Peer, frames: list[Frame]) -> None:
        for frame in frames:
            peer.consumed(frame.lane, len(frame.payload))
            peer.send(WORK, frame.kind, frame.payload)

    def link_drained(self, peer: Peer, lane: int) -> None: ...

    async def visit(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"pid_asked": request}


async def main(name: str, incarnation: int) -> None:
    links = Links(Identity(name, f"id-of-{name}", incarnation), SECRET, Teller(), report=lambda *words: tell("log", *words))
    await links.start("127.0.0.1", 0)
    tell("port", links.port)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        links.set_peers({peer: (host, port) for peer, (host, port) in json.loads(line).items()})
    await links.stop()
    tell("stopped")


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
