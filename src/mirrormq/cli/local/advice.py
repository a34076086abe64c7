"""What to do with a cluster that is up."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote

from mirrormq.cli.local.plan import Plan


def tool(name: str) -> str:
    """A command as this shell finds it: where our own was called by its path, the others are beside it."""
    called = sys.argv[0]
    return quote(str(Path(called).with_name(name))) if os.sep in called and Path(called).with_name(name).exists() else name


def of_cluster(plan: Plan, command: str, *words: str) -> str:
    return " ".join([tool("mirrormq"), "cluster", command, *words, "--dir", quote(_short(plan.directory))])


def next_steps(plan: Plan, *, is_detached: bool) -> str:
    first, last = plan.nodes[0], plan.nodes[-1]
    width = max(len(node.name) for node in plan.nodes)
    ctl, own = tool("mirrormqctl"), tool("mirrormq")
    rows = [f"  {node.name:{width}}  amqp://guest:guest@localhost:{node.amqp_port}/  web page http://localhost:{node.http_port}/"
            for node in plan.nodes]
    stop = of_cluster(plan, "down") if is_detached else "Ctrl-C"
    return "\n".join([
        f"The cluster is up: {len(plan.nodes)} node{'s' if len(plan.nodes) > 1 else ''} (user guest, password guest).", "",
        *rows, "",
        "Publish through one node, read through another (Python with pika):", "",
        "  import pika",
        f'  one = pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@localhost:{first.amqp_port}/")).channel()',
        '  one.queue_declare("hello", durable=True)',
        '  one.basic_publish("", "hello", b"from one node to another")',
        f'  other = pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@localhost:{last.amqp_port}/")).channel()',
        '  print(other.basic_get("hello", auto_ack=True))', "",
        f"Look at it:      {ctl} -n {first.name} cluster_status",
        f"Who mirrors:     {ctl} -n {first.name} list_queues name policy pid slave_pids synchronised_slave_pids",
        f"Mirror queues:   {ctl} -n {first.name} set_policy ha-all '.*' '{{\"ha-mode\":\"all\"}}' --apply-to queues",
        f"Put load on it:  {own} perf --uri amqp://guest:guest@localhost:{first.amqp_port}/",
        f"Kill a node:     {of_cluster(plan, 'kill-node', last.name)}",
        f"Bring it back:   {of_cluster(plan, 'restart-node', last.name)}",
        f"How it is:       {of_cluster(plan, 'status')}",
        f"Stop it:         {stop}",
    ])  # fmt: skip


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
