"""`mirrormq lake`: found by its module's name when it is asked for, because it needs packages that a broker does not."""

from __future__ import annotations

import importlib
from typing import Final

import click

MODULE: Final = "mirrormq.lake.command"


class LateGroup(click.Group):
    """Loads the commands when one of them, or their help, is wanted."""

    def _loaded(self) -> click.Group:
        group = importlib.import_module(MODULE).lake
        assert isinstance(group, click.Group)
        return group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._loaded().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._loaded().get_command(ctx, cmd_name)


lake: Final = LateGroup("lake", help="Mirror queues into a lake with Spark, and restore, verify, report and query from it.")
