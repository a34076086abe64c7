"""`mirrormq server`: run one node until it is told to stop."""
from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import click
import uvloop

from mirrormq import __version__, is_compiled
from mirrormq.admin.app import START_FAULTS, App, GivenUp
from mirrormq.admin.door import Door
from mirrormq.node.config import ConfigError, NodeConfig, load_config
from mirrormq.node.logs import start_logging
from mirrormq.node.resources import keep_memory
from mirrormq.node.runtime import Runtime

log = logging.getLogger("mirrormq")


@click.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file in RabbitMQ's format.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where messages and records are kept.")
@click.option("--node-name", help="Name of the node, such as rabbit@host.")
@click.option("--host", help="Address to listen at for AMQP (default: all).")
@click.option("--port", type=int, help="Port for AMQP (default 5672).")
@click.option("--http-port", type=int, help="Port for the management API (default 15672).")
@click.option("--link-port", type=int, help="Port for other nodes (default: 20,000 above AMQP's).")
@click.option("--coordination", help="Where nodes agree: sqlite:FILE for nodes of one machine, or etcd:URL,URL,…")
@click.option("--advertised-host", help="Where other nodes reach this one (default: as its name says, or this machine).")
@click.option("--cookie-file", type=click.Path(path_type=Path), help="The secret that the nodes of a cluster share.")
def server(file: Path | None, **options: object) -> None:
    """Run one node."""
    try:
        config = load_config(file, os.environ, options)
    except ConfigError as problems:
        raise SystemExit(_complaint(str(problems))) from None
    try:
        start_logging(config)
    except OSError as fault:
        raise SystemExit(_complaint(f"log.file: {fault.filename} cannot be written ({fault.strerror})")) from None
    sys.setswitchinterval(0.0002)
    try:
        uvloop.run(_serve(config))
    except START_FAULTS as fault:
        raise SystemExit(_complaint(str(fault))) from None


def _complaint(text: str) -> str:
    return f"mirrormq cannot start:\n{text}"


async def _serve(config: NodeConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for each in (signal.SIGINT, signal.SIGTERM, *([] if is_nohup else [signal.SIGHUP])):    # the last when a terminal is closed
        loop.add_signal_handler(each, stop.set)
    keep_memory()
    app = App(config)
    door = Door(app)
    try:
        await door.open()
        await _start(app, stop)
        await stop.wait()
        log.info("stopping")
    finally:
        await door.close()
        await app.close()
    log.info("stopped")


async def _start(app: App, stop: asyncio.Event) -> None:
    """Until the application runs, or the process is told to stop: a start may wait for the store for long."""
    starting, stopping = asyncio.ensure_future(app.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        await app.stop()
    try:
        await starting
    except GivenUp as fault:
        log.warning("%s", fault)        # or by 'stop_app', and the process waits for 'start_app'
    if app.runtime is not None:
        _say_where(app.config, app.runtime)


def _say_where(config: NodeConfig, runtime: Runtime) -> None:
    log.info("MirrorMQ %s (%s) runs as %s", __version__, "compiled" if is_compiled() else "not compiled", config.node_name)
    for note in config.notes:
        log.warning("%s", note)
    for protocol, address, number in runtime.addresses:
        log.info("listening for %s at %s:%d", protocol, address, number)
