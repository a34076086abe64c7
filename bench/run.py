"""`make bench`: measure our node, beside RabbitMQ where that is installed.

Every scenario is run several times, the brokers in turn (A B A B A B), so that whatever else the machine does befalls
both. Both are up all the time with the same settings; queues are new for each run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.table import Table

import clusters
import rabbitmq
import report
from generators import Amqpload, Generator, Perf
from node import Node
from processes import Failed
from scenarios import Scenario, chosen

HERE = Path(__file__).resolve().parent
BUSY = 1.0
MIRRORED = "persistent-1q-100b,persistent-4q-100b,latency-persistent"
FORWARDED = "persistent-1q-100b"
PIPED_WIDTH = 160
Measurement = Callable[[Path], Iterator[dict[str, Any]]]


class Contender(Protocol):
    """A broker that takes part. `kind` is the type of its queues, where it is not the usual one."""

    port: int
    kind: str

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def version(self) -> str: ...


@click.command(context_settings={"max_content_width": 100})
@click.option("--only", help="Only scenarios whose name contains one of these words, separated by commas.")
@click.option("--runs", type=click.IntRange(min=1), help="Runs of each scenario and broker (3; 1 with --quick).")
@click.option("--seconds", type=click.FloatRange(min=1), help="Seconds of each run (8; 2 with --quick).")
@click.option("--quick", is_flag=True, help="Short runs and a small backlog: does it work, and roughly how fast?")
@click.option("--mirrored", is_flag=True, help="Three nodes, queues mirrored on all; beside RabbitMQ's, and its quorum queues.")
@click.option("--forwarded", is_flag=True, help="Three nodes, clients on one that does not hold the queue; beside RabbitMQ's.")
@click.option("--pure", is_flag=True, help="Measure our node uncompiled, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON report instead of the table.")
@click.option("--tool", metavar="PATH", help="Another load generator, one that takes amqpload's options.")
@click.option("--no-rabbitmq", is_flag=True, help="Our node alone.")
@click.option("--no-management", is_flag=True, help="RabbitMQ without its management plugin (ours always has its API).")
@click.option("--against", metavar="PATH", help="Compare with another build's mirrormq command instead of with RabbitMQ.")
@click.option("--mirrormq", "command", metavar="PATH", help="The mirrormq command (default: beside this Python).")
@click.option("--data", type=click.Path(path_type=Path), default=HERE.parent / ".data", help="Where brokers keep data.")
@click.option("--lake", "is_lake", is_flag=True, help="Measure what Spark gets out of queues instead.")
@click.option("--weight", "is_weight", is_flag=True, help="Measure what a backlog, queues and connections cost instead.")
@click.option("--messages", type=click.IntRange(min=20_000), help="For --lake (1,000,000) and --weight (10,000,000).")
@click.option("--list", "listing", is_flag=True, help="List the scenarios.")
def main(
    *, only: str | None, quick: bool, listing: bool, as_json: bool, mirrored: bool, forwarded: bool, is_lake: bool,
    is_weight: bool, messages: int | None, command: str | None, **options: Any,
) -> None:
    """Measure MirrorMQ beside RabbitMQ; print a table of ratios, and write it to bench/results."""
    program = command or str(Path(sys.executable).parent / "mirrormq")
    if is_lake or is_weight:
        lake, weight = partial(lake_parts, seconds=options["seconds"]), partial(weight_parts, pure=options["pure"])
        measure_parts((lake if is_lake else weight)(program, messages, quick=quick), options["data"], as_json=as_json)
        return
    scenarios = chosen(FORWARDED if forwarded else only or (MIRRORED if mirrored else None), quick=quick)
    if listing or not scenarios:
        for scenario in scenarios or chosen(None, quick=quick):
            click.echo(f"{scenario.name:24} {scenario.title}")
        sys.exit(0 if listing else "No such scenario; those above exist.")
    try:
        results = Bench(scenarios, quick=quick, mirrored=mirrored, forwarded=forwarded, command=program, **options).run()
    except Failed as error:
        sys.exit(f"bench: {error}")
    text, data = report.write(results, HERE / "results")
    show(results, as_json=as_json)
    click.echo(f"Written to {text} and {data.name}", err=True)


def measure_parts(measure: Measurement, data: Path, *, as_json: bool) -> None:
    """What is measured part by part, and shown when it is known. `measure` gets a folder for brokers' data."""
    data.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=data) as folder:
        try:
            for part in measure(Path(folder)):
                figures |= part
                click.echo(report.lines(part), err=as_json)
        except Failed as error:
            sys.exit(f"bench: {error}")
    if as_json:
        click.echo(json.dumps(figures))


def lake_parts(command: str, messages: int | None, *, seconds: float | None, quick: bool) -> Measurement:
    """Needs what `mirrormq lake` needs."""
    import lake

    count = messages or 1_000_000
    return lambda folder: lake.measure(command, folder, count // 20 if quick else count, seconds or 8.0)


def weight_parts(command: str, messages: int | None, *, pure: bool, quick: bool) -> Measurement:
    """Needs pika."""
    import weight

    return lambda folder: weight.measure(command, folder, messages or (100_000 if quick else 10_000_000), pure=pure)


class Bench:
    """One benchmark: who takes part, and how long."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        *,
        runs: int | None,
        seconds: float | None,
        quick: bool,
        mirrored: bool,
        forwarded: bool,
        pure: bool,
        tool: str | None,
        no_rabbitmq: bool,
        no_management: bool,
        against: str | None,
        command: str,
        data: Path,
    ) -> None:
        self.scenarios = scenarios
        self.runs = runs or (1 if quick else 3)
        self.seconds = seconds or (2.0 if quick else 8.0)
        self.warmup = min(2.0, self.seconds / 4)
        self.command = command
        self.generator: Generator = Amqpload(tool) if tool else Perf([self.command])
        self.data = data
        self.pure = pure
        self.mirrored = mirrored
        self.forwarded = forwarded
        self.against = against
        self.rabbitmq = None if no_rabbitmq or against else rabbitmq.find()
        self.management = not no_management

    def run(self) -> report.Results:
        """Start everybody, run everything, stop everybody."""
        if not Path(self.command).exists():
            raise Failed(f"{self.command} is missing: run 'make install' first, or name it with --mirrormq")
        if self.against and not Path(self.against).exists():
            raise Failed(f"{self.against} is missing: --against takes the mirrormq command of another build")
        facts = report.machine() | {"generator": self.generator.name, "runs": self.runs, "seconds": self.seconds}
        if facts["load_before"] > BUSY:
            tell(f"This machine is busy (load {facts['load_before']}); the figures will not mean much.")
        self.data.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=self.data)))
            contenders = self._started(folder, stack)
            titles = {name: self._title(name, one) for name, one in contenders.items()}
            results = report.Results(titles, facts, "other" if self.against else "rabbitmq")
            for scenario in self.scenarios:
                self._measure(scenario, contenders, results)
        return results

    def _started(self, folder: Path, stack: ExitStack) -> dict[str, Contender]:
        contenders = self._clusters(folder) if self.mirrored or self.forwarded else self._nodes(folder)
        for name, contender in contenders.items():
            tell(f"Starting {name} …")
            stack.callback(contender.stop)
            try:
                contender.start()
            except Failed as error:
                raise Failed(f"{name}: {error}") from error
        return contenders

    def _clusters(self, folder: Path) -> dict[str, Contender]:
        ours = clusters.OurCluster(self.command, folder / "mirrormq", mirrored=self.mirrored)
        contenders: dict[str, Contender] = {}
        if self.rabbitmq is not None:
            script, management = self.rabbitmq, self.management
            theirs = clusters.RabbitCluster(script, folder / "rabbitmq", management=management, mirrored=self.mirrored)
            contenders |= {"rabbitmq": theirs, "quorum": clusters.Quorum(theirs)} if self.mirrored else \
                {"rabbitmq": clusters.Forwarded(theirs)}
        if self.against:
            other = clusters.OurCluster(self.against, folder / "other", mirrored=self.mirrored)
            contenders["other"] = other if self.mirrored else clusters.Forwarded(other)
        return contenders | {"mirrormq": ours if self.mirrored else clusters.Forwarded(ours)}

    def _nodes(self, folder: Path) -> dict[str, Contender]:
        contenders: dict[str, Contender] = {}
        if self.rabbitmq is not None:
            contenders["rabbitmq"] = rabbitmq.RabbitMQ(self.rabbitmq, folder / "rabbitmq", management=self.management)
        elif self.against:
            contenders["other"] = Node([self.against], folder / "other", pure=False)
        else:
            tell("RabbitMQ is not installed or not wanted: there will be no ratios.")
        contenders["mirrormq"] = Node([self.command], folder / "mirrormq", pure=False)
        if self.pure:
            contenders["uncompiled"] = Node([self.command], folder / "uncompiled", pure=True)
        return contenders

    def _title(self, name: str, contender: Contender) -> str:
        names = {"rabbitmq": "RabbitMQ", "mirrormq": "MirrorMQ", "uncompiled": "MirrorMQ, uncompiled,",
                 "quorum": "quorum queues of RabbitMQ", "other": "MirrorMQ of the other build,"}
        return f"{names[name]} {contender.version()}".strip()

    def _measure(self, scenario: Scenario, contenders: dict[str, Contender], results: report.Results) -> None:
        if not self.generator.supports(scenario):
            results.skipped.append(f"{scenario.title}: {self.generator.name} cannot do it.")
            return
        for number in range(1, self.runs + 1):
            for name, contender in contenders.items():
                queue = f"bench-{scenario.name}-{name}-{number}"
                if isinstance(contender, clusters.Forwarded):
                    contender.declare(queue)
                os.sync()       # or this run waits for what the one before, of another broker, has left to be written
                try:
                    figures = self.generator.run(scenario, contender.port, queue, self.seconds, self.warmup, contender.kind)
                except Failed as error:
                    raise Failed(f"{scenario.name} on {name}: {error}") from error
                results.add(scenario, name, figures)
                measure = report.measures_of(scenario)[0]
                value = getattr(figures, measure.field)
                tell(f"{scenario.name:24} run {number} {name:11} {value:>12,.0f} {measure.unit}")


def show(results: report.Results, *, as_json: bool) -> None:
    """Print the table, or the JSON report."""
    if as_json:
        click.echo(json.dumps(report.document(results)))
        return
    head, *body = report.rows(results)
    table = Table()
    for index, title in enumerate(head):
        table.add_column(title, justify="right" if index else "left")
    for row in body:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else PIPED_WIDTH).print(table)
    for text in results.skipped:
        click.echo(f"Left out: {text}")


def tell(text: str) -> None:
    """Progress, beside the report."""
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
