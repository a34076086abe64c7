"""What forwarding asks of the link between two nodes: an ordered, reliable way for whole frames."""
from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerPort:
    """One session with another node, implemented by the node over its link. Frames that the end of a session cuts off are a tail:
    no frame arrives without all that were sent before it."""

    def __init__(self, name: str) -> None:
        self.name: str = name

    def send(self, kind: int, payload: bytes) -> None:
        """Whole frames, in order; the link buffers them and writes once a turn."""
        raise NotImplementedError

    def waiting(self) -> int:
        """Octets that the link could not send yet. Whoever saw more than CLOGGED is told by `Forwarding.drained`."""
        raise NotImplementedError
