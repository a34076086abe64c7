"""The scenarios of the benchmark, as data. Every broker gets the same ones, with the same options.

Windows and batches are those of an ordinary busy client: 256 publishes outstanding, 512 messages of prefetch, one ack
for 64 messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SIZES = {"100b": 100, "1k": 1024, "64k": 65536}


@dataclass(frozen=True)
class Scenario:
    """One load. `backlog` messages are published first and then drained; `rate` makes it a measurement of latency."""

    name: str
    title: str
    size: int = 100
    persistent: bool = False
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    window: int = 256
    prefetch: int = 512
    multi_ack: int = 64
    rate: int = 0
    backlog: int = 0
    topic: bool = False

    @property
    def measures_latency(self) -> bool:
        """Whether the figure that counts is a latency."""
        return self.rate > 0


def _streams() -> list[Scenario]:
    found = []
    for persistent in (False, True):
        kind = "persistent" if persistent else "transient"
        for queues in (1, 4):
            for label, size in SIZES.items():
                name = f"{kind}-{queues}q-{label}"
                title = f"{kind}, {queues} queue{'s' * (queues > 1)}, {size} B"
                # A window of bytes rather than of messages: 256 messages of 64 KiB are 16 MiB in flight.
                window, prefetch, acks = (256, 512, 64) if size < 65536 else (32, 64, 16)
                found.append(Scenario(name, title, size, persistent, queues, queues, queues, window, prefetch, acks))
    return found


SCENARIOS = (
    *_streams(),
    Scenario("drain", "drain of a backlog, persistent, 100 B", persistent=True, backlog=1_000_000),
    Scenario("topic-10q", "topic exchange to 10 queues, 100 B", consumers=10, queues=10, topic=True),
    Scenario(
        "connections",
        "100 connections with small windows, 100 B",
        producers=50,
        consumers=50,
        queues=10,
        window=8,
        prefetch=16,
        multi_ack=4,
    ),
    Scenario("latency-transient", "latency at 1,000 a second, transient, 100 B", rate=1000, multi_ack=1),
    Scenario(
        "latency-persistent", "latency at 1,000 a second, persistent, 100 B", persistent=True, rate=1000, multi_ack=1
    ),
)


def chosen(only: str | None, *, quick: bool) -> list[Scenario]:
    """The scenarios whose name contains one of the words of `only`; smaller backlogs when it must be quick."""
    words = [word.strip() for word in (only or "").split(",") if word.strip()]
    picked = [one for one in SCENARIOS if not words or any(word in one.name for word in words)]
    return [replace(one, backlog=one.backlog // 20) if quick else one for one in picked]
