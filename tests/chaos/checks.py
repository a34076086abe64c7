"""What must hold when the faults of a round are over. Each check adds what it finds to the ledger, and the run goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chaos.clients import Publisher, count
from chaos.faults import FORCED
from chaos.ledger import QueueLedger
from chaos.processes import SERVES, Node, Refused, quote
from chaos.world import World

Json = dict[str, Any]
IN_SYNC = 30.0          # seconds from the last fault until every queue is in sync
ANSWERED = 20.0         # seconds from the last fault for which a client may wait for one answer
DRAINED = 30.0          # seconds without a message, while some are missing or in the queue, until that is a finding
ASKS = 15.0
ERROR = re.compile(r"[A-Za-z_.]+(Error|Exception|Fault)?: ")     # the last line of a traceback
FINAL: tuple[Json, ...] = (
    {"ha-mode": "all", "ha-sync-mode": "automatic"},
    {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
    {"ha-mode": "nodes", "ha-params": [0, 1], "ha-sync-mode": "automatic"},
)


def settle(world: World, *, drains_all: bool) -> None:
    """From the end of the last fault to the next round. `drains_all`: also the queues that gather messages."""
    ledger = world.ledger
    world.heal()
    world.wait_whole()
    last = time.monotonic()
    final = world.chance.choice(FINAL)
    world.set_policy("mirrored", final)
    world.set_policy("forced", FINAL[0] | FORCED)
    check_in_sync(world, last)
    check_answered(world, last)
    pause(world, last)
    for name in ("m.kept", "f.forced"):
        check_members(world, name)
    world.let_consume(("m.kept", "f.forced") if drains_all else ("f.forced",))
    for name, queue in ledger.queues.items():
        if name != "m.kept" or drains_all:
            check_drained(world, queue)
    for name, queue in ledger.queues.items():
        if name != "p.plain":       # it lives on one node and has no failovers
            check_audits(world, queue)
    check_logs(world)


def resume(world: World) -> None:
    world.let_consume()
    for publisher in world.publishers:
        publisher.paused.clear()


def wait(world: World, condition: Callable[[], bool], within: float, doing: str) -> bool:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
        world.progress(doing)
    return True


def check_in_sync(world: World, last: float) -> None:
    """Every mirrored queue has the mirrors that its policy wants, all in sync."""
    open_: dict[str, str] = {}

    def all_in_sync() -> bool:
        open_.clear()
        for name in [*world.mirrored, "f.forced"]:
            policy = world.policies["forced" if name == "f.forced" else "mirrored"] or {}
            mode, params = policy.get("ha-mode"), policy.get("ha-params")
            wanted = params if mode == "exactly" else len(params) if isinstance(params, list) else len(world.nodes)
            if why := _why_not_in_sync(world, name, wanted):
                open_[name] = why
        return not open_

    if wait(world, all_in_sync, IN_SYNC - (time.monotonic() - last), "waiting until all queues are in sync"):
        world.ledger.say(f"all queues in sync {time.monotonic() - last:.1f} s after the last fault")
        return
    for name, why in open_.items():
        world.ledger.find("not in sync", f"{name}, {IN_SYNC:.0f} s after the last fault: {why}; {_ring(world, name)}")


def _why_not_in_sync(world: World, name: str, wanted: int) -> str:
    """Nothing where it is."""
    try:
        row = world.queue(name)
    except Refused as refused:
        return str(refused)
    copies = 1 + len(row.get("synchronised_slave_nodes", ()))
    told = {key: row.get(key) for key in ("state", "node", "slave_nodes", "synchronised_slave_nodes", "policy")}
    if row.get("messages", 0) < 0 or row.get("messages_ready", 0) < 0:
        world.ledger.find("a negative count", f"{name}: {row.get('messages')} messages, {row.get('messages_ready')} ready")
    return "" if copies == wanted == 1 + len(row.get("slave_nodes", ())) and row.get("state") == "running" else f"{told}"


def _ring(world: World, name: str) -> str:
    try:
        return f"its ring: {world.ask('GET', f'queues/{world.vhost}/{quote(name)}/ring')}"
    except Refused as refused:
        return str(refused)


def check_answered(world: World, last: float) -> None:
    """Every client has heard something since the last fault, or waits for nothing. One that hears nothing within the bound gives
    up its connection."""
    while late := [client for client in world.clients if client.waits_for and client.since < last]:
        if hanging := [client for client in late if client.waited(last) > ANSWERED]:
            for client in hanging:
                world.ledger.find("not answered", f"{client.name} at {client.host} waits for {client.waits_for} since "
                                  f"{client.waited(last):.0f} s after the last fault")
                client.drop()
            return
        time.sleep(0.2)
        world.progress("waiting for answers")


def pause(world: World, last: float) -> None:
    """Publishers have everything confirmed and publish no more."""
    for publisher in world.publishers:
        publisher.paused.set()

    def unanswered() -> list[Publisher]:
        return [publisher for publisher in world.publishers if not publisher.is_idle]

    if not wait(world, lambda: not unanswered(), ANSWERED, "waiting for confirms"):
        for publisher in unanswered():
            what = publisher.waits_for or "a session"
            world.ledger.find("not answered", f"{publisher.name} at {publisher.host} waits for {what}")
            publisher.drop()
        wait(world, lambda: not unanswered(), ANSWERED, "waiting for publishers to connect again")


def check_members(world: World, name: str) -> None:
    """Members in sync hold the same: whoever leads, the count is the same, and no smaller than what is known to be there."""
    queue = world.ledger.queues[name]
    if not wait(world, lambda: _quiet(world, name), ASKS, f"waiting until nobody consumes {name}"):
        return
    try:
        row = world.queue(name)
    except Refused:
        return      # told by the check for queues in sync
    counts: dict[str, int | None] = {row["node"]: _count(world, name)}
    for node in [node for node in world.nodes if node.node in row.get("synchronised_slave_nodes", ())]:
        with suppress(Refused):
            world.move(name, node)
            counts[node.node] = _count(world, name)
    told = f"{name} has, by leader: {counts}; {len(queue.missing)} are confirmed and not received"
    world.ledger.say(told)
    if None in counts.values():
        world.ledger.find("not answered", f"how many messages {name} has: {counts}")
    elif len(set(counts.values())) > 1:
        world.ledger.find("members differ", told)
    elif not queue.may_lose and min(known for known in counts.values() if known is not None) < len(queue.missing):
        world.ledger.find("confirmed messages lost", told)


def _quiet(world: World, name: str) -> bool:
    with suppress(Refused):
        row = world.queue(name)
        return not row.get("consumers") and not row.get("messages_unacknowledged")
    return False


def _count(world: World, name: str) -> int | None:
    return count(world.ledger, world.nodes[0].machine.address, world.vhost, name, ASKS)


def check_drained(world: World, queue: QueueLedger) -> None:
    """The queue gives everything that was confirmed."""
    if queue.name == "m.idle":
        return
    state: dict[str, Any] = {"ready": None}
    moved, before = time.monotonic(), -1
    while True:
        received = len(queue.received) + sum(consumer.last for consumer in world.consumers if consumer.queue == queue.name)
        if received != before:
            moved, before = time.monotonic(), received
        elif time.monotonic() > moved + 1:
            with suppress(Refused):
                row = world.queue(queue.name)
                state = {"ready": row.get("messages_ready"), "unacknowledged": row.get("messages_unacknowledged"),
                         "consumers": row.get("consumers")}
                if row.get("messages") == 0 and (not queue.missing or time.monotonic() > moved + 5):
                    break
            if time.monotonic() > moved + DRAINED:
                waiting = [f"{c.name} at {c.host} waits for {c.waits_for or 'deliveries'}"
                           for c in world.consumers if c.queue == queue.name]
                world.ledger.find("not delivered", f"{queue.name} says {state}, {len(queue.missing)} confirmed ones are missing; "
                                  + ", ".join(waiting))
                break
        time.sleep(0.1)
        world.progress(f"draining {queue.name}")
    if missing := queue.missing:
        queue.lost += len(missing)
        if not queue.may_lose:
            world.ledger.find("confirmed messages lost", f"{len(missing)} of {queue.name}, first {sorted(missing)[:3]}")
    with world.ledger.lock:
        queue.confirmed.clear()


def check_audits(world: World, queue: QueueLedger) -> None:
    """What the records of failovers say against what the clients know."""
    try:
        records: list[Json] = world.ask("GET", f"queues/{world.vhost}/{quote(queue.name)}/failovers")
    except Refused as refused:
        world.ledger.find("no records of failovers", f"{queue.name}: {refused}")
        return
    world.ledger.totals["failovers"] += len([record for record in records if record["epoch"] > queue.epoch])
    queue.epoch = max([queue.epoch, *(record["epoch"] for record in records)])
    queue.told |= {record["epoch"]: record["lost"] for record in records}
    told = sum(lost or 0 for lost in queue.told.values())
    if told and not queue.lost:
        wrong = next(record for record in records if record["lost"])
        world.ledger.find("a false verdict", f"{queue.name} lost nothing, but a record says: {wrong['sentence']}")
    if queue.lost and not told and all(lost is not None for lost in queue.told.values()):
        world.ledger.find("a false verdict", f"{queue.name} lost {queue.lost} confirmed messages, and no record says so: "
                          + " | ".join(record["sentence"] for record in records[:5]))


def check_logs(world: World) -> None:
    """The same fault again in one round is counted, not told."""
    for node in world.nodes:
        found: dict[str, list[str]] = {}
        for fault in node.new_faults():
            kind = next((line for line in fault.splitlines() if ERROR.match(line)), fault)
            found.setdefault(kind, []).append(fault)
        for faults in found.values():
            world.ledger.find("a fault in a log", f"{node.name}, {len(faults)} times:\n{faults[0]}")


def leave_and_return(world: World, node: Node) -> None:
    """A member goes and comes back with nothing, in one of three ways. Not where that would lose the only copy of a queue."""
    other = world.nodes[world.nodes.index(node) - 1]
    way = world.chance.choice(("reset", "forget", "lost disk"))
    everywhere = FINAL[0]
    world.set_policy("mirrored", everywhere)
    world.set_policy("forced", everywhere | FORCED)
    names = [*world.mirrored, "f.forced"]
    if not wait(world, lambda: not any(_why_not_in_sync(world, name, len(world.nodes)) for name in names), IN_SYNC,
                f"waiting until {node.name} can leave"):
        world.ledger.say(f"{node.name} does not leave: not every queue has a copy elsewhere")
        return
    world.faults += 1
    world.ledger.say(f"fault: {way} of {node.name}")
    world.ledger.queues["p.plain"].may_lose = True      # it lives on one node
    world.progress(f"{way} of {node.name}")
    if way == "reset":
        _command(world, node, "stop_app")
        _command(world, node, "reset")
        _command(world, node, "start_app")
    else:
        node.kill()
        if way == "forget":
            _command(world, other, "forget_cluster_node", node.node)
        node.lose_disk()
        node.start()
        if not wait(world, lambda: node.serves() or not node.is_running, SERVES, f"{way} of {node.name}") or not node.is_running:
            node.note_end()
            world.ledger.find("a node does not come back", f"after {way}: {' '.join(node.surprises)}")
            node.surprises = []
            node.kill()
            _command(world, other, "forget_cluster_node", node.node)
            node.lose_disk()
            node.start()
    world.wait_whole()
    world.declare("p.plain", other)


def _command(world: World, node: Node, *words: str) -> None:
    done = node.ctl(*words)
    if done.returncode:
        world.ledger.find("a command failed", f"{' '.join(words)} at {node.name}: {done.stdout}{done.stderr}")
