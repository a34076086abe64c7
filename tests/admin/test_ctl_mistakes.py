"""mirrormqctl where nobody, or somebody else, answers, and where its output cannot be written."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .support import ctl

HELP = (sys.executable, "-c", "from mirrormq.cli.ctl import main; main(['help'])")


@contextmanager
def answering(words: bytes) -> Iterator[int]:
    """Somebody who says the same to everybody, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            with listener.accept()[0] as client:
                client.recv(4096)
                client.sendall(words)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(60)


@pytest.mark.parametrize("url", ["http://[::1", "ftp://localhost", "http://localhost:port", "http://localhost/ä", "http://rabbit..local"])
def test_what_is_no_address_is_told(url: str) -> None:
    done = ctl("--url", url, "status")
    assert (done.code, "is not an address" in done.err, "Traceback" in done.err) == (64, True, False)


@pytest.mark.parametrize(("words", "reason"), [
    (b"AMQP\x00\x00\x09\x01", "what answers there does not speak HTTP; is it the port of the management API?"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<>", "no node answers there: 200 without JSON"),
])  # fmt: skip
def test_who_is_no_node_is_told(words: bytes, reason: str) -> None:
    with answering(words) as port:
        done = ctl("--url", f"http://127.0.0.1:{port}", "status")
    assert (done.code, f"reason: {reason}\n" in done.err) == (69, True)


def test_a_full_disk_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(HELP, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (74, "Error:\nthe output cannot be written: No space left on device\n")


def test_nobody_has_to_listen() -> None:
    done = subprocess.run(["/bin/sh", "-c", '"$@" >&-', "sh", *HELP], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
