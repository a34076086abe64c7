"""What a command works with: its arguments, the node, and where its words go."""

from __future__ import annotations

from typing import Any

from mirrormq.cli.ctl.client import Client, part
from mirrormq.cli.ctl.faults import no_vhost
from mirrormq.cli.ctl.grammar import Values
from mirrormq.cli.ctl.output import Output


class Context:
    def __init__(self, args: list[str], values: Values) -> None:
        self.args = args
        self.values = values
        self.client = Client(values)
        self.out = Output(
            self.text("formatter"), is_quiet="quiet" in values, is_silent="silent" in values,
            has_headers="no-table-headers" not in values)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str) -> bool:
        return self.values.get(name) is True

    @property
    def vhost(self) -> str:
        return self.text("vhost") or "/"

    @property
    def vhost_part(self) -> str:
        return part(self.vhost)

    @property
    def node(self) -> str:
        return self.client.node

    def arg(self, at: int) -> str:
        return self.args[at]

    def require_vhost(self) -> None:
        if not self.client.exists(f"/api/vhosts/{self.vhost_part}"):
            raise no_vhost(self.vhost)

    def done(self, **more: Any) -> None:
        """The change is made; only JSON says so."""
        if self.out.is_json:
            self.out.document({"node": self.node, "result": "ok", **more})
