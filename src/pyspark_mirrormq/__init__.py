"""Where Spark looks for the data source `mirrormq`: the first `format("mirrormq")` of a session imports this module."""

from __future__ import annotations

from mirrormq.lake.datasource import MirrorSource as DefaultSource

__all__ = ["DefaultSource"]
