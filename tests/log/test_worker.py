"""The worker does jobs of several who ask at once: each gets its own answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mirrormq.log.syncer import Worker


def test_jobs_that_are_asked_for_at_once_are_all_done(tmp_path: Path) -> None:
    async def ask() -> None:
        worker = Worker(asyncio.get_running_loop())
        try:
            async with asyncio.timeout(60):
                await asyncio.gather(*(worker.perform(("note", str(tmp_path / str(number)), b"%d" % number))
                                       for number in range(20)))
        finally:
            worker.close()

    asyncio.run(ask())
    assert sorted(int(path.read_text()) for path in tmp_path.iterdir()) == list(range(20))


def test_a_job_that_fails_fails_for_the_one_who_asked(tmp_path: Path) -> None:
    async def ask() -> list[object]:
        worker = Worker(asyncio.get_running_loop())
        try:
            jobs = [("note", str(tmp_path / ("no folder/x" if number == 2 else str(number))), b"") for number in range(5)]
            async with asyncio.timeout(60):
                return await asyncio.gather(*(worker.perform(job) for job in jobs), return_exceptions=True)
        finally:
            worker.close()

    told = asyncio.run(ask())
    assert [isinstance(each, FileNotFoundError) for each in told] == [False, False, True, False, False]
    with pytest.raises(FileNotFoundError):
        (tmp_path / "2").read_bytes()
