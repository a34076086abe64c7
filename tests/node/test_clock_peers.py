"""The time of a node and of its cluster, whatever the wall clocks say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrormq.node.clock import FILE, Clock
from mirrormq.node.clock_peers import ASKED, TOLD, ClockPeers

HOUR = 3_600_000.0
MINUTE = 60_000.0
START = 1_900_000_000_000.0


class Machine:
    """A node's clocks, and its links to the others. Time only goes by in the world that it is in."""

    def __init__(self, world: World, name: str, directory: Path, *, wall: float = 0.0) -> None:
        self.world, self.name, self.directory = world, name, directory
        self.wall = wall            # milliseconds that its wall clock is ahead of the true time
        self.boot = 1000.0 * len(name)
        self.words: list[str] = []
        self.start()

    def start(self) -> None:
        self.clock = Clock(self.directory / f"{self.name}-{FILE}", lambda _, text: self.words.append(text),
                           lambda: (START + self.world.time + self.wall) / 1000, lambda: (self.boot + self.world.time) / 1000)
        self.peers = ClockPeers(self.name, self.clock, lambda _, text: self.words.append(text))

    def beat(self) -> float:
        ahead = self.peers.beat()
        if self.clock.is_to_save():
            self.clock.save()
        return ahead

    @property
    def error(self) -> float:
        """Of its time against the true one."""
        return self.clock.now() - START - self.world.time


class Link:
    """A way to another machine."""

    def __init__(self, one: Machine, other: Machine) -> None:
        self.one, self.other, self.name = one, other, other.name

    def send(self, lane: int, kind: int, payload: bytes) -> None:
        self.one.world.sent.append((self, kind, payload))


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = 0.0
        self.delay = self.delay_back = 1.0
        self.machines: dict[str, Machine] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.sent: list[tuple[Link, int, bytes]] = []

    def machine(self, name: str, *, wall: float = 0.0) -> Machine:
        found = self.machines[name] = Machine(self, name, self.directory, wall=wall)
        return found

    def link(self, one: Machine, other: Machine) -> None:
        for here, there in ((one, other), (other, one)):
            self.links[here.name, there.name] = Link(here, there)
            here.peers.link_up(self.links[here.name, there.name])
        self.arrive()

    def stop(self, machine: Machine) -> None:
        for here, there in [names for names in self.links if machine.name in names]:
            del self.links[here, there]
            self.machines[here].peers.link_down(there)
        del self.machines[machine.name]

    def again(self, machine: Machine) -> None:
        self.machines[machine.name] = machine
        machine.start()

    def arrive(self) -> None:
        while self.sent:
            sent, self.sent = self.sent, []
            self.time += self.delay if sent[0][1] == ASKED else self.delay_back
            for link, kind, payload in sent:
                back = self.links.get((link.other.name, link.one.name))
                if back is not None:
                    link.other.peers.received(back, kind, payload)

    def live(self, milliseconds: float) -> None:
        until = self.time + milliseconds
        while self.time < until:
            self.time += 500
            for machine in list(self.machines.values()):
                machine.beat()
            self.arrive()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("wall", [HOUR, -HOUR, 3 * HOUR])
def test_a_node_that_comes_keeps_the_time_of_those_that_are_there(world: World, wall: float) -> None:
    old = world.machine("old", wall=wall)
    world.live(MINUTE)
    young = world.machine("a")
    world.link(old, young)
    assert abs(young.clock.now() - old.clock.now()) <= 2 * world.delay
    assert f"this node's time was moved by {wall / 1000:.1f} seconds to that of node old" in young.words
    world.live(MINUTE)
    assert abs(young.clock.now() - old.clock.now()) <= 2 * world.delay


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_moves_no_time_neither_now_nor_after_a_restart(world: World, step: float) -> None:
    alone = world.machine("alone")
    world.live(MINUTE)
    alone.wall = step
    ahead = alone.beat()
    world.live(MINUTE)
    assert abs(alone.error) <= MINUTE / 1000 + 1
    assert abs(ahead - step) <= 1
    assert alone.words == [f"the clock was set {'forward' if step > 0 else 'back'} by 3600.0 seconds"]
    world.again(alone)
    assert abs(alone.error) <= MINUTE / 1000 + 100
    assert len(alone.words) == 1


def test_time_approaches_the_wall_clock_by_a_thousandth_of_what_goes_by(world: World) -> None:
    alone = world.machine("alone")
    world.live(MINUTE)
    alone.wall = 10_000
    world.live(1000 * 1000)
    assert 900 <= alone.error <= 1001
    world.live(9000 * 1000)
    assert abs(alone.error - 10_000) <= 1
    world.live(MINUTE)
    assert abs(alone.error - 10_000) <= 1


def test_all_approach_the_clock_that_most_have(world: World) -> None:
    wrong = world.machine("a", wall=-5000)
    world.live(MINUTE)
    rest = [world.machine("b"), world.machine("c")]
    for one in rest:
        world.link(wrong, one)
    world.link(*rest)
    world.live(6000 * 1000)
    assert all(abs(machine.error) <= 10 for machine in (wrong, *rest))


def test_nodes_that_meet_again_approach_each_other_and_no_time_makes_a_step(world: World) -> None:
    one, other, third = world.machine("a"), world.machine("b"), world.machine("c")
    world.link(one, other)
    world.link(one, third)
    world.live(MINUTE)
    del world.links["a", "b"], world.links["b", "a"]
    one.peers.link_down("b")
    other.peers.link_down("a")
    other.clock.step(5000)
    world.link(one, other)
    assert abs(other.clock.now() - one.clock.now() - 5000) <= 2 * world.delay
    world.live(6000 * 1000)
    assert abs(other.clock.now() - one.clock.now()) <= 10


def test_a_machine_that_was_stopped_takes_over_the_time_of_the_others(world: World) -> None:
    """Its boot clock stood still, and then its wall clock was set. It is the oldest, and all the same nobody follows it."""
    stopped = world.machine("a")
    world.live(MINUTE)
    other = world.machine("b")
    world.link(stopped, other)
    world.live(MINUTE)
    stopped.boot -= 30_000
    world.live(20_000)
    assert abs(stopped.error - other.error) <= 10
    assert abs(other.error) <= 100


def test_a_node_comes_back_to_the_time_of_its_cluster_though_its_clock_was_set_meanwhile(world: World) -> None:
    one, other = world.machine("a"), world.machine("b")
    world.link(one, other)
    world.live(MINUTE)
    world.stop(one)
    one.wall = HOUR
    world.live(MINUTE)
    world.again(one)
    assert one.error > HOUR - MINUTE
    world.link(one, other)
    assert abs(one.error) <= 100


@pytest.mark.parametrize(("there", "back"), [(1600, 0), (0, 1600)])
def test_no_more_is_corrected_than_is_certain(world: World, there: float, back: float) -> None:
    """They have the same time, and on a line that is slow one way the answer looks 800 milliseconds wrong."""
    world.delay, world.delay_back = there, back
    one = world.machine("a")
    world.live(MINUTE)
    other = world.machine("b")
    world.link(one, other)
    world.live(20_000)
    assert abs(other.error) <= 1
    assert other.words == []


def test_two_that_begin_together_do_not_change_places(world: World) -> None:
    one, other = world.machine("a"), world.machine("b", wall=HOUR)
    world.link(one, other)
    world.live(MINUTE)
    assert abs(one.error - other.error) <= 10
    assert abs(one.error) <= MINUTE / 1000 * 2 + 1


def test_both_say_that_their_wall_clocks_differ_and_when_they_agree_again(world: World) -> None:
    one, other = world.machine("a"), world.machine("b", wall=-HOUR)
    world.link(one, other)
    world.live(MINUTE)
    assert one.words.count("the clock of node b is 3600.0 seconds behind this one's: set them, best by NTP") == 1
    assert other.words.count("the clock of node a is 3600.0 seconds ahead of this one's: set them, best by NTP") == 1
    assert one.peers.apart() == {"b": pytest.approx(-3600, abs=0.1)}
    other.wall = 0
    world.live(MINUTE)
    assert one.words[-1] == "the clocks of node b and of this one agree again"
    assert one.peers.apart() == other.peers.apart() == {}


def test_half_a_second_is_not_worth_a_word(world: World) -> None:
    one, other = world.machine("a"), world.machine("b", wall=500)
    world.link(one, other)
    world.live(MINUTE)
    assert not [text for text in one.words + other.words if "the clock of node" in text]


@pytest.mark.parametrize("content", [
    "", "{", "[]", '{"format": 1}', '{"format": 9, "ahead_ms": 1000}', '{"format": 1, "ahead_ms": NaN}',
])
def test_a_file_that_makes_no_sense_is_told_and_time_begins_with_the_wall_clock(world: World, content: str) -> None:
    (world.directory / f"a-{FILE}").write_text(content)
    alone = world.machine("a")
    assert alone.error == 0
    assert len(alone.words) == 1


def test_what_differs_by_more_than_a_day_is_not_kept_over_a_restart(world: World) -> None:
    alone = world.machine("a", wall=-50 * 365 * 24 * HOUR)
    world.live(MINUTE)
    alone.wall = 0
    world.live(MINUTE)
    assert json.loads((world.directory / f"a-{FILE}").read_text())["ahead_ms"] < -24 * HOUR
    world.again(alone)
    assert alone.error == 0


def test_frames_of_another_release_change_nothing(world: World) -> None:
    one, other = world.machine("a"), world.machine("b", wall=HOUR)
    world.links["a", "b"], world.links["b", "a"] = Link(one, other), Link(other, one)
    one.peers.link_up(world.links["a", "b"])
    world.sent.clear()
    for kind in (ASKED, TOLD):
        assert one.peers.received(world.links["a", "b"], kind, b"later") == 0
    assert one.error == 0
