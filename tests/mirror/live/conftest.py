"""Three nodes for all tests of a file; each test finds all of them running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.live.nodes import Nodes, running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("mirrored")) as nodes:
        yield nodes


@pytest.fixture
def nodes(cluster: Nodes) -> Iterator[Nodes]:
    yield cluster
    cluster.mend()
