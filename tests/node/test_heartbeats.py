"""A node that was itself stopped for a while does not take its own silence for that of its clients."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path

import uvloop

from compat.rawclient import HEARTBEAT, RawClient
from inprocess import config
from mirrormq.node.runtime import Runtime

STALL = 3.0     # longer than two intervals of one second


def beat(client: RawClient, until: threading.Event) -> None:
    while not until.wait(0.2):
        client.send_frame(HEARTBEAT, 0, b"")


def greeted(port: int) -> RawClient:
    client = RawClient("127.0.0.1", port)
    client.handshake(heartbeat=1)
    client.open_channel(1)
    return client


async def stand_still(seconds: float) -> None:
    """In what a socket has called for: only there timers come next, and other sockets after them."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    one, other = socket.socketpair()

    def called() -> None:
        loop.remove_reader(one)
        time.sleep(seconds)
        done.set()

    loop.add_reader(one, called)
    other.send(b"x")
    await done.wait()
    one.close()
    other.close()


async def stalled(directory: Path) -> bool:
    """Whether a client whose heartbeats came all the time is still served after the loop has stood still."""
    settings = config(directory)
    runtime = Runtime(settings)
    await runtime.start()
    await runtime.listen()
    client = await asyncio.to_thread(greeted, settings.tcp_listeners[0].port)
    ended = threading.Event()
    beating = threading.Thread(target=beat, args=(client, ended))
    beating.start()
    try:
        await stand_still(STALL)
        return await asyncio.to_thread(client.alive)
    finally:
        ended.set()
        beating.join()
        client.close()
        await runtime.stop()


def test_a_node_that_stood_still_reads_before_it_judges(tmp_path: Path) -> None:
    assert uvloop.run(stalled(tmp_path))
