"""A store that goes away in the middle of a start: the node waits, whatever it was about to do, and starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from inprocess import config
from mirrormq.admin.app import RUNNING, App
from mirrormq.broker.events import EVENT
from mirrormq.cluster.coordination import Coordination, CoordinationError, Outcome, Transaction, Unreachable
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.node.config import NodeConfig
from mirrormq.node.surroundings import Surroundings

CALLS = ("read", "grant", "revoke", "keep_alive")
AWAY = "the store is away"
DEFINITIONS = {"vhosts": [{"name": "/"}], "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
               "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
               "queues": [{"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}]}


class Missing:
    """Makes one call of a store fail, as if nobody had heard it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0

    def is_away(self) -> bool:
        self.count += 1
        return self.count == self.number

    def over(self, store: Coordination) -> Coordination:
        for name in CALLS:
            self._wrap(store, name)
        transact = store.transact_many

        async def transact_many(transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
            return [Unreachable(AWAY)] * len(transactions) if self.is_away() else await transact(transactions)

        store.transact_many = transact_many  # type: ignore[method-assign]
        return store

    def _wrap(self, store: Coordination, name: str) -> None:
        call = getattr(store, name)

        async def called(argument: object) -> object:
            if self.is_away():
                raise Unreachable(AWAY)
            return await call(argument)

        setattr(store, name, called)


async def start(directory: Path, number: int, patch: pytest.MonkeyPatch, **options: object) -> bool:
    """A node's first start, in which that call is not heard. Whether there was such a call."""
    missing = Missing(number)
    open_store = Surroundings.open_store

    async def opened(surroundings: Surroundings, config: NodeConfig, keepsake: Keepsake) -> Coordination:
        return missing.over(await open_store(surroundings, config, keepsake))

    with patch.context() as one:
        one.setattr(Surroundings, "open_store", opened)
        app = App(config(directory, **options))
        try:
            await app.start()
            broker = app.running().broker
            assert app.state == RUNNING
            assert ("guest", "/") in broker.authority.permissions
            assert "guest" in broker.authority.users
            assert EVENT in broker.vhosts["/"].exchanges
            assert broker.global_parameters["cluster_name"]
            assert not options or "q" in broker.vhosts["/"].queues
        finally:
            await app.close()
    return missing.count >= number


@pytest.mark.parametrize("has_definitions", [False, True])
async def test_a_store_that_goes_away_in_the_middle_of_a_start_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, has_definitions: bool
) -> None:
    options: dict[str, object] = {}
    if has_definitions:
        (tmp_path / "definitions.json").write_text(json.dumps(DEFINITIONS))
        options["load_definitions"] = str(tmp_path / "definitions.json")
    number = 1
    while await start(_made(tmp_path / str(number)), number, monkeypatch, **options):
        assert AWAY in caplog.text
        caplog.clear()
        number += 1
    assert number > 5


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
