"""Scenarios: what happens to a broker, as data. A scenario follows from its seed and number alone.

A scenario is some limits and a list of steps. Sessions are numbered; their steps are mixed with each other and with the
passing of time, so that sessions meet in every state.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from mirrormq.broker.backlog import BUDGET
from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import frame
from mirrormq.wire.methods import ChannelOpen

from .grammar import PHRASES
from .handshake import LOGINS, ODD_LOGINS, ODD_TUNES, ODD_VHOSTS, open_vhost, tune_ok
from .mutation import Frames, mutate, portions
from .phrase import NEW_CHANNEL
from .vocabulary import PROTOCOL_HEADERS

SESSIONS = 20
AT_ONCE = 3
GROUNDWORK = 1000
OPEN = ChannelOpen().encode()
FOREIGN_ADDRESS = "192.0.2.1"


class Step(NamedTuple):
    """`what` happens to session `who` (or to the broker), with `data` or a `number`."""

    what: str
    who: int = 0
    data: bytes = b""
    number: int = 0


class Scenario(NamedTuple):
    frame_max: int
    max_message_size: int
    budget: int
    steps: list[Step]


def build(seed: int, number: int, sessions: int = SESSIONS) -> Scenario:
    rng = Random(seed << 32 | number)
    frame_max = rng.choice((4096, 8192, 131072))
    scripts = [session(rng, who, frame_max) for who in range(sessions)]
    steps = _groundwork(rng, frame_max) + _mixed(rng, scripts)
    return Scenario(frame_max, rng.choice((2000, 20000, 134217728)), rng.choice((BUDGET, BUDGET, 3000, 0)), steps)


def _groundwork(rng: Random, frame_max: int) -> list[Step]:
    if rng.random() < 0.1:
        return []
    frames = [*_handshake(rng, frame_max, mutated=False), frame(1, 1, OPEN)]
    frames[1] = LOGINS[0]
    frames += [frame(kind, 1, payload) for kind, payload in rng.choice(PHRASES.groundwork)]
    return [Step("open", GROUNDWORK), Step("feed", GROUNDWORK, b"".join(frames)), Step("turn"), *[Step("stable")] * 40]


def twins(seed: int, number: int) -> tuple[Scenario, Scenario]:
    """One session whose bytes arrive in different portions. The broker must say the same to both."""
    rng = Random(seed << 32 | number)
    frame_max = rng.choice((4096, 131072))
    before = _groundwork(rng, frame_max)
    frames = _handshake(rng, frame_max, mutated=rng.random() < 0.2) + _conversation(rng)
    ways = [portions(rng, frames) for _ in range(2)]
    scripts = [[Step("open"), *[Step("feed", data=data) for data in way]] for way in ways]
    limit = rng.choice((2000, 134217728))
    first, second = [Scenario(frame_max, limit, BUDGET, [*before, *script]) for script in scripts]
    return first, second


# One session


def session(rng: Random, who: int, frame_max: int) -> list[Step]:
    host = 0 if rng.random() < 0.97 else 1
    before = rng.random() < 0.3
    frames = _handshake(rng, frame_max, mutated=before)
    if not before or rng.random() < 0.3:
        frames += _conversation(rng)
    steps = [Step("open", who, number=host)]
    steps += [Step("feed", who, data) for data in portions(rng, frames)]
    steps.append(Step(rng.choice(("lost", "lost", "close", "close", "answer", "rest")), who))
    return steps


def _handshake(rng: Random, frame_max: int, *, mutated: bool) -> Frames:
    login = rng.choices(LOGINS, (70, 10, 15, 5))[0]
    frames = [PROTOCOL_HEADER, login, tune_ok(2047, frame_max), open_vhost()]
    if not mutated:
        return frames
    place = rng.randrange(8)
    if place < 4:
        odd = (PROTOCOL_HEADERS, ODD_LOGINS, ODD_TUNES, ODD_VHOSTS)[place]
        frames[place] = rng.choice(odd)
    if place >= 3:
        mutate(rng, frames, _others(rng), rng.choice((1, 1, 1, 2, 3)))
    return frames


def _others(rng: Random) -> Frames:
    return [frame(kind, rng.randrange(3), payload) for phrase in PHRASES.draw(rng, 3) for kind, payload in phrase[:3]]


def _conversation(rng: Random) -> Frames:
    lanes = rng.choice(([1], [1], [1], [1, 2], [1, 2, 3]))
    frames = [frame(1, number, OPEN) for number in lanes]
    for phrase in PHRASES.draw(rng, rng.randint(1, 10)):
        lane = rng.randrange(len(lanes))
        for part in phrase:
            if part is NEW_CHANNEL:
                lanes = [*lanes[:lane], lanes[lane] + 256, *lanes[lane + 1 :]]
                frames.append(frame(1, lanes[lane], OPEN))
            else:
                frames.append(frame(part[0], lanes[lane], part[1]))
    if rng.random() < 0.05:
        frames += [frame(kind, 0, payload) for kind, payload in rng.choice(PHRASES.on_connection)]
    count = rng.choice((0, 0, 0, 1, 1, 1, 2, 4))
    if count:
        mutate(rng, frames, _others(rng), count)
    return frames


# All sessions together


def _mixed(rng: Random, scripts: list[list[Step]]) -> list[Step]:
    steps: list[Step] = []
    waiting = [iter(script) for script in reversed(scripts)]
    running = [waiting.pop() for _ in range(min(AT_ONCE, len(waiting)))]
    while running:
        at = rng.randrange(len(running))
        step = next(running[at], None)
        if step is None:
            running.pop(at)
            if waiting:
                running.append(waiting.pop())
            continue
        steps.append(step)
        chance = rng.random()
        if chance < 0.45:
            steps.append(Step("turn"))
        elif chance < 0.65:
            steps.append(Step("stable"))
        elif chance < 0.75:
            steps.append(_event(rng, step.who))
    return steps


def _event(rng: Random, who: int) -> Step:
    """Something that is no client's doing."""
    return rng.choice((
        Step("wait", number=1), Step("wait", number=10), Step("wait", number=100), Step("wait", number=5000),
        Step("choke", who), Step("relax", who), Step("choke", who), Step("relax", who), Step("alarm", number=1),
        Step("alarm", number=0), Step("busy", number=1), Step("alarm", number=0),
        Step("policy", number=rng.randrange(5)),
        Step("overdue", number=4000), Step("force", who), Step("empty", number=rng.randrange(3)),
    ))  # fmt: skip
