"""`mirrormq perf`: the options, named as in RabbitMQ's PerfTest, and what happens with them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import click

from mirrormq.cli.perf import display
from mirrormq.cli.perf.address import parse_address, parse_addresses
from mirrormq.cli.perf.crew import Crew, crews_for
from mirrormq.cli.perf.engine import Outcome, Run, Watcher
from mirrormq.cli.perf.errors import BadOption, PerfError
from mirrormq.cli.perf.loop import run_loop
from mirrormq.cli.perf.settings import (
    Settings,
    check,
    parse_pairs,
    parse_properties,
    parse_size,
    queue_names,
    run_number,
)
from mirrormq.cli.perf.topology import Topology

FLAGS = ("persistent", "mandatory")
COUNT = click.IntRange(min=0)
POSITIVE = click.IntRange(min=1)
AMOUNT = click.FloatRange(min=0)


@click.command(context_settings={"help_option_names": ["-?", "--help"], "max_content_width": 100})
@click.option(
    "-h",
    "--uri",
    default="amqp://localhost",
    show_default=True,
    help="Where the broker is: amqp://user:password@host:port/vhost.",
)
@click.option("-H", "--uris", help="Several URIs, separated by commas; connections are dealt out to them in turn.")
@click.option("-x", "--producers", type=COUNT, default=1, show_default=True, help="Producers, a connection each.")
@click.option("-y", "--consumers", type=COUNT, default=1, show_default=True, help="Consumers, a connection each.")
@click.option(
    "-u", "--queue", help="Queue name, or names separated by commas. Without one, a queue is made for the run."
)
@click.option("--queues", type=POSITIVE, default=1, help="Use this many queues, named QUEUE-1, QUEUE-2, …")
@click.option("-qp", "--queue-pattern", help="Pattern for queue names, as in perf-%d.")
@click.option("-qpf", "--queue-pattern-from", type=COUNT, default=1, help="First number for the pattern.")
@click.option("-qpt", "--queue-pattern-to", type=COUNT, default=1, help="Last number for the pattern.")
@click.option("-s", "--size", default="12", show_default=True, help="Message size: 100, 4k, 64Ki, 1M.")
@click.option(
    "-c",
    "--confirm",
    type=click.IntRange(min=-1),
    default=0,
    help="Publisher confirms, with at most this many publishes outstanding.",
)
@click.option(
    "-ct",
    "--confirm-timeout",
    type=AMOUNT,
    default=30,
    show_default=True,
    help="Fail when no confirm comes for so many seconds.",
)
@click.option("-q", "--qos", type=click.IntRange(0, 65535), default=0, help="Prefetch of each consumer.")
@click.option("-Q", "--global-qos", type=click.IntRange(0, 65535), default=0, help="Prefetch of each channel.")
@click.option("-a", "--autoack", is_flag=True, help="Consume without acknowledgements.")
@click.option("-A", "--multi-ack-every", type=COUNT, default=1, help="Acknowledge this many messages with one ack.")
@click.option("-r", "--rate", type=AMOUNT, default=0, help="Messages a second of each producer.")
@click.option("-R", "--consumer-rate", type=AMOUNT, default=0, help="Messages a second of each consumer.")
@click.option("-f", "--flag", "flags", multiple=True, help="persistent, mandatory; repeat it or separate by commas.")
@click.option("-z", "--time", "seconds", type=AMOUNT, default=0, help="Stop after so many seconds.")
@click.option("-C", "--pmessages", type=COUNT, default=0, help="Stop after this many messages of each producer.")
@click.option("-D", "--cmessages", type=COUNT, default=0, help="Stop after this many messages at each consumer.")
@click.option("-t", "--type", "exchange_type", help="Exchange type; direct when an exchange or a routing key is given.")
@click.option("-e", "--exchange", help="Exchange name. Without -e, -t and -k messages go straight to their queue.")
@click.option("-k", "--routing-key", help="Publish and bind with this key, so that every queue gets every message.")
@click.option("--binding-key", help="Bind the queues with this key instead, as in a.*.c for a topic exchange.")
@click.option(
    "-ad", "--auto-delete", type=bool, help="Whether queues are auto-delete; default: only those made for the run."
)
@click.option("--durable/--no-durable", default=True, show_default=True, help="Whether queues are durable.")
@click.option("-qa", "--queue-args", help="Queue arguments: x-max-length=10,x-overflow=reject-publish.")
@click.option("-ca", "--consumer-args", help="Consumer arguments: x-priority=10.")
@click.option("-E", "--exclusive", is_flag=True, help="Exclusive consumers.")
@click.option(
    "-mp", "--message-properties", help="Message properties: priority=5,expiration=60000; unknown names become headers."
)
@click.option("-mh", "--message-headers", help="Message headers: colour=red,weight=3.")
@click.option("-p", "--predeclared", is_flag=True, help="Declare nothing; exchange, queues and bindings are there.")
@click.option("-b", "--heartbeat", type=COUNT, help="Heartbeat in seconds (60, or what the URI says).")
@click.option(
    "-M", "--framemax", type=click.IntRange(min=4096), default=131072, show_default=True, help="Largest frame."
)
@click.option("-d", "--id", "identity", help="Name of the run, in its output and its connections.")
@click.option(
    "-i", "--interval", type=click.FloatRange(min=0.1), default=1, show_default=True, help="Seconds between samples."
)
@click.option(
    "-st",
    "--shutdown-timeout",
    type=AMOUNT,
    default=5,
    show_default=True,
    help="Seconds to wait for what is still under way at the end.",
)
@click.option("--warmup", type=AMOUNT, default=0, help="Seconds at the beginning that the summary leaves out.")
@click.option(
    "--verify",
    is_flag=True,
    help="Number the messages; report lost, doubled and disordered ones (exit code 5). "
    "With -x 0, of the run that published under the same name (-d).",
)
@click.option(
    "--processes", type=POSITIVE, default=1, show_default=True, help="Spread the connections over so many processes."
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
def perf(*, as_json: bool, **options: Any) -> None:
    """Put load on an AMQP 0-9-1 broker and measure it.

    The options are those of RabbitMQ's PerfTest. Rates and counts are for each producer or consumer. Latencies are in
    microseconds, from publish to confirm and from publish to delivery.

    Exit codes: 0 done, 1 failed on the way, 2 wrong options, 3 no broker answered, 4 login refused, 5 not verified,
    130 interrupted.
    """
    try:
        settings = settings_of(options)
        crews = crews_for(settings)
    except PerfError as error:
        raise click.UsageError(str(error)) from error
    try:
        with display.choose(settings, as_json=as_json) as watcher:
            outcome = run_loop(_main(settings, crews, watcher))
        _print(settings, outcome, as_json=as_json)
    except OSError as fault:
        if fault.errno == errno.ENOSPC:
            raise SystemExit("error: the output cannot be written: the disk is full") from None
        raise
    raise SystemExit(outcome.exit_code)


async def _main(settings: Settings, crews: Sequence[Crew], watcher: Watcher) -> Outcome:
    """Run; the first interrupt ends the run in good order, the second one at once."""
    loop = asyncio.get_running_loop()
    interrupt = asyncio.Event()

    def interrupted() -> None:
        if interrupt.is_set():
            os._exit(130)
        interrupt.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    return await Run(settings, Topology(settings), crews, watcher, interrupt).run()


def _print(settings: Settings, outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        click.echo(display.outcome_json(settings, outcome))
    for line in display.summary_lines(settings, outcome):
        error = line.startswith("error: ")
        if error or not as_json:
            click.echo(line, err=error)


def settings_of(options: dict[str, Any]) -> Settings:
    """The options as settings, or a `BadOption` that says what is wrong."""
    if options["verify"] and not options["producers"] and options["identity"] is None:
        raise BadOption("--verify without producers needs the name (-d) of the run that published")
    identity = options["identity"] or time.strftime("test-%H%M%S")
    addresses = parse_addresses(options["uris"]) if options["uris"] else (parse_address(options["uri"]),)
    flags = _flags(options["flags"])
    made_up = options["queue"] is None and options["queue_pattern"] is None and not options["predeclared"]
    temporary = f"perf-{identity}-{os.getpid()}"
    first, last = options["queue_pattern_from"], options["queue_pattern_to"]
    exchange, exchange_type = _exchange(options)
    pairs, headers = parse_pairs(options["message_properties"]), parse_pairs(options["message_headers"])
    settings = Settings(
        addresses=addresses,
        queues=queue_names(options["queue"], options["queues"], options["queue_pattern"], first, last, temporary),
        identity=identity,
        run=run_number(identity, is_shared=not options["producers"] or not options["consumers"]),
        producers=options["producers"],
        consumers=options["consumers"],
        exchange=exchange,
        exchange_type=exchange_type,
        routing_key=options["routing_key"],
        binding_key=options["binding_key"],
        size=parse_size(options["size"]),
        confirm=max(options["confirm"], 0),
        confirm_timeout=options["confirm_timeout"],
        prefetch=options["qos"],
        global_prefetch=options["global_qos"],
        auto_ack=options["autoack"],
        multi_ack=max(options["multi_ack_every"], 1),
        rate=options["rate"],
        consumer_rate=options["consumer_rate"],
        persistent="persistent" in flags,
        mandatory="mandatory" in flags,
        seconds=options["seconds"],
        producer_messages=options["pmessages"],
        consumer_messages=options["cmessages"],
        temporary=made_up,
        durable=options["durable"],
        auto_delete=made_up if options["auto_delete"] is None else options["auto_delete"],
        exclusive_consumers=options["exclusive"],
        predeclared=options["predeclared"],
        queue_arguments=parse_pairs(options["queue_args"]),
        consumer_arguments=parse_pairs(options["consumer_args"]),
        properties=parse_properties(pairs, headers, persistent="persistent" in flags),
        heartbeat=_heartbeat(options["heartbeat"], addresses[0].parameter("heartbeat")),
        frame_max=options["framemax"],
        interval=options["interval"],
        warmup=options["warmup"],
        verify=options["verify"],
        processes=options["processes"],
        shutdown_timeout=options["shutdown_timeout"],
    )
    check(settings)
    return settings


def _flags(given: Sequence[str]) -> set[str]:
    flags = {flag.strip() for text in given for flag in text.split(",")}
    for flag in flags - set(FLAGS):
        raise BadOption(f"--flag (-f) knows {' and '.join(FLAGS)}, not {flag!r}")
    return flags


def _exchange(options: dict[str, Any]) -> tuple[str, str]:
    """Exchange and type. As in PerfTest, the type is also the name of an exchange without one."""
    name, kind = options["exchange"], options["exchange_type"]
    if name is None and kind is None and options["routing_key"] is None:
        return "", "direct"
    kind = kind or "direct"
    return kind if name is None else name, kind


def _heartbeat(option: int | None, parameter: str | None) -> int:
    if option is not None:
        return option
    if parameter is None:
        return 60
    if not parameter.isdecimal():
        raise BadOption(f"the heartbeat in the URI should be a number, not {parameter!r}")
    return int(parameter)
