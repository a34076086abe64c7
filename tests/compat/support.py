"""Support for the compatibility tests: a broker under test and small helpers.

Rules: a test talks to the broker only through AMQP, the management HTTP API and signals to its process. It never
imports the product. `MIRRORMQ_COMPAT_URL` (for example amqp://guest:guest@127.0.0.1:5672/) points the same tests at
another broker whose management API listens on its AMQP port plus 10000; what needs the process is skipped there.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json as jsonlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

EXTERNAL_URL = os.environ.get("MIRRORMQ_COMPAT_URL", "")
HTTP_PORT_OFFSET = 10000
PATIENCE = 60.0
"""Seconds until a poll gives up. A poll that succeeds costs nothing, and the machine may be busy with much else."""
PATIENT = {"socket_timeout": PATIENCE, "stack_timeout": PATIENCE}
"""Parameters of pika's connections: it gives up a greeting after 15 seconds otherwise."""
START_DEADLINE = 90.0
STOP_DEADLINE = 90.0

own_server_only = pytest.mark.skipif(bool(EXTERNAL_URL), reason="only on a server process of our own")


class ApiError(Exception):
    """The management API answered with a status of 400 or more."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


def unique(prefix: str = "test") -> str:
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def quote(text: str) -> str:
    """One segment of an HTTP path: also "/" is escaped."""
    return urllib.parse.quote(text, safe="")


def eventually(predicate: Callable[[], T], within: float = PATIENCE, every: float = 0.02) -> T:
    """Poll until the predicate is true and return its value; the last value or AssertionError is shown on failure."""
    deadline = time.monotonic() + within
    while True:
        failure: AssertionError | None = None
        value: T | None = None
        try:
            value = predicate()
            if value:
                return value
        except AssertionError as error:
            failure = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s; last value {value!r}") from failure
        time.sleep(every)


def taken(channel: Any, queue: str) -> list[bytes]:
    """The bodies of all ready messages of the queue, in order, through a pika channel."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def own_queue(channel: Any, exchange: str, *keys: str, arguments: dict[str, Any] | None = None) -> str:
    """An exclusive queue with a name of the server's, bound to the exchange with each of these keys."""
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    for key in keys:
        channel.queue_bind(queue, exchange, key, arguments)
    return queue


def free_port() -> int:
    """Below those that the kernel gives to outgoing connections: one of these could take it before the server does."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("0.0.0.0", port))
            reserve(port)
            return port


def reserve(port: int) -> None:
    """No other test of this user gets it while this process lives; raises OSError where another has it."""
    directory = Path(tempfile.gettempdir()) / f"mirrormq-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    file = os.open(directory / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise


class Broker:
    """Where the broker under test listens, and its management API."""

    external = True

    def __init__(self, host: str, port: int, http_port: int, user: str, password: str) -> None:
        self.host = host
        self.port = port
        self.http_port = http_port
        self.user = user
        self.password = password

    def url(self, vhost: str = "/", *, user: str | None = None, password: str | None = None, query: str = "") -> str:
        name = quote(user or self.user)
        word = quote(password or self.password)
        return f"amqp://{name}:{word}@{self.host}:{self.port}/{quote(vhost)}{query}"

    def api(
        self, method: str, path: str, json: Any = None, *, user: str | None = None, password: str | None = None
    ) -> Any:
        """Call the management API, for example api("PUT", "/api/vhosts/x"); the answer is decoded JSON or None."""
        request = urllib.request.Request(f"http://{self.host}:{self.http_port}{path}", method=method)
        login = f"{user or self.user}:{password or self.password}".encode()
        request.add_header("Authorization", "Basic " + base64.b64encode(login).decode())
        if json is not None:
            request.data = jsonlib.dumps(json).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return _decoded(answer.read())
        except urllib.error.HTTPError as error:
            raise ApiError(error.code, _decoded(error.read())) from None

    def add_vhost(self, name: str, *, grant_to: str | None = None) -> None:
        self.api("PUT", f"/api/vhosts/{quote(name)}", {})
        self.grant(name, grant_to or self.user)

    def delete_vhost(self, name: str) -> None:
        self.api("DELETE", f"/api/vhosts/{quote(name)}")

    def add_user(self, name: str, password: str = "secret", tags: str = "") -> None:
        self.api("PUT", f"/api/users/{quote(name)}", {"password": password, "tags": tags})

    def delete_user(self, name: str) -> None:
        self.api("DELETE", f"/api/users/{quote(name)}")

    def grant(self, vhost: str, user: str, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        body = {"configure": configure, "write": write, "read": read}
        self.api("PUT", f"/api/permissions/{quote(vhost)}/{quote(user)}", body)

    def set_policy(
        self,
        vhost: str,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        *,
        apply_to: str = "all",
        priority: int = 0,
    ) -> None:
        body = {"pattern": pattern, "definition": definition, "apply-to": apply_to, "priority": priority}
        self.api("PUT", f"/api/policies/{quote(vhost)}/{quote(name)}", body)

    def clear_policy(self, vhost: str, name: str) -> None:
        self.api("DELETE", f"/api/policies/{quote(vhost)}/{quote(name)}")

    def start(self) -> None:
        pytest.skip("an external broker is not started by tests")

    def stop(self) -> None:
        pytest.skip("an external broker is not stopped by tests")

    def restart(self) -> None:
        pytest.skip("an external broker is not restarted by tests")

    def kill(self) -> None:
        pytest.skip("an external broker is not killed by tests")


class ServerProcess(Broker):
    """A server process of our own; ports and data directory stay the same when it is started again."""

    external = False

    def __init__(self, directory: Path, *options: str) -> None:
        super().__init__("127.0.0.1", free_port(), free_port(), "guest", "guest")
        self.directory = directory
        self.options = options
        self.log_path = directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "mirrormq.cli.main", "server"),
            *("--data-dir", str(self.directory / "data"), "--node-name", "rabbit@compat"),
            *("--port", str(self.port), "--http-port", str(self.http_port)),
            *self.options,
        ]

    def start(self) -> None:
        assert self.process is None, "already started"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT)
        try:
            eventually(self._serves, within=START_DEADLINE)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask the server to end, and check that it ended well and never logged a traceback."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop in {STOP_DEADLINE} s\n{self.log()}") from None
        self.process = None
        assert code == 0, f"the server ended with {code}\n{self.log()}"
        assert "Traceback" not in self.log(), self.log()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None, "not started"
        self.process.kill()
        self.process.wait()
        self.process = None

    def leave_nothing(self) -> None:
        """However its test has ended."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def _serves(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended with {self.process.returncode} while starting\n{self.log()}")
        return _accepts(self.host, self.port) and _accepts(self.host, self.http_port)


def external_broker(url: str) -> Broker:
    parts = urllib.parse.urlsplit(url)
    port = parts.port or 5672
    host, user, password = parts.hostname or "127.0.0.1", parts.username or "guest", parts.password or "guest"
    return Broker(host, port, port + HTTP_PORT_OFFSET, user, password)


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def _decoded(body: bytes) -> Any:
    if not body:
        return None
    try:
        return jsonlib.loads(body)
    except ValueError:
        return body.decode(errors="replace")
