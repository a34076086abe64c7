"""Entries of a new leader carry its epoch, from the first one on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.nodes import Cluster
from mirrormq.broker.forward import forwarding
from mirrormq.broker.queue import Queue


@pytest.mark.skipif(not forwarding.__file__.endswith(".py"), reason="a compiled method cannot be watched")
def test_what_was_parked_for_a_new_leader_is_appended_in_its_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, "a", "b")
    cluster.begin()
    cluster.wait(10)
    cluster.publish(3)
    epochs: list[int] = []
    take_parked = forwarding.Forwarding.queue_here

    def watched(self: forwarding.Forwarding, queue: Queue) -> None:
        epochs.append(queue.builder.epoch)
        take_parked(self, queue)

    monkeypatch.setattr(forwarding.Forwarding, "queue_here", watched)
    cluster.kill("a")
    cluster.wait(60)
    assert cluster.leader.name == "b"
    assert epochs == [cluster.view.epoch]
