"""Where a node keeps its data: also at a path that depends on where the node was started."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from compat.support import PATIENT, START_DEADLINE, ServerProcess, eventually

pytestmark = pytest.mark.live


class RelativeServer(ServerProcess):
    """Started in its folder, with a data directory that is named from there."""

    def command(self) -> list[str]:
        return ["data" if word == str(self.directory / "data") else word for word in super().command()]

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)
        eventually(self._serves, within=START_DEADLINE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    own = RelativeServer(tmp_path)
    yield own
    own.leave_nothing()


def test_a_relative_data_directory_takes_one_commit_after_another(server: ServerProcess) -> None:
    server.start()
    parameters = pika.ConnectionParameters("127.0.0.1", server.port, blocked_connection_timeout=20, **PATIENT)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for _ in range(10):
            channel.basic_publish("", "q", bytes(1 << 20), pika.BasicProperties(delivery_mode=2))
    assert "cannot" not in server.log()
    server.restart()
    with pika.BlockingConnection(parameters) as connection:
        assert connection.channel().queue_declare("q", passive=True).method.message_count == 10
    assert (server.directory / "data" / "log" / "wal").is_dir()
    server.stop()
