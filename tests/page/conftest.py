"""One node and one browser for all tests of the page, a new window for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from playwright.sync_api import Browser

from admin.support import Node, quote
from compat.support import unique

from .support import Reader, running_browser

Window = Callable[..., Reader]


@pytest.fixture(scope="session", autouse=True)
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRRORMQ_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        yield


@pytest.fixture(scope="session")
def node(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    server = Node(tmp_path_factory.mktemp("node"), name="page@localhost")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running_browser() as started:
        yield started


@pytest.fixture
def vhost(node: Node) -> Iterator[str]:
    name = unique("vh")
    node.add_vhost(name)
    yield name
    node.ask("DELETE", f"/api/vhosts/{quote(name)}")


@pytest.fixture
def user(node: Node) -> Iterator[Callable[..., str]]:
    """user(tags, vhost) makes a user whose password is its name."""
    made: list[str] = []

    def make(tags: str = "", vhost: str | None = None) -> str:
        made.append(unique("user"))
        node.add_user(made[-1], made[-1], tags)
        if vhost is not None:
            node.grant(vhost, made[-1])
        return made[-1]

    yield make
    for name in made:
        node.ask("DELETE", f"/api/users/{quote(name)}")


@pytest.fixture
def channel(node: Node, vhost: str) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    login = pika.PlainCredentials("guest", "guest")
    connection = pika.BlockingConnection(pika.ConnectionParameters(
        node.host, node.port, vhost, login, heartbeat=0, socket_timeout=60, stack_timeout=120))
    opened = connection.channel()
    opened.confirm_delivery()
    yield opened
    if connection.is_open:
        connection.close()


@pytest.fixture
def window(browser: Browser, node: Node) -> Iterator[Window]:
    """window(width=…) opens a new browser window. In the end nothing may have been complained about."""
    opened: list[Reader] = []

    def make(at: Node = node, *, width: int = 1280, height: int = 800, **options: Any) -> Reader:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        opened.append(Reader(context, at))
        return opened[-1]

    yield make
    complaints = [words for reader in opened for words in reader.complaints]
    for reader in opened:
        reader.context.close()
    assert complaints == []


@pytest.fixture
def reader(window: Window) -> Reader:
    """Logged in as guest, an administrator."""
    made = window()
    made.enter()
    return made
