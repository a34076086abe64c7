"""A cluster under test with its clients: started, put under faults, healed, checked."""

from __future__ import annotations

import heapq
import random
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.clients import Caller, Client, Consumer, Publisher
from chaos.faults import FORCED, Fault, Undo, apply
from chaos.ledger import Ledger, QueueLedger
from chaos.network import Machine, Network
from chaos.processes import SERVES, EtcdMember, Node, Refused, quote, until

Json = dict[str, Any]
TELLS = 5.0             # seconds from one line of progress to the next
ENDS = 4                # times that nodes may end by themselves until the run gives up
RATE = 60.0             # messages a second and publisher


class Broken(Exception):
    """The run cannot go on; the text says why."""


class World:
    def __init__(self, directory: Path, network: Network, ledger: Ledger, seed: int, nodes: int, members: int = 3) -> None:
        self.network = network
        self.ledger = ledger
        self.seed = seed
        self.directory = directory
        self.chance = random.Random(f"{seed} world")
        self.members = [EtcdMember(network.add(f"etcd{at + 1}", 101 + at), directory / f"etcd{at + 1}") for at in range(members)]
        for member in self.members:
            member.others = self.members
        spec = "etcd:" + ",".join(member.url for member in self.members)
        cookie = secrets.token_hex(16)
        self.nodes = [Node(network.add(f"rabbit{at + 1}", 1 + at), directory / f"rabbit{at + 1}", spec, cookie)
                      for at in range(nodes)]
        self.clients: list[Client] = []
        self.vhost = ""
        self.mirrored: list[str] = []           # the queues under the policy that changes
        self.policies: dict[str, Json | None] = {}
        self.faults = 0
        self._work = ThreadPoolExecutor(4)
        self._jobs: list[Future[None]] = []
        self._due: list[tuple[float, int, Fault | Undo]] = []
        self._told = 0.0
        self._generation = 0
        self._begin = time.monotonic()

    # --- start and end -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        for member in self.members:
            member.start()
        if not until(lambda: all(member.answers() for member in self.members), SERVES):
            raise Broken("etcd does not answer")
        for node in self.nodes:
            node.start()
        self.wait_whole()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        for client in self.clients:
            client.ending.set()
        self._work.shutdown(wait=False, cancel_futures=True)
        for process in [*self.nodes, *self.members]:
            process.kill()

    def wait_whole(self) -> None:
        """Every node runs, serves and is linked to all; one that has ended by itself is started again, and is a finding."""
        names = sorted(node.node for node in self.nodes)

        def is_whole(node: Node) -> bool:
            with suppress(Refused):
                return bool(sorted(node.ask("GET", "cluster", timeout=2.0)["linked"]) == names)
            return False

        deadline, before = time.monotonic() + SERVES, len(self.ledger.findings)
        while not all(is_whole(node) for node in self.nodes):
            for node in self.nodes:
                self._restart_if_ended(node)
            if time.monotonic() > deadline or len(self.ledger.findings) > before + ENDS:
                open_ = ", ".join(node.name for node in self.nodes if not is_whole(node))
                raise Broken(f"{open_}: not linked to all other nodes within {SERVES:.0f} s, or ends again and again")
            time.sleep(0.5)
            self.progress("waiting for all nodes")

    def _restart_if_ended(self, node: Node) -> None:
        if node.is_stopping:
            self.end_cleanly(node)
        node.note_end()
        for surprise in node.surprises:
            self.ledger.find("a node ended by itself", surprise)
        node.surprises = []
        node.start()

    # --- clients -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A virtual host with new queues, and clients for them; those of the former end."""
        self.end_clients()
        former, self._generation = self.vhost, self._generation + 1
        self.vhost = f"chaos{self._generation}"
        self.policies = {}
        self.ask("PUT", f"vhosts/{self.vhost}", {})
        self.ask("PUT", f"permissions/{self.vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        self.set_policy("mirrored", {"ha-mode": "all", "ha-sync-mode": "automatic"})
        self.set_policy("forced", {"ha-mode": "all", "ha-sync-mode": "manual", **FORCED})
        self.mirrored = ["m.one", "m.two", "m.single", "m.tx", "m.kept", "m.idle"]
        names = [*self.mirrored, "f.forced", "p.plain"]
        for at, name in enumerate(names):
            self.declare(name, self.nodes[at % len(self.nodes)])
        self.ledger.begin([QueueLedger(name, may_lose=name == "f.forced") for name in names])
        hosts = [node.machine.address for node in self.nodes]
        fed = [name for name in names if name != "m.idle"]
        for number in range(3):
            self.clients.append(Publisher(self.ledger, hosts, self.vhost, number + 1, fed, RATE))
        for number, (name, options) in enumerate((
            ("m.one", {}), ("m.two", {"puts_back": True}), ("m.two", {}), ("m.single", {"whole_order": True}),
            ("m.tx", {"transactions": True}), ("m.kept", {}), ("f.forced", {}), ("p.plain", {"transactions": True}),
        )):
            self.clients.append(Consumer(self.ledger, hosts, self.vhost, number, name, **options))
        self.clients += [Caller(f"caller {number}", self.ledger, hosts, self.vhost, number) for number in range(2)]
        self.let_consume()
        for client in self.clients:
            client.start()
        if former:
            with suppress(Refused):
                self.ask("DELETE", f"vhosts/{former}")

    def end_clients(self) -> None:
        for client in self.clients:
            client.ending.set()
        for client in self.clients:
            client.join(10)
        self.clients = []

    @property
    def consumers(self) -> list[Consumer]:
        return [client for client in self.clients if isinstance(client, Consumer)]

    @property
    def publishers(self) -> list[Publisher]:
        return [client for client in self.clients if isinstance(client, Publisher)]

    def let_consume(self, also: Sequence[str] = ()) -> None:
        """`m.kept` and `f.forced` gather messages until they are named."""
        for consumer in self.consumers:
            if consumer.queue not in ("m.kept", "f.forced") or consumer.queue in also:
                consumer.open.set()
            else:
                consumer.open.clear()

    # --- faults ------------------------------------------------------------------------------------------------------

    def run(self, plan: list[Fault], seconds: float) -> None:
        """Carry out a plan, and end what it began."""
        begin = time.monotonic()
        self._due = [(begin + fault.at, number, fault) for number, fault in enumerate(plan)]
        heapq.heapify(self._due)
        while self._due:
            at, number, what = self._due[0]
            if (now := time.monotonic()) < at:
                time.sleep(min(at - now, 0.5))
                self.progress("faults")
                continue
            heapq.heappop(self._due)
            if isinstance(what, Fault):
                self.faults += 1
                self.ledger.say(f"fault: {what}")
                if undo := apply(self, what):
                    heapq.heappush(self._due, (time.monotonic() + what.lasts, number, undo))
            else:
                what()
        while time.monotonic() < begin + seconds:
            time.sleep(0.2)
            self.progress("faults")
        for job in self._jobs:
            with suppress(Refused):
                job.result(60)
        self._jobs = []

    def heal(self) -> None:
        """Whatever the faults did: every process runs."""
        for process in [*self.members, *self.nodes]:
            process.send(signal.SIGCONT)
            if isinstance(process, EtcdMember) or process.process is None:
                process.start()

    def cut(self, ways: list[tuple[Machine, Machine]]) -> Undo:
        for sender, receiver in ways:
            self.network.cut(sender, receiver)

        def undo() -> None:
            for sender, receiver in ways:
                self.network.join(sender, receiver)

        return undo

    def end_cleanly(self, node: Node) -> None:
        """Its code must be 0. A node that another fault has killed meanwhile is no finding, nor is one that was only starting and
        did not handle the signal yet."""
        was_there = node.is_stopping
        code = node.stop()
        if was_there and code is None:
            self.ledger.find("a node did not stop", f"{node.name} was asked to, and killed in the end")
        elif was_there and code not in (0, -signal.SIGTERM):
            self.ledger.find("a node did not stop cleanly", f"{node.name} ended with {code}")
        node.is_stopping = False

    def later(self, job: Callable[[], Any]) -> None:
        """In another thread: a request that waits must not delay the faults."""
        self._jobs.append(self._work.submit(job))

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Of the first node that answers."""
        refused = Refused("no node runs")
        for node in random.sample(self.nodes, len(self.nodes)):
            if node.is_running:
                try:
                    return node.ask(method, path, body)
                except Refused as error:
                    refused = error
        raise refused

    def set_policy(self, name: str, definition: Json | None) -> None:
        """Numbers in `ha-params` of mode `nodes` become names of nodes. None removes the policy."""
        path = f"policies/{self.vhost}/{name}"
        if definition is None:
            if self.policies.get(name) is not None:
                self.ask("DELETE", path)
        else:
            if definition["ha-mode"] == "nodes":
                definition = definition | {"ha-params": [self.nodes[at].node for at in definition["ha-params"]]}
            pattern = "^m[.]" if name == "mirrored" else "^f[.]"
            self.ask("PUT", path, {"pattern": pattern, "definition": definition, "apply-to": "queues"})
        self.policies[name] = definition
        self.ledger.say(f"policy {name}: {definition}")

    def declare(self, queue: str, node: Node) -> None:
        arguments: Json = {"x-single-active-consumer": True} if queue == "m.single" else {}
        self.ask("PUT", f"queues/{self.vhost}/{quote(queue)}", {"durable": True, "arguments": arguments, "node": node.node})

    def move(self, queue: str, node: Node) -> None:
        self.ask("POST", f"queues/{self.vhost}/{quote(queue)}/actions", {"action": "move", "node": node.node})

    def queue(self, name: str) -> Json:
        row: Json = self.ask("GET", f"queues/{self.vhost}/{quote(name)}")
        return row

    def progress(self, doing: str) -> None:
        now = time.monotonic()
        if now < self._told + TELLS:
            return
        self._told = now
        up = sum(node.is_running for node in self.nodes)
        totals, seconds = self.ledger.totals, int(now - self._begin)
        print(f"{seconds // 60}:{seconds % 60:02} round {self.ledger.round}, {doing}: {up} of {len(self.nodes)} nodes run, "
              f"{self.faults} faults, {totals['confirmed']} confirmed, {totals['received']} received, "
              f"{len(self.ledger.findings)} findings", flush=True)
