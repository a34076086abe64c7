"""The benchmark's scenarios, options and report; the brokers themselves are started by 'make bench'."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parent.parent.parent / "bench"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """module(name): a module of the benchmark, which is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(BENCH)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def figures(module: Any, received: float, delivery_p50: float = 100.0) -> Any:
    return module("generators").Figures(received, received, received, 50.0, 90.0, delivery_p50, 900.0)


def results(module: Any) -> Any:
    scenarios = {one.name: one for one in module("scenarios").SCENARIOS}
    facts = module("report").machine() | {"generator": "a test", "runs": 3, "seconds": 8.0}
    found = module("report").Results({"rabbitmq": "RabbitMQ 3", "mirrormq": "MirrorMQ 1"}, facts)
    for theirs, ours in ((100, 900), (300, 500), (200, 700)):
        found.add(scenarios["transient-1q-100b"], "rabbitmq", figures(module, theirs))
        found.add(scenarios["transient-1q-100b"], "mirrormq", figures(module, ours))
    found.add(scenarios["latency-transient"], "rabbitmq", figures(module, 1000, delivery_p50=400.0))
    found.add(scenarios["latency-transient"], "mirrormq", figures(module, 1000, delivery_p50=200.0))
    return found


def test_every_scenario_that_was_promised_is_there(module: Any) -> None:
    names = {one.name for one in module("scenarios").SCENARIOS}
    for kind in ("transient", "persistent"):
        assert {f"{kind}-{queues}q-{size}" for queues in (1, 4) for size in ("100b", "1k", "64k")} <= names
    assert {"drain", "topic-10q", "connections", "latency-transient", "latency-persistent"} <= names


def test_only_takes_words_and_quick_takes_a_smaller_backlog(module: Any) -> None:
    chosen = module("scenarios").chosen
    assert [one.name for one in chosen("drain,topic", quick=False)] == ["drain", "topic-10q"]
    assert (chosen("drain", quick=False)[0].backlog, chosen("drain", quick=True)[0].backlog) == (1_000_000, 50_000)


def test_a_ratio_is_that_of_the_medians(module: Any) -> None:
    report = module("report")
    assert results(module).ratio("transient-1q-100b", "mirrormq", report.THROUGHPUT[0]) == 700 / 200


def test_half_the_latency_is_twice_as_good(module: Any) -> None:
    report = module("report")
    assert results(module).ratio("latency-transient", "mirrormq", report.LATENCY[0]) == 2.0


def test_the_report_is_written_as_a_table_and_as_data(module: Any, tmp_path: Path) -> None:
    text, data = module("report").write(results(module), tmp_path)
    assert "| transient, 1 queue, 100 B | 200 msg/s | 700 msg/s | 3.50x |" in text.read_text()
    document = json.loads(data.read_text())
    assert document["scenarios"]["transient-1q-100b"]["ratio"]["mirrormq"] == {"received": 3.5}


def test_without_rabbitmq_there_are_figures_and_no_ratios(module: Any) -> None:
    alone = results(module)
    del alone.titles["rabbitmq"]
    assert module("report").rows(alone)[0] == ["scenario", "MirrorMQ 1"]


def test_another_build_takes_the_place_of_rabbitmq(module: Any) -> None:
    found = results(module)
    found.titles = {"other": "MirrorMQ 0", "mirrormq": "MirrorMQ 1"}
    found.baseline = "other"
    for runs in found.runs.values():
        runs["other"] = runs.pop("rabbitmq")
    head, row, *_ = module("report").rows(found)
    assert head == ["scenario", "MirrorMQ 0", "MirrorMQ 1", "ratio"]
    assert row[1:] == ["200 msg/s", "700 msg/s", "3.50x"]


def test_both_generators_are_given_the_same_load(module: Any) -> None:
    generators, scenarios = module("generators"), {one.name: one for one in module("scenarios").SCENARIOS}
    scenario = scenarios["persistent-4q-1k"]
    ours = generators.Perf(["mirrormq"])._options(scenario, 5672, "q")
    others = generators.Amqpload("amqpload")._options(scenario, 5672, "q")
    for mine, theirs in (("-x", "-x"), ("-y", "-y"), ("-s", "-s"), ("-c", "-c"), ("-q", "-Q"), ("-A", "-A")):
        assert ours[ours.index(mine) + 1] == others[len(others) - 1 - others[::-1].index(theirs) + 1]
    assert ours[-2:] == ["-f", "persistent"]
    assert not generators.Amqpload("amqpload").supports(scenarios["topic-10q"])


def test_figures_that_stand_alone_are_shown_a_line_each(module: Any) -> None:
    shown = module("report").lines({"rows a second": [1200.4, 99.5], "MiB": 7}).splitlines()
    assert [line.split("  ")[0] for line in shown] == ["rows a second", "MiB"]
    assert [line.split("  ")[-1].strip() for line in shown] == ["1,200, 99.50", "7.00"]
