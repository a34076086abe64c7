"""Regular expressions of callers, which are matched on the event loop.

`re` cannot be stopped once it tries: a repeat within a repeat, or alternatives within one, may take it longer than a node lives
to say no to a name of forty letters. Nobody needs them to choose queues, so they are refused before anything is matched. Policies
are not looked at so: they may come from RabbitMQ as they are, and those who may set them are trusted with more.
"""

from __future__ import annotations

import re
from typing import Final

REASON: Final = "a group that is repeated may hold no repeat and no alternatives, for matching it could take for ever"
_TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|\(\?[#:=!<>P]*|.", re.DOTALL)
_REPEATS: Final = ("*", "+")


def may_take_for_ever(pattern: str) -> bool:
    """Whether a group that is repeated holds something that can match in more than one way."""
    holds = [False]             # for each open group, whether such a thing is in it
    closed = False              # whether the group that ends right here held one
    for part in _TOKEN.findall(pattern):
        is_repeat = part in _REPEATS or (part.startswith("{") and len(part) > 2)
        if is_repeat and closed:
            return True
        closed = False
        if part.startswith("("):
            holds.append(False)
        elif part == ")" and len(holds) > 1:
            closed = holds.pop()
            holds[-1] |= closed
        elif part in ("|", "?") or (is_repeat and (part in _REPEATS or "," in part)):
            holds[-1] = True
    return False
