"""From runs to a table: medians, ratios to the baseline (more than 1 is better), Markdown and JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from generators import Figures
from scenarios import Scenario


@dataclass(frozen=True)
class Measure:
    """One figure of a scenario: its field in `Figures`, its unit, and whether less is better."""

    label: str
    field: str
    unit: str
    less_is_better: bool = False


THROUGHPUT = (Measure("", "received", "msg/s"),)
LATENCY = (
    Measure(", p50 to delivery", "delivery_p50", "µs", less_is_better=True),
    Measure(", p99 to delivery", "delivery_p99", "µs", less_is_better=True),
    Measure(", p50 to confirm", "confirm_p50", "µs", less_is_better=True),
    Measure(", p99 to confirm", "confirm_p99", "µs", less_is_better=True),
)


@dataclass
class Results:
    """All runs: by scenario, by contender. `baseline` names the contender that the others are compared with."""

    titles: dict[str, str]
    facts: dict[str, Any]
    baseline: str = "rabbitmq"
    runs: dict[str, dict[str, list[Figures]]] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, scenario: Scenario, contender: str, figures: Figures) -> None:
        """One more run."""
        self.scenarios[scenario.name] = scenario
        self.runs.setdefault(scenario.name, {}).setdefault(contender, []).append(figures)

    def median(self, scenario: str, contender: str, measure: Measure) -> float | None:
        """The median of one figure; None when the contender has no run."""
        runs = self.runs.get(scenario, {}).get(contender)
        return median(getattr(figures, measure.field) for figures in runs) if runs else None

    def ratio(self, scenario: str, contender: str, measure: Measure) -> float | None:
        """How many times better than the baseline."""
        ours, theirs = self.median(scenario, contender, measure), self.median(scenario, self.baseline, measure)
        if not ours or not theirs:
            return None
        return theirs / ours if measure.less_is_better else ours / theirs


def measures_of(scenario: Scenario) -> tuple[Measure, ...]:
    """What counts in a scenario."""
    return LATENCY if scenario.measures_latency else THROUGHPUT


def machine() -> dict[str, Any]:
    """Where this was measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def rows(results: Results) -> list[list[str]]:
    """The table: one row for each figure of each scenario, the head first."""
    baseline = results.baseline
    others = [contender for contender in results.titles if contender != baseline]
    head = ["scenario"] + ([results.titles[baseline]] if baseline in results.titles else [])
    for contender in others:
        head += [results.titles[contender]] + (["ratio"] if baseline in results.titles else [])
    table = [head]
    for name, scenario in results.scenarios.items():
        table += [_row(results, name, scenario, measure, others) for measure in measures_of(scenario)]
    return table


def _row(results: Results, name: str, scenario: Scenario, measure: Measure, others: list[str]) -> list[str]:
    row = [scenario.title + measure.label]
    if results.baseline in results.titles:
        row.append(_number(results.median(name, results.baseline, measure), measure))
    for contender in others:
        row.append(_number(results.median(name, contender, measure), measure))
        if results.baseline in results.titles:
            ratio = results.ratio(name, contender, measure)
            row.append(f"{ratio:.2f}x" if ratio else "-")
    return row


def _number(value: float | None, measure: Measure) -> str:
    return "-" if value is None else f"{value:,.0f} {measure.unit}"


def markdown(results: Results) -> str:
    """The report as Markdown."""
    table = rows(results)
    lines = ["# Benchmark", "", _told(results), ""]
    lines += ["| " + " | ".join(table[0]) + " |", "|" + " --- |" + " ---: |" * (len(table[0]) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in table[1:]]
    lines += ["", *[f"Left out: {text}" for text in results.skipped]]
    return "\n".join(lines).rstrip() + "\n"


def _told(results: Results) -> str:
    facts = results.facts
    baseline = results.titles.get(results.baseline, "RabbitMQ")
    return (
        f"{facts['date']}; {facts['cores']} cores, {facts['processor']}; {facts['system']}; Python {facts['python']}; "
        f"load before the start {facts['load_before']}. Load from {facts['generator']}, median of {facts['runs']} runs "
        f"of {facts['seconds']:g} s, the brokers in turn. A ratio above 1 is better than {baseline}."
    )


def document(results: Results) -> dict[str, Any]:
    """The report for programs: facts, medians, ratios and every run."""
    found = {}
    for name, scenario in results.scenarios.items():
        measures = measures_of(scenario)
        contenders = results.runs[name]
        found[name] = {
            "title": scenario.title,
            "median": {one: {m.field: results.median(name, one, m) for m in measures} for one in contenders},
            "ratio": {one: {m.field: results.ratio(name, one, m) for m in measures} for one in contenders},
            "runs": {one: [asdict(figures) for figures in runs] for one, runs in contenders.items()},
        }
    return {"facts": results.facts, "contenders": results.titles, "scenarios": found, "skipped": results.skipped}


def write(results: Results, folder: Path) -> tuple[Path, Path]:
    """Write both forms, named by the time."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = datetime.now(UTC).strftime("bench-%Y%m%d-%H%M%S")
    text, data = folder / f"{stem}.md", folder / f"{stem}.json"
    text.write_text(markdown(results))
    data.write_text(json.dumps(document(results), indent=1) + "\n")
    return text, data


def lines(figures: dict[str, Any]) -> str:
    """Figures that stand alone, or in lists, one name a line."""
    found = []
    for name, value in figures.items():
        values = value if isinstance(value, list) else [value]
        found.append(f"{name:70}" + ", ".join(f"{each:,.0f}" if each >= 100 else f"{each:.2f}" for each in values))
    return "\n".join(found)
