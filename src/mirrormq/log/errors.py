"""What can go wrong with the files, each kind by name. The message is always a whole sentence for the operator."""

from __future__ import annotations


class LogError(Exception):
    """Something in the world (a file, a disk, a caller's data from outside) is not as the log needs it."""


class DamagedChunk(LogError):
    """Bytes that should be a chunk are not one: a flipped byte, a torn write, a hole."""


class FormatRefused(LogError):
    """The directory was written by a newer version, or is not one of ours."""


class QueueDamaged(LogError):
    """The queue's log has damage; it is named and kept, but neither read nor written."""


class CannotCut(LogError):
    """The log's state before that place is not known any more; a full sync puts that right."""
