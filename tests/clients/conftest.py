"""Fixtures of the client tests: the broker, its vhost and connections are those of the compatibility tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat.conftest import broker, channel, connect, connection, vhost
from compat.support import ServerProcess

__all__ = ["Serve", "broker", "channel", "connect", "connection", "serve", "vhost"]

Serve = Callable[..., ServerProcess]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """serve(config, directory=...) starts one more server of our own, with this text as its configuration file."""
    with ExitStack() as servers:

        def start(config: str = "", *, directory: Path | None = None) -> ServerProcess:
            place = directory or tmp_path / "server"
            place.mkdir(exist_ok=True)
            file = place / "test.conf"
            file.write_text(config)
            server = ServerProcess(place, "--config", str(file))
            servers.callback(server.stop)
            server.start()
            return server

        yield start
