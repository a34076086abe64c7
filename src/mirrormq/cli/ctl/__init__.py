"""`mirrormqctl`: RabbitMQ's command line for a node, over its management API."""

from __future__ import annotations

from mirrormq.cli.ctl.main import main

__all__ = ["main"]
