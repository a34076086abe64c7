"""What the broker needs of the process around it, and the limits that it is given."""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from mirrormq.broker.bindings import Binding
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.forward.away import AwayQueue
    from mirrormq.broker.metadata import Record
    from mirrormq.broker.queue import Queue


UNLIMITED: Final = 1 << 29      # bytes of a frame where there is no limit: no message may be larger


class Limits:
    """Of this node; where -1 is the default it means that there is none."""

    def __init__(self) -> None:
        self.channel_max: int = 2047
        self.frame_max: int = 131072
        self.first_frame_max: int = 4096
        self.heartbeat: int = 60
        self.max_message_size: int = 134217728
        self.channels: int = -1             # all open channels of the node
        self.consumers: int = -1            # of one channel
        self.vhosts: int = -1
        self.queues: int = -1               # of the whole cluster


@mypyc_attr(allow_interpreted_subclasses=True)
class Host:
    """What the node does for the broker."""

    def schedule(self) -> None:
        """Call `turn` soon."""
        raise NotImplementedError

    def wake_at(self, when: int) -> None:
        """Call `fire` at this time in milliseconds."""
        raise NotImplementedError

    def token(self) -> str:
        """A fresh unguessable name part."""
        raise NotImplementedError

    def fresh_id(self) -> int:
        """An even number below 2^62 that nothing else in the cluster has."""
        raise NotImplementedError

    def place(self, vhost: str, name: str, locator: str) -> str:
        """The node that a new queue is to live on; empty for this one. `locator` is the queue's own argument, if it has one."""
        return ""

    def ring_for(self, vhost: str, name: str, home: str) -> list[str]:
        """The nodes that a new queue is mirrored on, its home first; empty if it is not mirrored."""
        return []

    def view_seen(self, queue: AwayQueue, view: Record, revision: int) -> None:
        """Who holds this mirrored queue, as the store has it."""

    def hosts(self, log_id: int, queue: Queue) -> None:
        """A queue of this node has become a mirrored one."""

    def queue_gone(self, log_id: int) -> None:
        """A mirrored queue is deleted."""

    def purged(self, queue: Queue, first: int, index: int, count: int, size: int) -> None:
        """The entry `index` of the queue's log ended so many persistent messages, of which `first` is the first."""

    def queue_ends(self, queue: Queue, bindings: list[Binding]) -> None:
        """A queue is being removed, which had these bindings."""

    def policies_changed(self) -> None:
        """What they say of mirrors may be different now."""

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """It is set, changed or gone, before anything that was agreed on later is applied."""

    def report(self, level: str, text: str) -> None:
        raise NotImplementedError

    def fault(self, error: BaseException) -> None:
        """A fault of the broker's own, for the log with its traceback."""
        raise NotImplementedError

    def watch_closing(self, connection: Connection) -> None:
        """End the connection if its peer does not answer our close in time."""
        raise NotImplementedError
