"""`mirrormq`: the server and the tools around it. Each is loaded when asked for: a short command should not wait for a broker."""
from __future__ import annotations

import importlib
from typing import Final

import click

from mirrormq import __version__

PLACES: Final = {
    "cluster": "mirrormq.cli.local.command",
    "lake": "mirrormq.cli.lake",
    "perf": "mirrormq.cli.perf.command",
    "server": "mirrormq.cli.server",
}


class Tools(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PLACES:
            return None
        command = getattr(importlib.import_module(PLACES[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=Tools, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mirrormq")
def main() -> None:
    """MirrorMQ: a message broker with mirrored queues that speaks AMQP 0-9-1."""


if __name__ == "__main__":
    main()
