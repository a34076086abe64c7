"""The judgement of `--verify`: what the producers published against what the consumers saw.

A message is lost when it was confirmed (or, without confirms, written) and neither refused nor returned, and a queue
that it was routed to and that we consume never delivered it. A publish without an answer may come or not.

A run that audits another one knows only what came: the numbers of each producer, from 1 up to the highest that any
queue delivered or that -C tells, must be in each queue that had one of them; and all consumers together get what -D tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mirrormq.cli.perf.settings import Settings

EXAMPLES = 5


@dataclass
class Evidence:
    """What one process knows: per producer how many it sent and which of those are excused; per queue what was seen."""

    sent: dict[int, int] = field(default_factory=dict)
    excused: dict[int, list[int]] = field(default_factory=dict)
    seen: dict[tuple[str, int], bytes] = field(default_factory=dict)
    duplicated: int = 0
    disordered: int = 0
    again: int = 0
    foreign: int = 0


@dataclass(frozen=True)
class Verdict:
    """The outcome. Redelivered repeats (`again`) and messages of other runs (`foreign`) are no faults."""

    checked: int
    lost: int
    duplicated: int
    disordered: int
    again: int
    foreign: int
    examples: tuple[str, ...]

    none_came: bool = False

    @property
    def good(self) -> bool:
        """Whether every message came once and in order."""
        return not (self.lost or self.duplicated or self.disordered or self.none_came)

    def __str__(self) -> str:
        if self.none_came:
            return f"not verified: of the run with this name no message came, of others {self.foreign}"
        if self.good:
            return f"verified {self.checked} messages: none lost, none doubled, all in order"
        told = f"{self.lost} lost, {self.duplicated} doubled, {self.disordered} out of order of {self.checked} messages"
        return f"not verified: {told}" + (f" (lost: {', '.join(self.examples)})" if self.examples else "")


def gathered(parts: Iterable[Evidence]) -> Evidence:
    """The evidence of several processes as one; a message that two of them saw was doubled."""
    whole = Evidence()
    for part in parts:
        whole.sent |= part.sent
        whole.excused |= part.excused
        whole.duplicated += part.duplicated + _unite(whole.seen, part.seen)
        whole.disordered += part.disordered
        whole.again += part.again
        whole.foreign += part.foreign
    return whole


def _unite(known: dict[tuple[str, int], bytes], more: dict[tuple[str, int], bytes]) -> int:
    doubled = 0
    for place, bits in more.items():
        mine, theirs = _bits(known.get(place, b"")), _bits(bits)
        doubled += (mine & theirs).bit_count()
        known[place] = _bytes(mine | theirs)
    return doubled


def judge(settings: Settings, evidence: Evidence) -> Verdict:
    """Compare what was sent with what was seen."""
    checked, lost, came = 0, 0, 0
    examples: list[str] = []
    published = _told(settings, evidence) if settings.audits else evidence.sent
    for producer, sent in sorted(published.items()):
        due = _due(sent, evidence.excused.get(producer, []))
        for queue, seen in _seen_by_queue(settings, evidence, producer):
            missing = due & ~seen
            checked += due.bit_count()
            lost += missing.bit_count()
            came += seen.bit_count()
            examples += _name(missing, producer, queue)
    if settings.audits:
        absent = settings.consumer_messages * settings.consumers - came - evidence.duplicated - evidence.again - evidence.foreign
        lost = max(lost, absent)
    return Verdict(
        checked,
        lost,
        evidence.duplicated,
        evidence.disordered,
        evidence.again,
        evidence.foreign,
        tuple(examples[:EXAMPLES]),
        none_came=settings.audits and not came,
    )


def _told(settings: Settings, evidence: Evidence) -> dict[int, int]:
    """How many messages each producer of the other run sent, as far as it can be known here."""
    sent: dict[int, int] = {}
    for (_, producer), bits in evidence.seen.items():
        highest = _bits(bits).bit_length() - 1
        sent[producer] = max(sent.get(producer, settings.producer_messages), highest)
    return sent


def _due(sent: int, excused: list[int]) -> int:
    due = (1 << (sent + 1)) - 2
    mask = bytearray(sent // 8 + 1)
    for sequence in excused:
        mask[sequence >> 3] |= 1 << (sequence & 7)
    return due & ~_bits(mask)


def _seen_by_queue(settings: Settings, evidence: Evidence, producer: int) -> list[tuple[str, int]]:
    reached = settings.queues_reached(producer)
    consumed = settings.consumed_queues()
    if reached is not None and settings.audits:
        return [(queue, _bits(bits)) for (queue, of), bits in evidence.seen.items() if of == producer]
    if reached is not None:
        return [(queue, _bits(evidence.seen.get((queue, producer), b""))) for queue in reached if queue in consumed]
    union = 0
    for (_, of), bits in evidence.seen.items():
        if of == producer:
            union |= _bits(bits)
    return [("any queue", union)]


def _name(missing: int, producer: int, queue: str) -> list[str]:
    names: list[str] = []
    while missing and len(names) < EXAMPLES:
        lowest = (missing & -missing).bit_length() - 1
        names.append(f"number {lowest} of producer {producer} in {queue}")
        missing &= missing - 1
    return names


def _bits(data: bytes | bytearray) -> int:
    return int.from_bytes(data, "little")


def _bytes(bits: int) -> bytes:
    return bits.to_bytes(bits.bit_length() // 8 + 1, "little")
