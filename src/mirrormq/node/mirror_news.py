"""What becomes of a queue's mirrors, for people: lines of the log with the words "mirror node", and events.

Rules
 1. The node that leads in a view tells how the view differs from the one before it, so each change is told once.
 2. A mirror node tells itself when it begins to copy messages that it lacks, and how that ends. One that gets all it lacks from
    the log copies nothing, and tells the end alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.mirror.machine.records import View
from mirrormq.wire.table import Table

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

JOINED: Final = "queue.mirror.joined"
LEFT: Final = "queue.mirror.left"
SYNCHRONISED: Final = "queue.mirror.synchronised"
UNSYNCHRONISED: Final = "queue.mirror.unsynchronised"
STARTED: Final = "queue.mirror.sync.started"
ENDED: Final = "queue.mirror.sync.ended"


class MirrorNews:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._me = runtime.broker.node_name
        self._copying: dict[int, int] = {}      # before which entry of its log, by queue: a log that begins anew copies anew

    def born(self, front: AwayQueue, view: View) -> None:
        """A new queue of this node: its mirrors have been in sync from its beginning."""
        self._compare(front, View(0, view.ring[:1]), view)

    def view_changes(self, front: AwayQueue, before: View, view: View) -> None:
        """Once for each view; it may have skipped some."""
        if view.ring[:1] == (self._me,):
            self._compare(front, before, view)
        if self._me in before.learners and self._me not in view.learners:
            has_copied = self._copying.pop(front.log_id, None) is not None
            if view.forced:
                self._tell(ENDED, front, self._me, view, "has given up its synchronisation: it leads with what it has")
            elif self._me in view.ring:
                words = "has ended its synchronisation and is in sync" if has_copied else \
                    "has ended its synchronisation, from the log alone, and is in sync"
                self._tell(ENDED, front, self._me, view, words)
            elif has_copied:
                self._tell(ENDED, front, self._me, view, "has given up its synchronisation: it holds the queue no longer")

    def copies(self, front: AwayQueue, view: View, base: int) -> None:
        """This node is about to install a piece of a full sync."""
        if self._copying.get(front.log_id) != base:
            self._copying[front.log_id] = base
            self._tell(STARTED, front, self._me, view, "begins its synchronisation: it copies the messages that it lacks")

    def gone(self, log_id: int) -> None:
        self._copying.pop(log_id, None)

    def _compare(self, front: AwayQueue, before: View, view: View) -> None:
        why = f": {view.reason}" if view.reason else ""
        for node in (*view.ring, *view.learners):
            is_synchronised = node in view.ring
            if not before.holds(node):
                self._tell(JOINED, front, node, view, f"joins{'' if is_synchronised else ', not in sync yet'}{why}")
            elif is_synchronised and node in before.learners and not view.forced:
                self._tell(SYNCHRONISED, front, node, view, f"is in sync{why}")
            elif not is_synchronised and node in before.ring:
                self._tell(UNSYNCHRONISED, front, node, view, f"is not in sync any more{why}")
        for node in (*before.ring, *before.learners):
            if not view.holds(node):
                self._tell(LEFT, front, node, view, f"leaves{why}")

    def _tell(self, event: str, front: AwayQueue, node: str, view: View, words: str) -> None:
        self._runtime.report("info", f"queue '{front.name}' in vhost '{front.vhost}': mirror node {node} {words}")
        events = self._runtime.broker.events
        if events.is_heard():
            about: Table = {"name": front.name, "vhost": front.vhost, "node": node, "leader": view.ring[0] if view.ring else "",
                            "synchronised": node in view.ring and not view.forced, "epoch": view.epoch, "reason": view.reason}
            events.tell(event, about)
