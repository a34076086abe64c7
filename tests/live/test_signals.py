"""What a node does when it is told to end: by SIGTERM, by Ctrl-C, by a terminal that is closed, once or twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from compat.support import STOP_DEADLINE, ServerProcess, eventually

pytestmark = pytest.mark.live


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Started by the test."""
    own = ServerProcess(tmp_path)
    yield own
    own.leave_nothing()


@pytest.mark.usefixtures("heard_signals")
@pytest.mark.parametrize("kinds", [(signal.SIGHUP,), (signal.SIGINT,), (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP)])
def test_clients_are_told_and_the_node_ends_cleanly(server: ServerProcess, kinds: tuple[signal.Signals, ...]) -> None:
    server.start()
    eventually(lambda: "runs as rabbit@compat" in server.log())     # a start that is given up has no word for anybody
    process = server.process
    assert process is not None
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port, socket_timeout=60))
    for kind in kinds:
        process.send_signal(kind)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as told:
        connection.process_data_events(time_limit=60)
    assert told.value.reply_code == 320
    assert process.wait(STOP_DEADLINE) == 0, server.log()
    assert server.log().rstrip().endswith("stopped")
    assert "Traceback" not in server.log()


def test_a_node_that_nohup_started_outlives_its_terminal(server: ServerProcess) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)       # as nohup does; what is started now inherits it
    try:
        server.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port, socket_timeout=60))
    connection.channel().queue_declare("q")
    connection.close()
    assert server.process.poll() is None
    server.stop()
