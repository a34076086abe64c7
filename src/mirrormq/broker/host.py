"""What the broker needs of the process around it, and the limits that it is given."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from mirrormq.broker.connection import Connection


class Limits:
    def __init__(self) -> None:
        self.channel_max: int = 2047
        self.frame_max: int = 131072
        self.first_frame_max: int = 4096
        self.heartbeat: int = 60
        self.max_message_size: int = 134217728


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

    def report(self, level: str, text: str) -> None:
        raise NotImplementedError

    def fault(self, error: BaseException) -> None:
        """A fault of the broker's own, for the log with its traceback."""
        raise NotImplementedError

    def watch_closing(self, connection: Connection) -> None:
        """End the connection if its peer does not answer our close in time."""
        raise NotImplementedError
