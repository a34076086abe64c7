"""`mirrormq server`: run one node until it is told to stop."""
from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

import click
import uvloop

from mirrormq import __version__, is_compiled
from mirrormq.admin.door import Door
from mirrormq.log.errors import LogError
from mirrormq.node.config import ConfigError, NodeConfig, load_config
from mirrormq.node.metastore import MetaStoreError
from mirrormq.node.runtime import Runtime, StartError
from mirrormq.node.tls import TlsError

log = logging.getLogger("mirrormq")


@click.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="Configuration file in RabbitMQ's format.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where messages and records are kept.")
@click.option("--node-name", help="Name of the node, such as rabbit@host.")
@click.option("--host", help="Address to listen at (default: all).")
@click.option("--port", type=int, help="Port for AMQP (default 5672).")
@click.option("--http-port", type=int, help="Port for the management API (default 15672).")
def server(file: Path | None, data_dir: Path | None, node_name: str | None, host: str | None, port: int | None,
           http_port: int | None) -> None:
    """Run one node."""
    options = {"data_dir": data_dir, "node_name": node_name, "host": host, "port": port, "http_port": http_port}
    try:
        config = load_config(file, os.environ, options)
    except ConfigError as problems:
        raise SystemExit(_complaint(str(problems))) from None
    _start_logging(config)
    sys.setswitchinterval(0.0002)
    try:
        uvloop.run(_serve(config))
    except (StartError, MetaStoreError, LogError, TlsError) as fault:
        raise SystemExit(_complaint(str(fault))) from None


def _complaint(text: str) -> str:
    return f"mirrormq cannot start:\n{text}"


def _start_logging(config: NodeConfig) -> None:
    handlers: list[logging.Handler] = []
    if config.log_console or not config.log_file:
        console = logging.StreamHandler(sys.stderr)
        console.setLevel(_level(config.log_console_level))
        handlers.append(console)
    if config.log_file:
        path = (config.log_dir or config.data_dir) / config.log_file
        path.parent.mkdir(parents=True, exist_ok=True)
        file = RotatingFileHandler(path, maxBytes=config.log_file_rotation_size, backupCount=config.log_file_rotation_count,
                                   encoding="utf-8", errors="backslashreplace")     # names may be any bytes
        file.setLevel(_level(config.log_file_level))
        handlers.append(file)
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] %(message)s"))
    logging.basicConfig(level=min(handler.level for handler in handlers), handlers=handlers)


def _level(name: str) -> int:
    """RabbitMQ's levels; `none` is above everything that is ever said."""
    if name == "none":
        return logging.CRITICAL + 1
    return logging.getLevelNamesMapping().get(name.upper(), logging.INFO)


def _not_enforced(config: NodeConfig) -> list[str]:
    """Limits that are understood and not enforced yet: nobody should think they hold."""
    names = ("vhost_max", "channel_max_per_node", "consumer_max_per_channel", "cluster_queue_limit")
    return [f"the limit {name} is not enforced in this release" for name in names if getattr(config, name) is not None]


async def _serve(config: NodeConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    runtime = Runtime(config)
    await runtime.start()
    door = Door(runtime)
    try:
        await door.load_definitions()
        await runtime.listen()
        await door.open()
    except StartError:
        await door.close()
        await runtime.stop()
        raise
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    log.info("MirrorMQ %s (%s) runs as %s", __version__, "compiled" if is_compiled() else "not compiled", config.node_name)
    for note in (*config.notes, *_not_enforced(config)):
        log.warning("%s", note)
    for protocol, address, number in runtime.addresses:
        log.info("listening for %s at %s:%d", protocol, address, number)
    await stop.wait()
    log.info("stopping")
    await door.close()
    await runtime.stop()
    log.info("stopped")
