"""What can go wrong on a link. Each text is a whole sentence for the log; one kind is raised inside for each guilty side."""

from __future__ import annotations


class LinkError(Exception):
    """The base of all of them."""


class HandshakeFailed(LinkError):
    """Before authentication: whoever is there has not proved that it knows the secret, or is no node at all."""


class WrongSecret(HandshakeFailed):
    """The two sides have different secrets, and the acceptor has said so or found it out."""


class Refused(LinkError):
    """The other side knows the secret and will not link; the text says why."""


class LinkFault(LinkError):
    """An authenticated peer broke the rules of the session."""


class LinkSilent(LinkError):
    """Nothing came from the peer for longer than the silence limit."""


class FrameTooLarge(LinkError):
    """The user of this side wants to send more in one frame than its lane may carry."""


class Unreachable(LinkError):
    """No connection, or no answer in time."""


class VisitFailed(LinkError):
    """The other node took the request and answered with a failure; the text is its sentence."""
