"""MirrorMQ: an AMQP 0-9-1 broker that behaves as RabbitMQ does, and mirrors its queues without losing messages."""

from __future__ import annotations

import importlib
from typing import Final

__version__: Final = "0.1.0"


def is_compiled() -> bool:
    """Whether the hot modules in use are the ones that mypyc compiled."""
    return str(importlib.import_module("mirrormq.wire.table").__file__).endswith((".so", ".pyd"))


def build_info() -> str:
    """The words for banners and overviews: "0.1.0 (compiled)"."""
    return f"{__version__} ({'compiled' if is_compiled() else 'uncompiled'})"
