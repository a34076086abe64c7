"""The application's life inside one process: given up while it starts, stopped by what it cannot do without, let in again."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from cluster.copies import until
from compat.support import free_port
from inprocess import config
from mirrormq.admin.app import RUNNING, STARTING, STOPPED, App, GivenUp
from mirrormq.cluster.coordination import Put, open_coordination
from mirrormq.node.runtime import Runtime


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


async def test_a_start_that_is_given_up_twice_lets_go_of_everything(tmp_path: Path) -> None:
    app = App(config(tmp_path, coordination=f"etcd:http://127.0.0.1:{free_port()}"))
    starting = asyncio.create_task(app.start())
    await until(lambda: app.state == STARTING)
    stops = []
    for _ in range(20):
        stops.append(asyncio.create_task(app.stop()))
        await asyncio.sleep(0.001)
    await asyncio.gather(*stops)
    with pytest.raises(GivenUp):
        await starting
    assert app.state == STOPPED
    await app.close()


async def test_what_was_abandoned_listens_no_more(tmp_path: Path) -> None:
    settings = config(tmp_path)
    runtime = Runtime(settings)
    await runtime.start()
    await runtime.listen()
    port = settings.tcp_listeners[0].port
    assert is_open(port)
    await runtime.abandon()
    assert not is_open(port)


async def test_a_node_that_cannot_follow_the_store_stops_loudly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = config(tmp_path)
    app = App(settings)
    await app.start()
    assert app.state == RUNNING
    with caplog.at_level(logging.CRITICAL):
        stranger = await open_coordination(f"sqlite:{tmp_path / 'store.db'}")
        await stranger.transact([], [Put('meta/["user", "x"]', '{"of": "a later release"}')])
        await stranger.close()
        await until(lambda: app.state == STOPPED)
    assert "this node cannot follow its cluster any more: following the store has ended" in caplog.text
    assert not is_open(settings.tcp_listeners[0].port)
    await app.close()


async def test_a_node_whose_port_is_taken_after_a_pause_tries_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = config(tmp_path)
    port = settings.tcp_listeners[0].port
    app = App(settings)
    await app.start()
    runtime = app.running()
    partition = runtime.partition
    await partition._pause("a test wants it")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("0.0.0.0", port))
        other.listen()
        await until(lambda: "cannot serve clients: cannot listen at" in caplog.text)
        assert partition.reason
    await until(lambda: not partition.reason)
    assert is_open(port)
    await app.close()


async def test_a_node_that_was_cut_off_lets_clients_in_when_its_lease_is_renewed(tmp_path: Path) -> None:
    settings = config(tmp_path)
    app = App(settings)
    await app.start()
    cluster, partition = app.running().cluster, app.running().partition
    keep_alive = cluster.store.keep_alive
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(lease: int) -> float:
        asked.set()
        await answered.wait()
        return await keep_alive(lease)

    cluster.store.keep_alive = slow  # type: ignore[method-assign]
    await partition._pause("a test wants it")
    cluster.store.reachability.lost("cut off")
    cluster.store.reachability.found()
    await asked.wait()
    await partition.look()
    assert partition.reason
    assert not is_open(settings.tcp_listeners[0].port)
    answered.set()
    await until(lambda: not partition.reason)
    assert is_open(settings.tcp_listeners[0].port)
    await app.close()
