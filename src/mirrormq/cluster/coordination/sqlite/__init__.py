"""The adapter for one machine: a file, and FIFOs beside it."""

from __future__ import annotations

from .store import FileCoordination

__all__ = ["FileCoordination"]
