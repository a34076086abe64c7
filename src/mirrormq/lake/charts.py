"""Plots as SVG, drawn by hand so that a report is one file that any browser shows, without a script."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 240
LEFT: Final = 70
BOTTOM: Final = 34
TOP: Final = 14
RIGHT: Final = 16
COLOURS: Final = ("#3b6ea8", "#d1793b", "#4b9a6a", "#9a4b7f", "#8a8a3a", "#5a5a5a")

Series = tuple[str, Sequence[float]]


def lines(times: Sequence[float], series: Sequence[Series], unit: str = "") -> str:
    """Lines over seconds since 1970."""
    if not times or not any(any(values) for _, values in series):
        return '<p class="none">Nothing happened.</p>'
    highest = max(max(values, default=0) for _, values in series) or 1
    top = nice(highest)
    parts = [_frame(top, unit), _time_axis(times)]
    for number, (_, values) in enumerate(series):
        points = " ".join(f"{_x(times, moment):.1f},{_y(value, top):.1f}" for moment, value in zip(times, values, strict=True))
        parts.append(f'<polyline fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2" points="{points}"/>')
    return _svg(parts, HEIGHT) + legend([name for name, _ in series])


def bars(rows: Sequence[tuple[str, Sequence[float]]], names: Sequence[str], unit: str = "") -> str:
    """Horizontal bars, one row for each label, one colour for each name."""
    if not rows:
        return '<p class="none">Nothing to show.</p>'
    highest = max(sum(values) for _, values in rows) or 1
    step = 26
    label_width = 220
    parts: list[str] = []
    for place, (label, values) in enumerate(rows):
        y = place * step + 6
        x = float(label_width)
        parts.append(f'<text x="{label_width - 8}" y="{y + 13}" text-anchor="end">{escape(_short(label))}</text>')
        for number, value in enumerate(values):
            width = value / highest * (WIDTH - label_width - 110)
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0):.1f}" height="18" fill="{COLOURS[number % len(COLOURS)]}"/>'
            )
            x += width
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{number_text(sum(values))}{escape(unit)}</text>')
    drawn = _svg(parts, len(rows) * step + 10)
    return drawn + legend(names) if names else drawn


def legend(names: Sequence[str]) -> str:
    items = [
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
        if name
    ]
    return f'<div class="legend">{"".join(items)}</div>' if items else ""


def nice(value: float) -> float:
    """The next round number."""
    step = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    for factor in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10):
        if value <= factor * step:
            return factor * step
    return value


def number_text(value: float) -> str:
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _short(text: str) -> str:
    return text if len(text) <= 32 else text[:31] + "…"


def _x(times: Sequence[float], moment: float) -> float:
    span = (times[-1] - times[0]) or 1
    return LEFT + (moment - times[0]) / span * (WIDTH - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)


def _frame(top: float, unit: str) -> str:
    parts: list[str] = []
    for quarter in range(5):
        value = top * quarter / 4
        y = _y(value, top)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number_text(value)}{escape(unit)}</text>')
    return "".join(parts)


def _time_axis(times: Sequence[float]) -> str:
    span = times[-1] - times[0]
    form = "%d %b %H:%M" if span > 86_400 else "%H:%M:%S" if span < 3600 else "%H:%M"
    parts: list[str] = []
    for quarter in range(5):
        moment = times[0] + span * quarter / 4
        anchor = "start" if quarter == 0 else "end" if quarter == 4 else "middle"
        text = datetime.fromtimestamp(moment, UTC).strftime(form)
        parts.append(f'<text x="{_x(times, moment):.1f}" y="{HEIGHT - 10}" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def _svg(parts: Sequence[str], height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
