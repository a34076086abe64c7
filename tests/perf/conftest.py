"""The server process of the live test is that of the compatibility tests."""

from __future__ import annotations

from compat.conftest import broker, connect, vhost

__all__ = ["broker", "connect", "vhost"]
