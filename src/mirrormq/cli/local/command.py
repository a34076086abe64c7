"""`mirrormq cluster`: the commands."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click
from rich.console import Console

from mirrormq.cli.local import operate, plan, processes
from mirrormq.cli.local.advice import next_steps
from mirrormq.cli.local.mirrored import MIRRORED, mirror_everything
from mirrormq.cli.local.plan import Plan, PlanError, Wish

DEFAULTS: Final = (3, 5671)
directory = click.option("--dir", "where", type=click.Path(path_type=Path), required=True, help="Where the cluster is kept.")


class Voice(Console):
    """The nodes are seen to although nobody hears any more: a terminal was closed, or the reader of a pipe has had enough."""

    def on_broken_pipe(self) -> None:
        with suppress(SystemExit):
            super().on_broken_pipe()


console = Voice(highlight=False, soft_wrap=True)


@click.group()
def cluster() -> None:
    """Several nodes on this machine that are one cluster."""


def _tells(command: Callable[..., None]) -> Callable[..., None]:
    """What cannot be is told in a sentence."""

    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except PlanError as fault:
            raise SystemExit(f"mirrormq cluster: {fault}") from None

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined] # click's own place for options
    return run


def _say(text: str) -> None:
    try:
        console.print(text, markup=False)
    except OSError:
        console.on_broken_pipe()


@cluster.command()
@_tells
@click.option("--nodes", type=int, help=f"How many (default {DEFAULTS[0]}, or as many as there are).")
@directory
@click.option("--base-port", type=int, help=f"Node i serves AMQP at this + i, HTTP at this + 10000 + i (default {DEFAULTS[1]}).")
@click.option("--names", default="", help="Names of the nodes, with commas between them (default rabbit1@localhost, …).")
@click.option("--coordination", default="", help="Where the nodes agree: sqlite (default), or etcd:URL,URL,…")
@click.option("--host", default="", help="Address to listen at for AMQP (default: all).")
@click.option("--config", default="", help="A configuration file for every node.")
@click.option("--mirrored", is_flag=True, help=f"Give a new cluster the policy {MIRRORED}: every queue on all nodes.")
@click.option("--detach", is_flag=True, help="Return when the nodes serve; they go on.")
def up(where: Path, *, nodes: int | None, base_port: int | None, names: str, coordination: str, host: str, config: str,
       mirrored: bool, detach: bool) -> None:
    """Start the nodes, or those of them that are stopped. Ctrl-C stops them all."""
    if nodes is not None and nodes < 1:
        raise PlanError(f"a local cluster has 1 to {plan.MOST} nodes, not {nodes}")
    wish = Wish(nodes, base_port, [name.strip() for name in names.split(",") if name.strip()], coordination, host,
                str(Path(config).resolve()) if config else "")
    settled = plan.settle(where, wish, DEFAULTS, processes.is_up)
    operate.check(settled, settled.nodes)
    is_to_mirror = mirrored and plan.find(where) is None
    operate.prepare(settled)
    if detach:
        _bring_up(settled, is_to_mirror=is_to_mirror)
        _say(f"\n{next_steps(settled, is_detached=True)}")
    else:
        _stay(settled, is_to_mirror=is_to_mirror)


def _bring_up(settled: Plan, *, is_to_mirror: bool) -> operate.Children:
    count = len(settled.nodes)
    _say(f"Starting {count} node{'s' if count > 1 else ''} in {settled.directory}")
    with console.status("waiting for the nodes to serve …"):
        children = operate.bring_up(settled, settled.nodes, _say)
    if is_to_mirror:
        mirror_everything(settled)
        _say(f"policy {MIRRORED} is set: every queue is mirrored on all nodes")
    return children


def _stay(settled: Plan, *, is_to_mirror: bool) -> None:
    """In the foreground, until Ctrl-C or the last node's end."""
    with _signals_interrupt():
        children: operate.Children = {}
        try:
            children = _bring_up(settled, is_to_mirror=is_to_mirror)
            _say(f"\n{next_steps(settled, is_detached=False)}\n")
            operate.watch(settled, children, _say)
            _say("No node is left.")
        except KeyboardInterrupt:
            _say("\nStopping the nodes; their data stays.")
            operate.take_down(settled, settled.nodes, _say)
        finally:
            operate.reap(children)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """To end the command in another way than by Ctrl-C stops the nodes too."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@cluster.command()
@_tells
@directory
@click.option("--json", "as_json", is_flag=True, help="A list of objects: name, pid, amqp_port, http_port, state.")
def status(where: Path, *, as_json: bool) -> None:
    """Show the nodes: running, starting or stopped."""
    found = operate.statuses(plan.read(where))
    if as_json:
        click.echo(json.dumps([each._asdict() for each in found]))
        return
    width = max(len(each.name) for each in found)
    for each in found:
        process = f"process {each.pid}" if each.pid is not None else ""
        click.echo(f"{each.name:{width}}  {each.state:11}  AMQP {each.amqp_port:5}  HTTP {each.http_port:5}  {process}".rstrip())


@cluster.command()
@_tells
@directory
def down(where: Path) -> None:
    """Stop all nodes cleanly; their data stays."""
    found = plan.read(where)
    operate.take_down(found, found.nodes, _say)


@cluster.command("stop-node")
@_tells
@click.argument("name")
@directory
def stop_node(name: str, where: Path) -> None:
    """Stop one node cleanly."""
    found = plan.read(where)
    operate.take_down(found, [found.node(name)], _say)


@cluster.command("kill-node")
@_tells
@click.argument("name")
@directory
def kill_node(name: str, where: Path) -> None:
    """Kill one node (kill -9), to see what the others do."""
    found = plan.read(where)
    node = found.node(name)
    _say(f"{node.name} {'has been killed' if operate.kill(found, node) else 'was not running'}")


@cluster.command("restart-node")
@_tells
@click.argument("name")
@directory
def restart_node(name: str, where: Path) -> None:
    """Stop one node cleanly if it runs, and start it."""
    found = plan.read(where)
    node = found.node(name)
    operate.take_down(found, [node], _say)
    operate.bring_up(found, [node], _say)

