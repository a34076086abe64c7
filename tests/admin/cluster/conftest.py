"""Three nodes that share a store, for all tests of this folder that break none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pika
import pytest

from admin.support import quote
from compat.support import unique

from .support import Member, Members, running

Open = Callable[[Member], pika.BlockingConnection]


@pytest.fixture(scope="session")
def members(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with running(Members(tmp_path_factory.mktemp("cluster"), ["a@localhost", "b@localhost", "c@localhost"])) as cluster:
        yield cluster


@pytest.fixture
def vhost(members: Members) -> Iterator[str]:
    """A virtual host in all nodes; it takes the place of the fixture for one node."""
    name = unique("vh")
    members[0].add_vhost(name)
    yield name
    members[0].ask("DELETE", f"/api/vhosts/{quote(name)}")


@pytest.fixture
def open_at(vhost: str) -> Iterator[Open]:
    """open_at(node) connects a client to that node, in the test's virtual host."""
    opened: list[pika.BlockingConnection] = []

    def opener(node: Member) -> pika.BlockingConnection:
        opened.append(node.connect(vhost))
        return opened[-1]

    yield opener
    for connection in opened:
        if connection.is_open:
            connection.close()
