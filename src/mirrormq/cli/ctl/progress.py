"""How far a synchronisation is, drawn on a terminal until it is over; Ctrl-C ends the drawing, not the synchronisation."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.objects import queue_path

WIDTH: Final = 30
PAUSE: Final = 0.25
CLEAR: Final = "\r\x1b[K"


def bar(part: float) -> str:
    done = round(max(0.0, min(1.0, part)) * WIDTH)
    return "█" * done + "░" * (WIDTH - done)


def line_of(row: dict[str, Any]) -> str:
    """One mirror after another, the slowest last; empty when none is on its way."""
    learners: list[dict[str, Any]] = row.get("ring", {}).get("learners", [])
    shown = []
    for learner in sorted(learners, key=lambda learner: (learner["lag_entries"] is not None, learner["lag_entries"])):
        synced, total = learner["synced"], max(1, row.get("messages", 0))
        if synced is None:
            lag = learner["lag_entries"]
            shown.append(f"{learner['node']}: {'how far it is behind is not known' if lag is None else f'{lag} entries behind'}")
        else:
            shown.append(f"{learner['node']} {bar(synced / total)} {min(100, 100 * synced // total)} %")
    return "  ".join(shown)


def follow(context: Context) -> None:
    if not context.out.is_terminal or context.out.is_quiet:
        return
    try:
        while line := _look(context):
            sys.stdout.write(CLEAR + line)
            sys.stdout.flush()
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    else:
        sys.stdout.write(CLEAR)


def _look(context: Context) -> str:
    answer = context.client.request("GET", queue_path(context) + "?columns=messages,ring")
    return line_of(answer.body) if answer.is_good and isinstance(answer.body, dict) else ""
