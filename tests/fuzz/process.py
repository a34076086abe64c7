"""A server process under attack: started for the purpose, watched from outside, asked at the end whether it is well."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pika  # type: ignore[import-untyped]

from compat.support import free_port
from mirrormq.wire.frames import Frame, FrameReader

from .world import Violation

START_DEADLINE = 90.0
STOP_DEADLINE = 90.0
PATIENCE = 60.0
BAD_WORDS = re.compile(
    r"Traceback|a fault in the broker|Logging error|Exception|INTERNAL_ERROR|never retrieved|Task was destroyed"
)
LISTENING = "0A"
NO_OWNER = "0"
CONFIG = "handshake_timeout = 4000\nloopback_users = none\nlog.file = node.log\n"


class Server:
    def __init__(self, directory: Path, config: str = CONFIG) -> None:
        self.port = free_port()
        self.logs = [directory / "server.log", directory / "data" / "node.log"]
        file = directory / "fuzz.conf"
        file.write_text(config)
        command = [
            *(sys.executable, "-m", "mirrormq.cli.main", "server", "--config", str(file)),
            *("--data-dir", str(directory / "data"), "--node-name", "rabbit@fuzz"),
            *("--port", str(self.port), "--http-port", str(free_port())),
        ]
        with self.logs[0].open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._wait_until_it_serves()

    def _wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while True:
            if self.process.poll() is not None:
                raise Violation(f"the server ended with {self.process.returncode} while starting\n{self.log()}")
            try:
                self.connect().close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def connect(self, timeout: float = PATIENCE) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def log(self) -> str:
        """What it said on its standard output, and in its log file."""
        return "\n".join([path.read_text(errors="replace") for path in self.logs if path.exists()])

    def resident(self) -> int:
        """Octets of memory that the process holds."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def open_sockets(self) -> int:
        """Sockets of clients that the process holds."""
        tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables for line in table]
        return sum(1 for row in rows if row[1].endswith(f":{self.port:04X}") and row[3] != LISTENING and row[9] != NO_OWNER)

    def wait_until_alone(self, seconds: float) -> None:
        """All clients' sockets are closed."""
        until(lambda: self.open_sockets() == 0, seconds, "sockets of clients are kept")

    def check_alive(self) -> None:
        """An ordinary client is served, and the log shows no fault."""
        if self.process.poll() is not None:
            raise Violation(f"the server ended with {self.process.returncode}\n{self.log()[-5000:]}")
        self._ordinary_client()
        found = BAD_WORDS.search(self.log())
        if found is not None:
            raise Violation(f"the log speaks of a fault:\n{self.log()[max(0, found.start() - 500) : found.start() + 3000]}")

    def _ordinary_client(self) -> None:
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, socket_timeout=PATIENCE, stack_timeout=PATIENCE)
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("ordinary", durable=True)
        channel.basic_publish("", "ordinary", b"hello", pika.BasicProperties(delivery_mode=2), mandatory=True)
        method, _, body = channel.basic_get("ordinary")
        if method is None or body != b"hello":
            raise Violation("an ordinary client was not served")
        channel.basic_ack(method.delivery_tag)
        channel.queue_delete("ordinary")
        connection.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Violation(f"the server did not stop in {STOP_DEADLINE} s") from None
        if code != 0 or BAD_WORDS.search(self.log()):
            raise Violation(f"the server ended with {code}\n{self.log()[-5000:]}")


def until(condition: Callable[[], bool], seconds: float, sentence: str) -> None:
    """Wait for a condition, or say what did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Violation(sentence)
        time.sleep(0.05)


def read_to_the_end(peer: socket.socket, seconds: float = PATIENCE) -> bytes:
    """Everything the server says until it closes the socket."""
    deadline = time.monotonic() + seconds
    pieces: list[bytes] = []
    while True:
        peer.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            data = peer.recv(1 << 16)
        except TimeoutError:
            raise Violation(f"the server kept a socket open for {seconds} s") from None
        except ConnectionResetError:
            return b"".join(pieces)
        if not data:
            return b"".join(pieces)
        pieces.append(data)


def frames_of(data: bytes) -> list[Frame]:
    return FrameReader(0).feed(data[8:] if data[:4] == b"AMQP" else data)
