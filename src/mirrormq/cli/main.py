"""`mirrormq`: the server and the tools around it."""
from __future__ import annotations

import click

from mirrormq import __version__
from mirrormq.cli.lake import lake
from mirrormq.cli.local.command import cluster
from mirrormq.cli.perf.command import perf
from mirrormq.cli.server import server


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mirrormq")
def main() -> None:
    """MirrorMQ: a message broker with mirrored queues that speaks AMQP 0-9-1."""


main.add_command(server)
main.add_command(cluster)
main.add_command(perf)
main.add_command(lake)


if __name__ == "__main__":
    main()
