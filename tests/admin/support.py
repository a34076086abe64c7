"""Support for the admin tests: a real node, requests to its management API, and the real `mirrormqctl` command."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from compat.support import PATIENCE, ServerProcess, quote

NODE = "admin@localhost"


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]


class Node(ServerProcess):
    """`api` of the base raises on refusals; `ask` returns whatever the node answers."""

    def __init__(self, directory: Path, *options: str, name: str = NODE) -> None:
        super().__init__(directory, *options)
        self.name = name

    def command(self) -> list[str]:
        return [self.name if word == "rabbit@compat" else word for word in super().command()]

    def ask(
        self, method: str, path: str, body: Any = None, *, user: str | None = "guest", password: str | None = None,
        headers: Mapping[str, str] | None = None, raw: bytes | None = None,
    ) -> Reply:  # fmt: skip
        sent = dict(headers or {})
        if user is not None:
            login = f"{user}:{password or user}".encode()
            sent.setdefault("Authorization", "Basic " + base64.b64encode(login).decode())
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.http_port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=data, headers=sent)
            answer = connection.getresponse()
            text = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()
        return Reply(answer.status, _decoded(text), found)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.http_port}"

    def ctl(self, *words: str, stdin: str = "", by: tuple[str, ...] | None = None) -> Finished:
        """Run mirrormqctl for this node, which it finds by name unless `by` says how."""
        return ctl(*(("-n", self.name) if by is None else by), *words, stdin=stdin)


class Finished(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def ctl(*words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Finished:
    done = subprocess.run(
        [sys.executable, "-m", "mirrormq.cli.ctl", *words], input=stdin, capture_output=True, text=True, timeout=180,
        env=os.environ | dict(env or {}), check=False)
    return Finished(done.returncode, done.stdout, done.stderr)


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")


def refusal(reason: Any, error: str = "bad_request") -> dict[str, Any]:
    return {"error": error, "reason": reason}


NOT_FOUND = refusal("Not Found", "Object Not Found")

__all__ = ["NODE", "NOT_FOUND", "Finished", "Node", "Reply", "ctl", "quote", "refusal"]
