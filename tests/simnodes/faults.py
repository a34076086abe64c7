"""What befalls a cluster. Each kind of fault is a method with a healing; which of them come, and when, is the seed's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.broker import rules
from mirrormq.broker.policy import Policy
from simnodes.node import DOWN, SimNode

if TYPE_CHECKING:
    from simnodes.members import Members
    from simnodes.world import World

MEMBERS = ("join", "leave", "forget", "lose_disk")
KINDS = ("kill", "power", "stop", "freeze", "cut", "one_way", "reset", "slow_link", "store", "store_cut", "answers", "disk",
         "slow_disk", "policy", "move", "all", "rolling", "clock", "drift", "isolate", "freeze_kill", "sync", *MEMBERS)


class Faults:
    def __init__(self, world: World, members: Members, without: tuple[str, ...] = ()) -> None:
        self.world = world
        self.members = members
        self.members.on_end = self._struck
        self.kinds = [kind for kind in KINDS if kind not in without]
        self.under_way = 0
        self.last_at = -100.0
        self.is_healed = False
        self.counts: dict[str, int] = {}
        self.more: dict[str, object] = {}       # what every policy says beside where mirrors are

    def plan(self, count: int, span: float, kinds: list[str] | None = None) -> None:
        rng = self.world.rng
        among = [kind for kind in kinds or self.kinds if kind in self.kinds]
        chosen = rng.sample(among, min(len(among), rng.choice([2, 4, 8])))      # a seed has its own sorts of trouble
        for _ in range(count):
            self.world.later(rng.random() * span, self.strike, rng.choice(chosen))

    def is_quiet(self) -> bool:
        return (self.under_way == 0 and not self.members.is_busy and self.world.now - self.last_at > 15
                and all(node.is_up for node in self.world.nodes))

    def strike(self, kind: str) -> None:
        if not self.is_healed:
            self._struck()
            self.counts[kind] = self.counts.get(kind, 0) + 1
            getattr(self.members if kind in MEMBERS else self, kind)()

    def _struck(self) -> None:
        self.last_at = self.world.now

    def is_store_well(self) -> bool:
        server = self.world.server
        return not server.is_away and not server.cut_off and not server.loses_answers

    def _until(self, seconds: float, heal: Callable[..., None], *arguments: Any) -> None:
        self.under_way += 1

        def healed() -> None:
            self.under_way -= 1
            self.last_at = self.world.now
            heal(*arguments)

        self.world.later(seconds, healed)

    def _unless_healed(self, fault: Callable[[], None]) -> None:
        """The later part of a fault."""
        if not self.is_healed:
            fault()

    def _length(self) -> float:
        rng = self.world.rng
        return rng.choice([0.1, 0.5, 1.0, 2.0, 3.0, 6.0, 12.0]) * (0.5 + rng.random())

    def _node(self) -> SimNode:
        return self.world.rng.choice(self.world.nodes)

    def _start(self, node: SimNode) -> None:
        """It is started by whoever minds it, again and again."""
        if node.state == DOWN and not node.is_leaving:
            node.start()
        self._mind(node)

    def _mind(self, node: SimNode) -> None:
        self.world.later(1.0, self._look_after, node)

    def _look_after(self, node: SimNode) -> None:
        if node.state == DOWN and node.given_up and not node.is_leaving:
            node.start()
            self._mind(node)

    # --- processes and machines ----------------------------------------------------------------------------------------

    def kill(self) -> None:
        node = self._node()
        node.kill()
        self._until(self._length(), self._start, node)

    def power(self) -> None:
        node = self._node()
        node.lose_power()
        self._until(self._length(), self._start, node)

    def stop(self) -> None:
        node = self._node()
        node.stop()
        self._until(self._length(), self._start_stopped, node)

    def _start_stopped(self, node: SimNode) -> None:
        if node.state == "stopping":
            self._until(0.5, self._start_stopped, node)
        else:
            self._start(node)

    def freeze(self) -> None:
        seconds = self._length()
        self._node().freeze(seconds)
        self._until(seconds, lambda: None)

    def freeze_kill(self) -> None:
        node = self._node()
        node.freeze(30.0)
        seconds = self.world.rng.random() * 3
        self._until(seconds, self._unless_healed, node.kill)
        self._until(seconds + self._length(), self._start, node)

    def all(self) -> None:
        """The whole cluster at once."""
        how = self.world.rng.choice(["kill", "power", "stop"])
        for node in self.world.nodes:
            if how == "kill":
                node.kill()
            elif how == "power":
                node.lose_power()
            else:
                node.stop()
        for node in self.world.nodes:
            self._until(self._length() / 2, self._start_stopped, node)

    def rolling(self) -> None:
        gap = 1.0 + self.world.rng.random() * 5
        for place, node in enumerate(self.world.nodes):
            self._until(place * gap, self._unless_healed, node.stop)
            self._until(place * gap + gap / 2, self._start_stopped, node)

    # --- lines ----------------------------------------------------------------------------------------------------------

    def _pair(self) -> tuple[str, str]:
        one, other = self.world.rng.sample([node.host for node in self.world.nodes], 2)
        return one, other

    def cut(self) -> None:
        one, other = self._pair()
        self._cut_for(self._length(), [(one, other), (other, one)])

    def one_way(self) -> None:
        self._cut_for(self._length(), [self._pair()])

    def _cut_for(self, seconds: float, lanes: list[tuple[str, str]]) -> None:
        for source, target in lanes:
            self.world.note("FAULT", f"{source} is cut off from {target} for {seconds:.2f} s")
            self.world.network.cut_lane(source, target)
            self._until(seconds, self.world.network.heal_lane, source, target)

    def isolate(self) -> None:
        """A node that reaches neither the others nor, perhaps, the store."""
        host = self._node().host
        seconds = self._length()
        others = [node.host for node in self.world.nodes if node.host != host]
        self._cut_for(seconds, [lane for other in others for lane in ((host, other), (other, host))])
        if self.world.rng.random() < 0.7:
            self._lose_store(seconds, host)

    def reset(self) -> None:
        one, other = self._pair()
        self.world.note("FAULT", f"connections between {one} and {other} are reset")
        self.world.network.break_connections(one, other)

    def slow_link(self) -> None:
        lane = self._pair()
        self.world.network.slow[lane] = self.world.rng.choice([0.005, 0.05, 0.5])
        self._until(self._length(), self.world.network.slow.pop, lane, None)

    # --- the store --------------------------------------------------------------------------------------------------------

    def _lose_store(self, seconds: float, host: str = "") -> None:
        self.world.note("FAULT", f"the store is away for {host or 'all'} for {seconds:.2f} s")
        self.world.server.lose(host)
        self._until(seconds, self.world.server.heal, host)

    def store(self) -> None:
        self._lose_store(self._length())

    def store_cut(self) -> None:
        self._lose_store(self._length(), self._node().host)

    def answers(self) -> None:
        server = self.world.server
        server.loses_answers = 0.2

        def heal() -> None:
            server.loses_answers = 0.0

        self._until(self._length(), heal)

    # --- disks and clocks -------------------------------------------------------------------------------------------------

    def disk(self) -> None:
        node = self._node()
        self.world.note("FAULT", f"the disk of {node.host} fails")
        node.disk.is_failing = True

        def heal() -> None:
            node.disk.is_failing = False

        self._until(self._length() / 2, heal)

    def slow_disk(self) -> None:
        host = self._node().host
        self.world.slow_disks[host] = self.world.rng.choice([0.01, 0.1, 1.0])
        self._until(self._length(), self.world.slow_disks.pop, host, None)

    def clock(self) -> None:
        self._node().step_clock(self.world.rng.choice([-3600.0, -10.0, -1.0, 1.0, 10.0, 3600.0]))

    def drift(self) -> None:
        self._node().step_clock(self.world.rng.random() * 0.2 - 0.1)

    # --- operators --------------------------------------------------------------------------------------------------------

    def _up(self) -> SimNode | None:
        now = self.world.now
        up = [node for node in self.world.nodes if node.is_up and node.loop is not None and node.loop.frozen_until <= now]
        return self.world.rng.choice(up) if up else None

    def put_policy(self, definition: dict[str, object]) -> None:
        node = self._up()
        if node is None or node.runtime is None or node.loop is None:
            return
        self.world.note("FAULT", f"policy {definition}")
        broker = node.runtime.broker
        if definition:
            policy = Policy("/", "mirrors", "^q", "queues", definition | self.more)
            node.loop.run_inside(lambda: rules.put_policy(broker, policy, operator=False))
        else:
            node.loop.run_inside(lambda: rules.delete_policy(broker, "/", "mirrors", operator=False))
        node.loop.run_inside(node.runtime.schedule)

    def policy_of(self) -> dict[str, object]:
        rng = self.world.rng
        names = [node.name for node in self.world.nodes]
        how = rng.choice(["all", "all", "exactly", "nodes", "none"])
        more: dict[str, object] = {"ha-sync-mode": "automatic"} if rng.random() < 0.8 else {}
        if how == "all":
            return {"ha-mode": "all", **more}
        if how == "exactly":
            return {"ha-mode": "exactly", "ha-params": rng.choice([1, 2, 2, 3]), **more}
        if how == "nodes":
            return {"ha-mode": "nodes", "ha-params": rng.sample(names, rng.choice([1, 2, 2])), **more}
        return {}

    def policy(self) -> None:
        self.put_policy(self.policy_of())

    def move(self) -> None:
        """A leader is asked to hand over to another."""
        node = self._up()
        if node is None or node.runtime is None or node.loop is None:
            return
        fronts = [front for front in node.runtime.broker.forwarding.mirrored.values() if len(front.holders) > 1]
        if fronts:
            front = self.world.rng.choice(fronts)
            to = self.world.rng.choice(front.holders)
            self.world.note("FAULT", f"the lead of {front.name} is to move to {to}")
            node.loop.create_task(node.runtime.orders.move(front, to))
            node.loop.rearrange()

    def sync(self) -> None:
        """Somebody orders a sync, or cancels it."""
        node = self._up()
        if node is None or node.runtime is None or node.loop is None:
            return
        fronts = list(node.runtime.broker.forwarding.mirrored.values())
        if fronts:
            front = self.world.rng.choice(fronts)
            node.loop.create_task(node.runtime.orders.sync(front, on=self.world.rng.random() < 0.7))
            node.loop.rearrange()

    # --- the end ----------------------------------------------------------------------------------------------------------

    def heal_all(self) -> None:
        """From now on nothing happens any more, and whatever is down is started."""
        world = self.world
        self.is_healed = True
        world.note("FAULT", "everything is healed")
        for source, target in sorted(world.network.cut):
            world.network.heal_lane(source, target)
        world.network.slow.clear()
        world.slow_disks.clear()
        world.server.loses_answers = 0.0
        for host in list(world.server.cut_off):
            world.server.heal(host)
        if world.server.is_away:
            world.server.heal()
        for node in world.nodes:
            node.disk.is_failing = False
            if node.loop is not None and node.loop.frozen_until > world.now:
                node.loop.frozen_until = world.now
                node.loop.rearrange()
            self._bring_up(node)

    def _bring_up(self, node: SimNode) -> None:
        if node.state == DOWN and not node.is_leaving:
            node.start()
        if not node.is_up and node in self.world.nodes:
            self.world.later(0.5, self._bring_up, node)
