"""A local cluster for tests: real nodes as real processes, started by `mirrormq cluster up` as a user would.

    with LocalCluster(tmp_path, nodes=3) as cluster:
        pika.BlockingConnection(pika.URLParameters(cluster.url(0)))
        cluster.kill(1)
        cluster.restart(1)
        cluster.await_all()

Nodes are named by their number, from 0, or by their name. At the end all nodes are stopped, and none may have logged a traceback.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from compat.support import eventually, reserve

PATIENCE = 90.0
COMMAND_PATIENCE = 240.0
HTTP_ABOVE = 10_000


class Finished(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def free_base_port(nodes: int) -> int:
    """A base port above which all ports of so many nodes are free just now."""
    while True:
        base = random.randrange(10_000, 20_000)
        if all(_is_free(base + number + above) for number in range(1, nodes + 1) for above in (0, HTTP_ABOVE)):
            return base


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            reserve(port)
        except OSError:
            return False
    return True


class LocalCluster:
    """`names` may be fewer than `nodes`; `options` go to `mirrormq cluster up`. `run` is where nodes and tools meet."""

    def __init__(self, directory: Path, nodes: int = 3, coordination: str = "", names: Sequence[str] = (),
                 options: Sequence[str] = (), run: Path | None = None) -> None:
        self.directory = directory / "cluster"
        self.count = max(nodes, len(names))
        self.base_port = free_base_port(self.count)
        self.names = [*names, *(f"rabbit{number}@localhost" for number in range(len(names) + 1, self.count + 1))]
        self.may_fail = False           # a test that breaks things on purpose allows tracebacks in the logs
        self._env = {name: value for name, value in os.environ.items() if name != "MIRRORMQ_COOKIE"}
        self._env["MIRRORMQ_RUN_DIR"] = str(run or directory / "run")
        self._options = [*(("--names", ",".join(names)) if names else ()),
                         *(("--coordination", coordination) if coordination else ()), *options]

    def __enter__(self) -> Self:
        try:
            self.up()
            self.await_all()
        except BaseException:
            self.run("down")
            print(self.logs()[-20_000:])
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        done = self.run("down")
        if kind is None:
            assert done.code == 0, done.err
            assert "killed" not in done.out, done.out
            assert self.may_fail or "Traceback" not in self.logs(), self.logs()
        else:
            print(self.logs()[-20_000:])        # beside the failure

    # --- the cluster's commands ------------------------------------------------------------------------------------

    def run(self, *words: str) -> Finished:
        """mirrormq cluster …"""
        return self._command("mirrormq.cli.main", "cluster", *words, "--dir", str(self.directory))

    def ctl(self, node: int | str, *words: str) -> Finished:
        """mirrormqctl -n NODE …"""
        return self._command("mirrormq.cli.ctl", "-n", self.name(node), *words)

    def must(self, node: int | str, *words: str) -> Finished:
        done = self.ctl(node, *words)
        assert done.code == 0, f"{' '.join(words)} at {self.name(node)}: {done.out}{done.err}"
        return done

    def _command(self, module: str, *words: str) -> Finished:
        done = subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, env=self._env,
                              timeout=COMMAND_PATIENCE, check=False)
        return Finished(done.returncode, done.stdout, done.stderr)

    def up(self) -> Finished:
        done = self.run("up", "--nodes", str(self.count), "--base-port", str(self.base_port), "--detach", *self._options)
        assert done.code == 0, done.out + done.err
        return done

    def status(self) -> list[dict[str, Any]]:
        done = self.run("status", "--json")
        assert done.code == 0, done.err
        found: list[dict[str, Any]] = json.loads(done.out)
        return found

    # --- one node ----------------------------------------------------------------------------------------------------

    def number(self, node: int | str) -> int:
        return node if isinstance(node, int) else self.names.index(node)

    def name(self, node: int | str) -> str:
        return self.names[node] if isinstance(node, int) else node

    def port(self, node: int | str) -> int:
        return self.base_port + self.number(node) + 1

    def url(self, node: int | str, vhost: str = "/", user: str = "guest", password: str = "guest") -> str:
        """For pika and aio-pika."""
        return f"amqp://{user}:{password}@127.0.0.1:{self.port(node)}/{quote(vhost, safe='')}"

    def pid(self, node: int | str) -> int | None:
        found: int | None = self.status()[self.number(node)]["pid"]
        return found

    def log(self, node: int | str) -> str:
        path = self.directory / f"{self.name(node)}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{self.log(name)}" for name in self.names)

    def stop(self, node: int | str) -> None:
        self._on_node("stop-node", node)

    def kill(self, node: int | str) -> None:
        """kill -9."""
        self._on_node("kill-node", node)

    def restart(self, node: int | str) -> None:
        """Stop it if it runs, start it, wait until it serves."""
        self._on_node("restart-node", node)

    def _on_node(self, command: str, node: int | str) -> None:
        done = self.run(command, self.name(node))
        assert done.code == 0, done.out + done.err

    def freeze(self, node: int | str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int | str) -> None:
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: int | str, number: signal.Signals) -> None:
        pid = self.pid(node)
        assert pid is not None, f"{self.name(node)} does not run"
        os.kill(pid, number)

    # --- what the nodes say --------------------------------------------------------------------------------------------

    def api(self, node: int | str, method: str, path: str, body: Any = None, *, user: str = "guest") -> Any:
        """The answer of the management API; AssertionError if it refuses."""
        status, answer = self.ask(node, method, path, body, user=user)
        assert status < 400, f"{method} {path} at {self.name(node)}: {status} {answer}"
        return answer

    def ask(self, node: int | str, method: str, path: str, body: Any = None, *, user: str = "guest") -> tuple[int, Any]:
        login = base64.b64encode(f"{user}:{user}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port(node) + HTTP_ABOVE, timeout=PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Basic {login}"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text else None

    def sees(self, node: int | str) -> list[str]:
        """The nodes that this one counts as up and is linked to, itself among them; nobody while it does not answer."""
        try:
            status, told = self.ask(node, "GET", "/api/cluster")
        except (OSError, http.client.HTTPException):
            return []
        return [name for name in told["running"] if name in told["linked"]] if status == 200 else []

    def await_all(self, nodes: Sequence[int | str] | None = None, within: float = PATIENCE) -> None:
        """Until these nodes, or all, see each other and nobody else."""
        names = sorted(self.name(node) for node in (range(self.count) if nodes is None else nodes))
        eventually(lambda: all(self.sees(name) == names for name in names), within=within, every=0.1)
