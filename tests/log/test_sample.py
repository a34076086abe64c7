"""The sample directory of each format version stays readable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mirrormq.log import lives
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.store import Store

from .make_sample import BACKLOG, backlog, describe

SAMPLE = Path(__file__).with_name("sample-v1")


def test_the_sample_of_version_1_is_read_as_it_was_written(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    expected = json.loads((SAMPLE / "expected.json").read_text())
    store = Store(tmp_path / "data")
    found = describe(store, store.open())
    assert found == expected
    assert store.stats().segment_files > 1
    store.close()
    assert (tmp_path / "data" / "FORMAT").read_text() == "2\n"
    store = Store(tmp_path / "data")
    assert describe(store, store.open()) == expected
    store.close()


def test_the_sample_of_version_1_can_be_written_on(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    store = Store(tmp_path / "data", wal_bytes=12_000, segment_bytes=10_000)
    store.open()
    for queue_id in list(store._queues):
        if queue_id != BACKLOG:
            store.drop(queue_id)
    store.commit(roll=True)
    run_steps(store, due_work(store, lambda queue_id: backlog(store, 20)))
    store.close()
    store = Store(tmp_path / "data")
    recovery = store.open()
    assert list(recovery.queues) == [BACKLOG]
    assert recovery.queues[BACKLOG].count == 221
    store.close()


def test_in_the_sample_of_version_1_nobody_takes_thinned_chunks_for_the_log(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "data")
    store = Store(tmp_path / "data")
    store.open()
    found = lives.lineage(store, BACKLOG)
    assert (found.base, found.epochs, found.firsts) == (0, [1], [1])
    assert found.first_kept > 1
    assert lives.read_chunks(store, BACKLOG, found.first_kept - 1, 1000) == []
    store.close()
