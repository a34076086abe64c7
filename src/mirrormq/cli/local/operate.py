"""What can be done to a local cluster: bring nodes up, watch them, stop, kill and restart them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mirrormq.admin import rendezvous
from mirrormq.cli.local import processes
from mirrormq.cli.local.advice import of_cluster
from mirrormq.cli.local.plan import NodePlan, Plan, PlanError
from mirrormq.cli.local.processes import RUNNING, Status
from mirrormq.node.secret import SecretError, shared_secret

START_PATIENCE: Final = 120.0
STOP_PATIENCE: Final = 30.0
WATCH: Final = 0.3

Say = Callable[[str], None]
Children = dict[str, subprocess.Popen[bytes]]


def prepare(plan: Plan) -> None:
    """The directory, the plan and the secret."""
    try:
        plan.directory.mkdir(parents=True, exist_ok=True)
        plan.save()
        shared_secret(plan.cookie, environment={})
    except OSError as fault:
        raise PlanError(f"{plan.directory} cannot be used: {fault.strerror or fault}") from None
    except SecretError as fault:
        raise PlanError(str(fault)) from None


@contextmanager
def alone(plan: Plan) -> Iterator[None]:
    """Two commands that start nodes would start each of them twice."""
    try:
        lock = (plan.directory / "starting.lock").open("w")
    except OSError as fault:
        raise PlanError(f"{plan.directory} cannot be used: {fault.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def bring_up(plan: Plan, nodes: Sequence[NodePlan], say: Say) -> Children:
    """Start those of the nodes that are not there, and wait until all of them serve."""
    children: Children = {}
    try:
        with alone(plan):
            for node in check(plan, nodes):
                children[node.name] = processes.start(plan, node)
        _await_all(plan, nodes, children, say)
    except BaseException:
        take_down(plan, [node for node in nodes if node.name in children], say)
        reap(children)
        raise
    return children


def check(plan: Plan, nodes: Sequence[NodePlan]) -> list[NodePlan]:
    """Those of the nodes that are not there. PlanError if one of them could not start: nothing has been done yet then."""
    missing = [node for node in nodes if processes.pid_of(plan, node) is None]
    for node in missing:
        _check_name(plan, node)
        processes.check_ports(plan, node)
    return missing


def _check_name(plan: Plan, node: NodePlan) -> None:
    place = rendezvous.read(node.name, os.environ)
    if place is not None and place.is_alive() and Path(place.data_dir).resolve() != plan.data(node):
        raise PlanError(f"a node {node.name} runs on this machine already, with its data in {place.data_dir}: stop it, or choose "
                        "other --names")


def _await_all(plan: Plan, nodes: Sequence[NodePlan], children: Children, say: Say) -> None:
    until = time.monotonic() + START_PATIENCE
    waiting = list(nodes)
    while waiting:
        for node in list(waiting):
            state = processes.look(plan, node).state
            child = children.get(node.name)
            if state == RUNNING or (child is None and state == processes.APP_STOPPED):
                waiting.remove(node)
                say(f"{node.name} is {'up' if state == RUNNING else 'there, its application stopped'}: "
                    f"AMQP at {node.amqp_port}, HTTP at {node.http_port}")
            elif child is not None and child.poll() is not None:
                raise PlanError(f"{node.name} could not start; the end of {plan.log(node)}:\n{processes.last_words(plan, node)}")
        if waiting and time.monotonic() > until:
            raise PlanError(f"{waiting[0].name} does not serve after {START_PATIENCE:.0f} s; look into {plan.log(waiting[0])}")
        time.sleep(0.05)


def take_down(plan: Plan, nodes: Sequence[NodePlan], say: Say) -> None:
    """Stop nodes cleanly and together. One that does not stop in time is killed: its log recovers at the next start."""
    stopping = [node for node in nodes if processes.tell(plan, node, signal.SIGCONT) and
                processes.tell(plan, node, signal.SIGTERM)]
    try:
        for node in stopping:
            if processes.await_end(plan, node, STOP_PATIENCE):
                say(f"{node.name} has stopped")
            else:
                say(f"{node.name} does not stop within {STOP_PATIENCE:.0f} s and is killed")
                kill(plan, node)
    except KeyboardInterrupt:
        for node in stopping:
            kill(plan, node)
        say("killed what was left")


def kill(plan: Plan, node: NodePlan) -> bool:
    """kill -9, and wait until it is gone."""
    was_there = processes.tell(plan, node, signal.SIGKILL)
    processes.await_end(plan, node, STOP_PATIENCE)
    return was_there


def reap(children: Children) -> None:
    for child in children.values():
        child.poll()


def watch(plan: Plan, children: Children, say: Say) -> None:
    """Tell what becomes of the nodes, until none is left."""
    up = {node.name: children[node.name].pid if node.name in children else processes.pid_of(plan, node) for node in plan.nodes}
    while any(up.values()):
        time.sleep(WATCH)
        reap(children)
        for node in plan.nodes:
            pid = processes.pid_of(plan, node)
            if pid != up[node.name]:
                if up[node.name] is not None:
                    say(_epitaph(plan, node, children))
                if pid is not None:
                    say(f"{node.name} has been started again, as process {pid}")
                up[node.name] = pid


def _epitaph(plan: Plan, node: NodePlan, children: Children) -> str:
    child = children.pop(node.name, None)
    code = child.poll() if child is not None else None
    how = "has ended"
    if code is not None and code < 0:
        how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
    elif code:
        how = f"has ended with code {code}; see {plan.log(node)}"
    return f"{node.name} {how}. Start it again with: {of_cluster(plan, 'restart-node', node.name)}"


def statuses(plan: Plan) -> list[Status]:
    return [processes.look(plan, node) for node in plan.nodes]
