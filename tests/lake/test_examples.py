"""The examples do what they say."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from compat.support import taken

from .support import KEPT, Node, fill, quiet, start_node

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Any:
    node = start_node(tmp_path_factory.mktemp("examples"))
    with node.channel("/") as channel:
        fill(channel, "orders", 50)
        channel.queue_declare("counts", durable=True)
    quiet(node.client("/"), "orders")
    yield node
    node.stop()


def run(patch: pytest.MonkeyPatch, name: str, *words: str) -> None:
    patch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(EXAMPLES / name))


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"queue_to_dataframe.py", "counts_by_key.py", "nightly_backup.py"}


def test_a_queue_becomes_a_data_frame(
    spark: Any, own: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "queue_to_dataframe.py", own.lake_url(), "orders")
    shown = capsys.readouterr().out
    assert "enqueue|   50" in shown
    assert "message 4" in shown


def test_counts_go_back_into_a_queue(spark: Any, own: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = (own.lake_url(), "orders", "counts", str(tmp_path / "checkpoint"))
    run(monkeypatch, "counts_by_key.py", *words)
    with own.channel("/") as channel:
        assert [json.loads(body) for body in taken(channel, "counts")] == [{"routing_key": "orders", "count": 50}]
        channel.basic_publish("", "orders", b"one more", KEPT)
        quiet(own.client("/"), "orders")
        run(monkeypatch, "counts_by_key.py", *words)
        assert [json.loads(body) for body in taken(channel, "counts")] == [{"routing_key": "orders", "count": 51}]


def test_a_backup_is_restored_into_an_empty_cluster(
    spark: Any, own: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spare").mkdir()
    spare = start_node(tmp_path / "spare")
    try:
        run(monkeypatch, "nightly_backup.py", own.lake_url(), str(tmp_path / "lake"), "orders", spare.lake_url())
        with own.channel("/") as channel, spare.channel("/") as restored:
            assert taken(restored, "orders") == taken(channel, "orders")
    finally:
        spare.stop()
