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

from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import Failure
from mirrormq.cli.ctl.users import add_user

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


def test_a_node_that_does_not_answer_in_time_is_told_as_rabbitmqctl_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for timeout, milliseconds in (("0", 0), ("1", 1000)):
            done = ctl("--url", url, "--timeout", timeout, "list_users")
            assert (done.code, done.err) == (
                75, f"Error: operation list_users on node {url} timed out. Timeout value used: {milliseconds}\n")
        pinged = ctl("--url", url, "--timeout", "0", "ping")
        assert (pinged.code, pinged.err) == (69, f"Error:\nFailed to connect and authenticate to {url} in 0 ms\n")


@pytest.mark.parametrize("name", ["nope.pem", "empty.pem"])
def test_certificates_that_cannot_be_used_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.pem").touch()
    done = ctl("--url", "https://127.0.0.1:1", "--cacertfile", str(tmp_path / name), "status")
    assert (done.code, f"--cacertfile {tmp_path / name} cannot be used: " in done.err) == (64, True)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"[" * 200_000], ids=["no text", "deep"])
def test_definitions_that_are_no_json_are_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "defs.json").write_bytes(content)
    done = ctl("--url", "http://127.0.0.1:1", "import_definitions", str(tmp_path / "defs.json"))
    assert (done.code, done.err.startswith("Error:\nFailed to deserialise input (format: JSON)")) == (65, True)


def test_nobody_has_to_give_input() -> None:
    words = ("--url", "http://127.0.0.1:1", "add_user", "somebody")
    line = (sys.executable, "-m", "mirrormq.cli.ctl", *words)
    done = subprocess.run(["/bin/sh", "-c", '"$@" <&-', "sh", *line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (65, "Error:\nPassword is not provided via argument or stdin\n")


def test_a_terminal_may_lack_a_letter() -> None:
    done = ctl("--url", "http://127.0.0.1:1", "add_user", "a→b", "", env={"PYTHONIOENCODING": "ascii"})
    assert (done.code, "Traceback" in done.err) == (69, False)


def test_who_ends_the_input_instead_of_a_password_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", ended)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    with pytest.raises(Failure, match="Password is not provided via argument or stdin"):
        add_user(Context(["somebody"], {"url": "http://127.0.0.1:1"}))
