"""What the store and the log say, in the machine's terms. Compiled."""

from __future__ import annotations

from mirrormq.log import lives
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.records import View


def machine_lineage(found: lives.Lineage) -> Lineage:
    """The machine may go back no further than the log can be cut."""
    lineage = Lineage()
    lineage.base = max(found.base, found.floor)
    lineage.end = found.end
    for epoch, first in zip(found.epochs, found.firsts, strict=True):
        if first <= lineage.base:
            lineage.epochs.clear()
            lineage.firsts.clear()
        lineage.epochs.append(epoch)
        lineage.firsts.append(max(first, lineage.base))
    return lineage


def view_from(record: dict[str, object]) -> View:
    """As the store has it."""
    ring = record["ring"]
    learners = record["learners"]
    epoch = record["epoch"]
    wish = record["wish"]
    assert isinstance(ring, list) and isinstance(learners, list) and isinstance(epoch, int) and isinstance(wish, int)
    return View(epoch, tuple(ring), tuple(learners), str(record["reason"]), bool(record["stopped"]), bool(record["forced"]), wish)


def view_record(view: View) -> dict[str, object]:
    return {"epoch": view.epoch, "ring": list(view.ring), "learners": list(view.learners), "reason": view.reason,
            "stopped": view.stopped, "forced": view.forced, "wish": view.wish}
