"""What the client tests share beyond the compatibility tests' support."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE = 60.0
PAUSE = 0.05


async def eventually_async(look: Callable[[], Awaitable[T]], *, within: float = DEADLINE) -> T:
    """The first truthy answer of `look`; an assertion error if there is none in time."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        answer = await look()
        if answer:
            return answer
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"still not true after {within} s: {look}")
