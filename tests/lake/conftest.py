"""Fixtures of the lake's tests: one node and one Spark session for all of them, a virtual host for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support import quote, unique
from mirrormq.lake.engine import session

from .support import Node, need_java, start_node


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    server = start_node(tmp_path_factory.mktemp("node"))
    yield server
    server.stop()


@pytest.fixture
def vhost(node: Node) -> Iterator[str]:
    name = unique("lake")
    node.add_vhost(name)
    yield name
    node.api("DELETE", f"/api/vhosts/{quote(name)}")


@pytest.fixture
def channel(node: Node, vhost: str) -> Iterator[Any]:
    with node.channel(vhost) as opened:
        yield opened


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests: its start takes as long as a hundred of them."""
    need_java()
    made = session(
        "tests",
        "local[2,3]",
        {
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The start of Spark, on a machine that is busy, takes longer than other tests may."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
