"""Memory and disk alarms: raised at the limit, cleared by themselves, and in RabbitMQ's words."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mirrormq.node.alarms import Alarms, Limits, disk_interval, limits_of
from mirrormq.node.config import load_config
from mirrormq.node.pressure import Pressure
from mirrormq.node.resources import free_disk, keep_memory, release_memory, resident_memory, total_memory


def alarms() -> Alarms:
    return Alarms(Limits(memory=1000, disk=50))


def test_nothing_is_raised_inside_the_limits() -> None:
    watched = alarms()
    assert watched.sample(memory=1000, disk=50) == []
    assert watched.raised == frozenset()
    assert watched.blocked_reason == ""


def test_memory_above_its_limit_raises_the_alarm_once() -> None:
    watched = alarms()
    assert watched.sample(memory=1001, disk=100) == [
        "memory alarm raised, publishers are blocked: 1001 bytes of memory used, limit 1000"
    ]
    assert watched.sample(memory=1500, disk=100) == []
    assert watched.raised == {"memory"}
    assert watched.blocked_reason == "low on memory"


def test_an_alarm_clears_by_itself() -> None:
    watched = alarms()
    watched.sample(memory=1001, disk=10)
    assert watched.sample(memory=900, disk=60) == [
        "memory alarm cleared: 900 bytes of memory used, limit 1000",
        "disk alarm cleared: 60 bytes of disk free, limit 50",
    ]
    assert watched.raised == frozenset()


def test_both_alarms_are_told_together() -> None:
    watched = alarms()
    watched.sample(memory=1001, disk=49)
    assert watched.blocked_reason == "low on memory & disk"


def test_a_sample_that_failed_changes_nothing() -> None:
    watched = alarms()
    watched.sample(memory=1001, disk=49)
    assert watched.sample(memory=None, disk=None) == []
    assert watched.raised == {"memory", "disk"}


def test_new_limits_count_at_once() -> None:
    watched = alarms()
    watched.sample(memory=500, disk=100)
    assert len(watched.set_limits(Limits(memory=100, disk=50))) == 1
    assert watched.raised == {"memory"}


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, Limits(400, 50_000_000)),
        ({"vm_memory_high_watermark.relative": "0.5"}, Limits(500, 50_000_000)),
        ({"vm_memory_high_watermark.absolute": "600"}, Limits(600, 50_000_000)),
        ({"vm_memory_high_watermark.absolute": "2GB"}, Limits(1000, 50_000_000)),
        ({"total_memory_available_override_value": "2000"}, Limits(800, 50_000_000)),
        ({"disk_free_limit.absolute": "1GB"}, Limits(400, 1_000_000_000)),
        ({"disk_free_limit.relative": "1.5"}, Limits(400, 1500)),
        ({"disk_free_limit.relative": "1.5", "disk_free_limit.absolute": "7"}, Limits(400, 1500)),
    ],
)
def test_limits_come_from_the_configuration(settings: dict[str, str], limits: Limits) -> None:
    assert limits_of(load_config(None, {}, settings), total_memory=1000) == limits


def test_a_disk_near_its_limit_is_looked_at_sooner() -> None:
    assert disk_interval(10**12, 50) == 10
    assert disk_interval(10**9, 0) == 8
    assert disk_interval(60, 50) == 0.1
    assert disk_interval(0, 50) == 0.1


def test_the_samples_are_of_this_process_and_disk(tmp_path: Path) -> None:
    assert 1 << 20 < resident_memory() < total_memory()
    assert (free_disk(tmp_path) or 0) > 0
    assert free_disk(tmp_path / "missing") is None
    release_memory()
    keep_memory()


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/\n", {"memory.max": "1048576"}),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "1048576", "memory.max": "2097152"}),
        ("4:cpu,memory:/x\n3:cpuset:/\n", {"memory/x/memory.limit_in_bytes": "1048576"}),
    ],
)
def test_memory_is_that_of_the_cgroup_where_that_is_less(
    tmp_path: Path, membership: str, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text + "\n")
    (tmp_path / "cgroup").write_text(membership)
    assert total_memory(tmp_path / "fs", tmp_path / "cgroup") == 1 << 20


def test_without_cgroups_memory_is_that_of_the_machine(tmp_path: Path) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert total_memory(tmp_path, tmp_path / "missing") == machine


class Told:
    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], bool]] = []
        self.sentences: list[str] = []
        self.cleared = asyncio.Event()

    def __call__(self, alarms: dict[str, str], *, is_busy: bool) -> None:
        self.calls.append((alarms, is_busy))
        if not alarms:
            self.cleared.set()

    def report(self, level: str, sentence: str) -> None:
        self.sentences.append(f"{level}: {sentence}")


def pressure(tmp_path: Path, **settings: str) -> tuple[Pressure, Told]:
    told = Told()
    options = {"data_dir": tmp_path} | {key.replace("__", "."): value for key, value in settings.items()}
    return Pressure(load_config(None, {}, options), told, told.report), told


async def test_a_node_above_its_memory_limit_is_told_at_the_start(tmp_path: Path) -> None:
    watched, told = pressure(tmp_path, vm_memory_high_watermark__absolute="1MB")
    watched.start(asyncio.get_running_loop())
    watched.stop()
    assert told.calls == [({"memory": "low on memory"}, False)]
    assert told.sentences[0].startswith("warning: memory alarm raised, publishers are blocked: ")


async def test_a_node_looks_again_as_often_as_it_is_told_to(tmp_path: Path) -> None:
    watched, told = pressure(tmp_path, disk_free_limit__absolute="1000PB", memory_monitor_interval="1")
    watched.start(asyncio.get_running_loop())
    watched.alarms.limits = Limits(watched.alarms.limits.memory, 0)
    await asyncio.wait_for(told.cleared.wait(), 60)
    watched.stop()
    assert [alarms for alarms, _ in told.calls] == [{"disk": "low on disk"}, {}]


def test_a_disk_that_fills_and_empties_is_noticed(tmp_path: Path) -> None:
    watched, told = pressure(tmp_path, disk_free_limit__absolute="1000PB", vm_memory_high_watermark__relative="1.0")
    watched.sample()
    watched.alarms.limits = Limits(watched.alarms.limits.memory, 0)
    watched.sample()
    assert told.calls == [({"disk": "low on disk"}, False), ({}, False)]


def test_a_log_that_cannot_be_written_is_a_disk_alarm_until_it_can(tmp_path: Path) -> None:
    watched, told = pressure(tmp_path)
    watched.set_fault("no space left on device")
    watched.set_fault("no space left on device")
    watched.set_fault(None)
    assert told.calls == [({"disk": "low on disk"}, False), ({}, False)]


def test_a_busy_disk_is_told_without_an_alarm(tmp_path: Path) -> None:
    watched, told = pressure(tmp_path)
    watched.set_busy(is_busy=True)
    watched.set_busy(is_busy=True)
    watched.set_busy(is_busy=False)
    assert told.calls == [({}, True), ({}, False)]


def test_a_sample_is_what_the_system_says(tmp_path: Path) -> None:
    watched, told = pressure(tmp_path, vm_memory_high_watermark__relative="1.0", disk_free_limit__absolute="0")
    watched.sample()
    assert (watched.alarms.memory_used or 0) > 1 << 20
    assert (watched.alarms.disk_free or 0) > 0
    assert told.calls == []
