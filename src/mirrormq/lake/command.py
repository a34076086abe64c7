"""`mirrormq lake …`: mirror, restore, verify, report, sql. Every fault ends in one sentence and the exit status 1."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mirrormq.lake.engine import check_packages
from mirrormq.lake.errors import LakeError, sentence_of

Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULT_URL = "http://guest:guest@localhost:15672"


def plainly(function: Command) -> Command:
    """One sentence instead of Spark's and Java's pages; MIRRORMQ_TRACEBACK=1 shows them."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            check_packages()
            return function(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, KeyboardInterrupt):
            raise
        except Exception as problem:
            if os.environ.get("MIRRORMQ_TRACEBACK") == "1":
                raise
            click.echo(f"mirrormq lake: {sentence_of(problem)}", err=True)
            sys.exit(1)

    return run  # type: ignore[return-value]


def lake_option(function: Command) -> Command:
    return click.option(
        "--lake",
        "lake",
        required=True,
        metavar="PLACE",
        envvar="MIRRORMQ_LAKE",
        help="A folder, or an object store's URL, below which the tables are.",
    )(_storage(function))


def _storage(function: Command) -> Command:
    return click.option(
        "--storage-option",
        "storage",
        multiple=True,
        metavar="KEY=VALUE",
        help="For object stores, as delta-rs takes them; may be repeated.",
    )(function)


def cluster_options(function: Command) -> Command:
    for option in (
        click.option("--vhost", default="/", show_default=True, help="The virtual host."),
        click.option(
            "--url",
            default=DEFAULT_URL,
            show_default=True,
            envvar="MIRRORMQ_URL",
            metavar="URL[,URL…]",
            help="Management API of a node, or of several; the first that answers is asked.",
        ),
    ):
        function = option(function)
    return function


def engine_option(function: Command) -> Command:
    return click.option(
        "--master",
        default="",
        envvar="MIRRORMQ_SPARK_MASTER",
        metavar="MASTER",
        help="Spark's master; without it, Spark runs in this process.",
    )(function)


def _place(lake: str, storage: tuple[str, ...]) -> Any:
    from mirrormq.lake.tables import Place

    pairs = [text.partition("=") for text in storage]
    return Place.at(lake, {key: value for key, _, value in pairs})


def _spark(master: str) -> Any:
    from mirrormq.lake.engine import session

    return session(master=master)


def _address(url: str, vhost: str) -> Any:
    from mirrormq.lake.client import Address

    return Address.parse(url, vhost)


@click.group()
def lake() -> None:
    """Mirror queues into a lake, and restore, verify, report and query from it."""


@lake.command()
@lake_option
@cluster_options
@engine_option
@click.option("--queues", default=".*", show_default=True, metavar="REGEX", help="Which queues.")
@click.option("--name", default="lake", show_default=True, help="The name under which the mirror is known to the cluster.")
@click.option("--sync-interval", default=10.0, show_default=True, metavar="SECONDS", help="From one sync to the next.")
@click.option("--once", is_flag=True, help="One sync of everything that is there now.")
@click.option(
    "--lease-hours", default=24.0, show_default=True, help="How long what is not yet read is kept for a mirror that is away."
)
@click.option(
    "--refresh-minutes", default=5.0, show_default=True, help="Between two refreshes of 'messages' and 'failovers'; 0 for never."
)
@click.option(
    "--nodes", default="mirrors", show_default=True, metavar="WHICH", help="Who is read first: mirrors, leader, or nodes by name."
)
@click.option("--allow-data-loss", is_flag=True, help="Go on where entries are gone that were never read.")
@click.option("--unregister", is_flag=True, help="Let the cluster forget the mirror afterwards: nothing is kept for it.")
@plainly
def mirror(
    lake: str,
    storage: tuple[str, ...],
    url: str,
    vhost: str,
    master: str,
    queues: str,
    name: str,
    sync_interval: float,
    once: bool,
    lease_hours: float,
    refresh_minutes: float,
    nodes: str,
    allow_data_loss: bool,
    unregister: bool,
) -> None:
    """Mirror queues: everything that is stable, each entry exactly once, again and again."""
    from mirrormq.lake.mirror import Mirror
    from mirrormq.lake.views import refresh

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    place = _place(lake, storage)
    _address(url, vhost)
    job = Mirror(
        _spark(master),
        _address(url, vhost),
        place,
        name,
        queues,
        lease=int(lease_hours * 3_600_000),
        allow_loss=allow_data_loss,
        nodes=nodes,
    )
    job.start()
    refreshed = [float("-inf")]

    def show(progress: Any) -> None:
        if progress.rows or progress.notes or once or sys.stdout.isatty():
            click.echo(f"{time.strftime('%H:%M:%S')}  {progress.sentence()}")
        if refresh_minutes and time.monotonic() - refreshed[0] >= refresh_minutes * 60:
            rows = refresh(job.spark, place)
            refreshed[0] = time.monotonic()
            click.echo(
                f"{time.strftime('%H:%M:%S')}  tables: " + ", ".join(f"{count:,} {table}" for table, count in rows.items())
            )

    if once:
        show(job.sync())
    else:
        job.follow(sync_interval, show)
    if unregister:
        job.client.delete_mirror(name)


@lake.command()
@lake_option
@cluster_options
@engine_option
@click.option("--queue", required=True, help="The queue whose content is restored.")
@click.option(
    "--as-of", metavar="MOMENT", help="2026-05-04T12:00:00Z, or milliseconds since 1970; without it, as the lake has it now."
)
@click.option("--into", metavar="QUEUE", help="Another queue to restore into.")
@click.option("--into-url", metavar="URL", help="Another cluster to restore into.")
@click.option("--into-vhost", metavar="VHOST", help="Another virtual host to restore into.")
@click.option("--preview", "is_preview", is_flag=True, help="Only show what would be restored.")
@click.option("--resume", metavar="RUN", default="", help="Go on with a restore that broke off, by its number.")
@plainly
def restore(
    lake: str,
    storage: tuple[str, ...],
    url: str,
    vhost: str,
    master: str,
    queue: str,
    as_of: str | None,
    into: str | None,
    into_url: str | None,
    into_vhost: str | None,
    is_preview: bool,
    resume: str,
) -> None:
    """Restore a queue as it was: what was ready or unacknowledged at an instant, in order."""
    from mirrormq.lake import restore as restoring
    from mirrormq.lake.options import milliseconds_of

    moment = None if as_of is None else milliseconds_of(as_of)
    target = _address(into_url or url, into_vhost or vhost)
    frame = restoring.content(_spark(master), _place(lake, storage), queue, vhost, moment).cache()
    found = restoring.preview(frame, queue)
    click.echo(found.sentence())
    if is_preview:
        for line in found.first:
            click.echo(line)
        return
    run = resume or os.urandom(6).hex()
    click.echo(f"restoring into queue '{into or queue}'; should this break off, go on with --resume {run}")
    restoring.restore(frame, target, into or queue, run)
    click.echo(f"restored {found.count:,} messages")


@lake.command()
@lake_option
@cluster_options
@engine_option
@click.option("--queues", default=".*", show_default=True, metavar="REGEX", help="Which queues.")
@click.option("--offline", is_flag=True, help="Look at the lake alone, not at the cluster.")
@plainly
def verify(lake: str, storage: tuple[str, ...], url: str, vhost: str, master: str, queues: str, offline: bool) -> None:
    """Compare the lake with the logs and with itself, and the members of rings with each other; names each entry that is missing,
    doubled or different."""
    from mirrormq.lake.members import verify_members
    from mirrormq.lake.verify import verify as compare

    spark, address = _spark(master), None if offline else _address(url, vhost)
    rows, found = compare(spark, _place(lake, storage), address, queues)
    held, unlike = (0, []) if address is None else verify_members(spark, address, queues)
    for finding in found + unlike:
        click.echo(finding.sentence())
    mirrored = f", {held:,} on mirrors" if held else ""
    click.echo(f"{rows:,} entries{mirrored}: {f'{len(found + unlike)} findings' if found or unlike else 'nothing is wrong'}")
    if found or unlike:
        sys.exit(2)


@lake.command()
@lake_option
@engine_option
@click.option(
    "--output", default="lake-report.html", show_default=True, type=click.Path(path_type=Path), help="The file to write."
)
@click.option("--since", metavar="MOMENT", help="Only what happened from then on.")
@click.option("--plan", type=click.Path(path_type=Path), help="Also write the rebalance plan there, as JSON.")
@click.option("--url", default="", metavar="URL", help="The cluster: for redeliveries, lag, leaders and a rebalance plan.")
@click.option("--vhost", default="/", show_default=True, help="Its virtual host.")
@plainly
def report(
    lake: str, storage: tuple[str, ...], master: str, output: Path, since: str | None, plan: Path | None, url: str, vhost: str
) -> None:
    """Write one HTML page about the queues' past: rates, times in queue, redeliveries, dead letters, failovers, hot queues."""
    from mirrormq.lake.options import milliseconds_of
    from mirrormq.lake.report import write_report

    write_report(
        _spark(master),
        _place(lake, storage),
        output,
        None if since is None else milliseconds_of(since),
        plan,
        _address(url, vhost) if url else None,
    )
    click.echo(f"wrote {output}")


@lake.command()
@lake_option
@engine_option
@click.option("--as-of", metavar="MOMENT", help="As the queues were at an instant.")
@click.option("--limit", default=100, show_default=True, help="Rows that are shown at most.")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.argument("query")
@plainly
def sql(lake: str, storage: tuple[str, ...], master: str, as_of: str | None, limit: int, form: str, query: str) -> None:
    """Ask the lake in SQL: the tables are 'events', 'messages' and 'failovers'."""
    from mirrormq.lake.options import milliseconds_of
    from mirrormq.lake.show import show
    from mirrormq.lake.views import register

    spark = _spark(master)
    register(spark, _place(lake, storage), None if as_of is None else milliseconds_of(as_of))
    show(spark.sql(query), limit, form)


__all__ = ["LakeError", "lake"]
