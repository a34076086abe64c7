"""One seed from its beginning to its judgement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mirrormq.wire.methods import BasicAck, BasicGet, BasicGetEmpty, QueueDeclare
from simnodes import checks
from simnodes.clients import Clients
from simnodes.copies import Copies
from simnodes.faults import MEMBERS, Faults
from simnodes.ledger import FORCED as PROMOTION_IS_FORCED
from simnodes.ledger import Ledger, Message
from simnodes.line import Gone, Line, Refused
from simnodes.members import Members
from simnodes.node import patch_sockets
from simnodes.world import World

GENTLE, FORCED, CALM, KILLS, RETURN, DEPOSED, CHANGING = "gentle", "forced", "calm", "kills", "return", "deposed", "changing"
ALWAYS: dict[str, object] = {"ha-promote-on-shutdown": "always", "ha-promote-on-failure": "always"}
SOON = 3.0              # seconds after which a process that was killed is known to be gone
ANSWERED = 60.0         # seconds after the last fault within which everybody has an answer
IN_SYNC = 60.0


class Seed:
    def __init__(self, seed: int, directory: Path, *, is_tracing: bool = False, without: tuple[str, ...] = (),
                 scenario: str = "") -> None:
        patch_sockets()
        directory.mkdir(parents=True)
        (directory / "cookie").write_text("a cookie of the simulation")
        (directory / "cookie").chmod(0o600)
        self.world = world = World(seed, directory, is_tracing=is_tracing)
        rng = world.rng
        for _ in range(rng.choice([2, 3, 3, 3, 3, 4])):
            world.add_node()
        self.ledger = Ledger(world)
        self.scenario = scenario or rng.choice([""] * 12 + [GENTLE, FORCED, FORCED, CALM, KILLS, RETURN, DEPOSED, CHANGING,
                                                            CHANGING])
        self.queues = [f"q{number}" for number in range(1, rng.choice([2, 2, 3]))]
        self.members = Members(world, Copies(world, self.ledger, self.queues))
        self.faults = Faults(world, self.members, without)
        self.clients = Clients(world, self.ledger, self.queues)
        self.clients.is_quiet = self.faults.is_quiet

    def run(self) -> list[str]:
        try:
            self._begin()
            acts = {GENTLE: self._gently, FORCED: self._force, CALM: self._calmly, KILLS: self._kill, RETURN: self._return,
                    DEPOSED: self._depose, CHANGING: self._change_members}
            acts.get(self.scenario, self._trouble)()
            self._settle()
            if not self.world.violations:
                self._judge()
        except Failed as fault:
            self.world.violate(str(fault))
        return self.world.violations

    # --- acts --------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        world, rng = self.world, self.world.rng
        for node in world.nodes:
            world.later(rng.random(), node.start)
        world.later(1.0, lambda: None)
        self._expect(lambda: all(node.is_up for node in world.nodes), 20, "the cluster does not start")
        world.run_until(world.now + 0.5)
        if self.scenario == FORCED:
            self.ledger.lossy |= dict.fromkeys(self.queues, PROMOTION_IS_FORCED)
            self.faults.more = ALWAYS
            if rng.random() < 0.5:
                self._put_forced_policy()
        elif rng.random() < 0.7:
            self.faults.put_policy(self.faults.policy_of())
        world.run_until(world.now + 0.5)
        self._do(self._declare())
        if self.scenario != FORCED and rng.random() < 0.5:
            self.faults.put_policy({"ha-mode": "all", "ha-sync-mode": "automatic"})

    async def _declare(self) -> None:
        for queue in self.queues:
            line = await self.clients.connect("setup")
            await line.call(QueueDeclare(queue, durable=True))
            await line.close()

    def _trouble(self) -> None:
        world, rng, clients = self.world, self.world.rng, self.clients
        for _ in range(rng.choice([1, 2, 3])):
            clients.spawn(clients.publisher, "pub")
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            clients.spawn(clients.consumer, "con")
        for work, kind, share in ((clients.getter, "get", 0.3), (clients.transactor, "tx", 0.5), (clients.passer, "pass", 0.4),
                                  (clients.purger, "purge", 0.1)):
            if rng.random() < share:
                clients.spawn(work, kind)
        world.run_until(world.now + 2)
        span = rng.choice([3.0, 10.0, 20.0])
        self.faults.plan(rng.choice([1, 2, 4, 8]), span)
        world.run_until(world.now + span)
        world.run_until(world.now + rng.choice([0.0, 5.0, 15.0]))

    def _calmly(self) -> None:
        """Nothing goes wrong, so what is promised for good days holds to the letter."""
        clients = self.clients
        clients.spawn(clients.publisher, "pub")
        for _ in range(3):
            clients.spawn(clients.passer, "pass")
        self.world.run_until(self.world.now + 15)

    def _force(self) -> None:
        """Leaders that were not in sync may take over: confirmed messages may go, but nothing else may."""
        world, rng, clients = self.world, self.world.rng, self.clients
        for work, kind in ((clients.publisher, "pub"), (clients.publisher, "pub"), (clients.consumer, "con")):
            if kind == "pub" or rng.random() < 0.5:
                clients.spawn(work, kind)
        world.run_until(world.now + 3)
        self._put_forced_policy()       # for the first time, perhaps: then mirrors lack what is there already
        world.run_until(world.now + rng.random())
        for _ in range(rng.choice([2, 4, 6])):
            node = rng.choice(world.nodes)
            if node.is_up and sum(1 for each in world.nodes if each.is_up) > 1:
                node.stop() if rng.random() < 0.7 else node.kill()
            elif rng.random() < 0.3:
                self.faults.move()
            world.run_until(world.now + 1 + rng.random() * 4)
            for other in world.nodes:
                if other is not node and other.state == "down" and rng.random() < 0.8:
                    other.start()
            world.run_until(world.now + 1 + rng.random() * 4)

    def _put_forced_policy(self) -> None:
        self.faults.put_policy({"ha-mode": "all", **({} if self.world.rng.random() < 0.7 else {"ha-sync-mode": "automatic"})})

    def _gently(self) -> None:
        """Nodes are stopped politely, one at a time, each after all copies are in sync: not even a transient message may go."""
        world, rng, clients = self.world, self.world.rng, self.clients
        for _ in range(2):
            clients.spawn(clients.publisher, "pub")
        world.run_until(world.now + 3)
        self.faults.put_policy({"ha-mode": "all", "ha-sync-mode": "automatic"})
        self.ledger.keeps_transient = True
        if rng.random() < 0.5:
            clients.spawn(clients.consumer, "con")
        for _ in range(rng.choice([1, 2, 3])):
            world.run_until(world.now + 2)
            self._wait_in_sync()
            node = rng.choice(world.nodes)
            node.stop()
            self._expect(lambda node=node: node.state == "down", 30, f"{node.host} does not stop")  # type: ignore[misc]
            world.run_until(world.now + rng.random() * 3)
            node.start()
            self._expect(lambda node=node: node.is_up, 30, f"{node.host} does not start")  # type: ignore[misc]

    def _kill(self) -> None:
        """Processes are killed while the rest is well: everybody knows soon that they are gone."""
        world, rng, clients = self.world, self.world.rng, self.clients
        for work, kind in ((clients.publisher, "pub"), (clients.consumer, "con")):
            clients.spawn(work, kind)
        for _ in range(rng.choice([2, 4])):
            world.run_until(world.now + 1 + rng.random() * 6)
            node = rng.choice(world.nodes)
            node.kill()
            key = f"node/{node.name}"
            self._expect(lambda key=key: key not in world.server.items, SOON, f"(dead) {node.host} was killed, and counts as up")  # type: ignore[misc]
            world.run_until(world.now + rng.random() * 2)
            node.start()
            self._expect(lambda node=node: node.is_up, 30, f"{node.host} does not start")  # type: ignore[misc]

    def _return(self) -> None:
        """The whole cluster comes back, and before anybody leads something else happens."""
        world, rng, clients = self.world, self.world.rng, self.clients
        self.faults.put_policy({"ha-mode": "all", "ha-sync-mode": "automatic"})
        for work, kind in ((clients.publisher, "pub"), (clients.publisher, "pub"), (clients.consumer, "con"),
                           (clients.transactor, "tx"), (clients.getter, "get")):
            clients.spawn(work, kind)
        world.run_until(world.now + 3)
        for node in world.nodes:
            node.lose_power() if rng.random() < 0.3 else node.kill()
        for node in world.nodes:
            world.later(rng.random(), node.start)
        world.run_until(world.now + 1 + rng.random() * 3)
        if rng.random() < 0.7:
            seconds = 4 + rng.random() * 8
            world.note("FAULT", f"the store is away for {seconds:.2f} s")
            world.server.lose()
            world.run_until(world.now + seconds)
            world.server.heal()
        else:
            rng.choice(world.nodes).step_clock(rng.choice([3600.0, -3600.0]))
        world.run_until(world.now + 10)

    def _depose(self) -> None:
        """A leader is cut off from the others and perhaps from the store, while messages are being delivered."""
        world, rng, clients = self.world, self.world.rng, self.clients
        self.faults.put_policy({"ha-mode": "all", "ha-sync-mode": "automatic"})
        for _ in range(3):
            clients.spawn(clients.publisher, "pub")
        world.run_until(world.now + 3)
        clients.spawn(clients.slow_consumer, "slow")
        for _ in range(2):
            clients.spawn(clients.transactor, "tx")
        for turn in range(rng.choice([1, 3])):
            world.run_until(world.now + rng.random())
            record = checks.record_of(world, self.queues[0])
            if record is None or "view" not in record:
                continue
            host = checks.by_name(world, record["view"]["ring"][0]).host
            others = [node.host for node in world.nodes if node.host != host]
            seconds = 1 + rng.random() * 6
            if rng.random() < 0.3:
                checks.by_name(world, record["view"]["ring"][0]).freeze(seconds)
            for other in others:
                if rng.random() < 0.8:
                    world.network.cut_lane(host, other)
                if rng.random() < 0.8:
                    world.network.cut_lane(other, host)
            world.note("FAULT", f"{host}, which leads, is cut off for {seconds:.2f} s")
            if rng.random() < 0.7:
                world.server.lose(host)
            if turn == 0:       # only now, so that both sides have something to deliver
                for _ in range(6):
                    clients.spawn(clients.consumer, "con")
            world.run_until(world.now + seconds)
            world.server.heal(host)
            for other in others:
                world.network.heal_lane(host, other)
                world.network.heal_lane(other, host)
        world.run_until(world.now + 5)

    def _change_members(self) -> None:
        """Nodes join, leave, are forgotten and lose their disks while clients work, now and then with other trouble."""
        world, rng, clients = self.world, self.world.rng, self.clients
        for work, kind in ((clients.publisher, "pub"), (clients.publisher, "pub"), (clients.consumer, "con"),
                           (clients.transactor, "tx")):
            clients.spawn(work, kind)
        world.run_until(world.now + 3)
        for _ in range(rng.choice([2, 3, 5])):
            self.faults.strike(rng.choice(MEMBERS) if rng.random() < 0.8 else rng.choice(self.faults.kinds))
            world.run_until(world.now + rng.choice([0.5, 5.0, 15.0]) * (0.5 + rng.random()))

    def _wait_in_sync(self) -> None:
        world = self.world
        for queue in self.queues:
            def why(queue: str = queue) -> str:
                return checks.not_in_sync(world, queue, len(world.nodes))
            self._expect(lambda why=why: not why(), IN_SYNC, f"(in sync) {queue} is not in sync everywhere", why)  # type: ignore[misc]

    def _settle(self) -> None:
        world, clients = self.world, self.clients
        self.faults.heal_all()
        self._expect(lambda: not self.members.is_busy, ANSWERED, "(members) an operator's work does not end",
                     self._states)
        self._expect(lambda: all(node.is_up for node in world.nodes), ANSWERED, "(start) not every node comes up", self._states)
        world.run_until(world.now + world.rng.choice([1.0, 12.0]))
        clients.is_over = True
        self._expect(lambda: all(task.done() for task in clients.tasks), ANSWERED, "(unanswered)", self._unanswered)
        world.run_until(world.now + 3)

    def _judge(self) -> None:
        world = self.world
        self._compare("before the end")
        self.faults.more = {}
        self.faults.put_policy({"ha-mode": "all", "ha-sync-mode": "automatic"})
        world.run_until(world.now + 1)
        self._wait_in_sync()
        world.run_until(world.now + 1)
        self._compare("in the end")
        for queue in self.queues:
            self._do(self._drain(queue))
        world.run_until(world.now + 12)
        for node in world.nodes:
            found = checks.orphans(node)
            if found:
                world.violate(f"(log) {node.host} keeps the log {found[0]:x}, which nobody holds")
        self._look_at_passing()

    def _compare(self, when: str) -> None:
        for queue in self.queues:
            difference = checks.compare_members(self.world, queue)
            if difference:
                raise Failed(f"(differ) {queue} {when}: {difference}")

    def _look_at_passing(self) -> None:
        keys = [key for key in self.world.server.items if key.startswith("meta/") and '"queue"' in key and "pass" in key]
        left = [key for key in keys if json.loads(key.removeprefix("meta/"))[2] not in self.clients.unused]
        if left:
            self.world.violate(f"(passing) in the end {left[0]} is still there")

    # --- emptying ----------------------------------------------------------------------------------------------------

    async def _drain(self, queue: str) -> None:
        world, ledger = self.world, self.ledger
        line = Line(world, "drain")
        await line.open(world.rng.choice(world.nodes))
        declared = await line.call(QueueDeclare(queue, passive=True))
        left: list[Message] = []
        while True:
            answer = await line.call(BasicGet(queue))
            if isinstance(answer, BasicGetEmpty):
                break
            method, body = answer
            message = ledger.delivery(body, queue, "drain", redelivered=method.redelivered)
            if message is not None:
                if message in left:
                    world.violate(f"(twice) {message} is there twice")
                left.append(message)
            line.send(BasicAck(method.delivery_tag))
        if declared.message_count != len(left):
            world.violate(f"(count) {queue} says that it has {declared.message_count} messages, and there were {len(left)}")
        after = await line.call(QueueDeclare(queue, passive=True))
        if after.message_count:
            world.violate(f"(count) {queue} says that it has {after.message_count} messages, and it is empty")
        record = checks.record_of(world, queue)
        ledger.judge(queue, left, [] if record is None else checks.verdicts(world, record["id"]))
        await line.close()

    # --- tools -------------------------------------------------------------------------------------------------------

    def _expect(self, condition: Any, seconds: float, sentence: str, more: Any = None) -> None:
        if not self.world.run_while(lambda: not condition(), seconds) and not self.world.violations:
            raise Failed(f"{sentence} within {seconds:g} s" + (f": {more()}" if more is not None else ""))
        if self.world.violations:
            raise Failed(self.world.violations.pop())

    def _states(self) -> str:
        return ", ".join(f"{node.host} is {node.state} {node.given_up}" for node in self.world.nodes)

    def _unanswered(self) -> str:
        asking = [(line, *line.asked[0]) for line in self.world.asking]
        return "; ".join(f"{line.name} on {line.node} waits for {what} since {since:.2f}" for line, since, what in asking) \
            or ", ".join(task.get_name() for task in self.clients.tasks if not task.done())

    def _do(self, work: Any) -> None:
        task = self.world.clients_loop.create_task(work)
        self._expect(task.done, ANSWERED, "(unanswered)", self._unanswered)
        fault = task.exception()
        if isinstance(fault, Gone | Refused):
            raise Failed(f"(refused) {fault!r} though nothing is wrong")
        if fault is not None:
            raise fault


class Failed(Exception):
    """The seed has ended in a violation."""


def run_seed(seed: int, directory: Path, *, without: tuple[str, ...] = (), is_tracing: bool = False,
             scenario: str = "") -> tuple[list[str], Seed]:
    made = Seed(seed, directory, is_tracing=is_tracing, without=without, scenario=scenario)
    return made.run(), made


