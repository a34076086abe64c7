"""Making a failing scenario small: steps are left out as long as the same failure stays."""

from __future__ import annotations

import re

from mirrormq.wire.errors import AMQPError
from mirrormq.wire.frames import Frame, FrameReader
from mirrormq.wire.methods import decode_method

from .runner import Runner
from .scenario import Scenario, Step


def failure(scenario: Scenario) -> str:
    """What is wrong, without the numbers in it; nothing if all is well."""
    try:
        Runner().run(scenario)
    except Exception as fault:  # noqa: BLE001  whatever it is, it is what we look for
        return re.sub(r"\d+", "N", f"{type(fault).__name__}: {fault}")
    return ""


def split_frames(scenario: Scenario) -> Scenario:
    """The same with one frame to a step, where the bytes are frames."""
    steps: list[Step] = []
    for step in scenario.steps:
        pieces = _pieces(step.data) if step.what == "feed" else []
        steps += [step._replace(data=piece) for piece in pieces] if len(pieces) > 1 else [step]
    return scenario._replace(steps=steps)


def _pieces(data: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    if data[:4] == b"AMQP":
        pieces.append(data[:8])
        data = data[8:]
    while len(data) >= 8:
        end = int.from_bytes(data[3:7], "big") + 8
        if end > len(data) or data[end - 1] != 0xCE:
            break
        pieces.append(data[:end])
        data = data[end:]
    return [*pieces, data] if data else pieces


def shrink(scenario: Scenario) -> Scenario:
    wanted = failure(scenario)
    for candidate in (split_frames(scenario), scenario):
        if failure(candidate) == wanted:
            scenario = candidate
            break
    size = len(scenario.steps) // 2
    while size:
        at = 0
        while at < len(scenario.steps):
            fewer = scenario._replace(steps=scenario.steps[:at] + scenario.steps[at + size :])
            if failure(fewer) == wanted:
                scenario = fewer
            else:
                at += size
        size //= 2
    return scenario


def describe(scenario: Scenario) -> str:
    """The scenario for people."""
    limits = f"frame_max {scenario.frame_max}, max_message_size {scenario.max_message_size}, budget {scenario.budget}"
    return "\n".join([limits, *[_sentence(step) for step in scenario.steps]])


def _sentence(step: Step) -> str:
    return f"  {step.what} {step.who} {step.number or ''} {_words(step.data)}".rstrip()


def _words(data: bytes) -> str:
    if data[:4] == b"AMQP":
        return f"{data[:8]!r} {_words(data[8:])}"
    try:
        frames = FrameReader(0).feed(data)
    except AMQPError:
        frames = []
    known = sum(len(each.payload) + 8 for each in frames)
    rest = f" {data[known:]!r}" if known < len(data) else ""
    return ", ".join([_word(each) for each in frames]) + rest


def _word(each: Frame) -> str:
    if each.kind == 1:
        try:
            return f"{each.channel}:{decode_method(each.payload)!r}"
        except AMQPError as error:
            return f"{each.channel}:{each.payload!r} ({error})"
    shown = each.payload if len(each.payload) < 80 else each.payload[:80] + b"..."
    return f"{each.channel}:type {each.kind} {shown!r}"
