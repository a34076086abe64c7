"""The two stores as the conformance suite sees them: an address to open clients at, and what can be done to them from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.etcd import EtcdCluster, etcd_cluster
from mirrormq.cluster.coordination import Coordination, open_coordination
from mirrormq.cluster.coordination.sqlite import FileCoordination
from mirrormq.cluster.coordination.sqlite.writing import TRIM_EVERY

from .support import Child, put_many

Open = Callable[[], Awaitable[Coordination]]


class Backend:
    """A store of either kind."""

    name = ""
    spec = ""

    async def forget_history(self, store: Coordination) -> None:
        """Make the store forget what a watcher that is away has not seen."""
        raise NotImplementedError

    def begin_outage(self) -> None:
        """From now on no client can write."""
        raise NotImplementedError

    def end_outage(self) -> None:
        raise NotImplementedError


class FileBackend(Backend):
    name = "sqlite"
    keep = 200

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec = f"sqlite:{path}"
        self._holder: Child | None = None

    async def forget_history(self, store: Coordination) -> None:
        other = FileCoordination(self.path, keep=self.keep)
        await other.open()
        try:
            await put_many(other, "elsewhere/", TRIM_EVERY + self.keep)
        finally:
            await other.close()

    def begin_outage(self) -> None:
        self._holder = Child("hold", str(self.path))
        self._holder.expect("held")

    def end_outage(self) -> None:
        if self._holder is not None:
            self._holder.end()
            self._holder = None


class EtcdBackend(Backend):
    name = "etcd"

    def __init__(self, cluster: EtcdCluster, namespace: str) -> None:
        self.cluster = cluster
        self.spec = f"{cluster.spec}?namespace={namespace}"

    async def forget_history(self, store: Coordination) -> None:
        await put_many(store, "elsewhere/", 10)
        self.cluster.compact()

    def begin_outage(self) -> None:
        for number in range(len(self.cluster.members)):
            self.cluster.kill(number)

    def end_outage(self) -> None:
        self.cluster.heal()


@pytest.fixture(scope="session")
def running_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture
def etcd(running_etcd: EtcdCluster) -> Iterator[EtcdCluster]:
    """Three members, all of them well when the test begins."""
    running_etcd.heal()
    yield running_etcd
    running_etcd.heal()


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.live)])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if request.param == "sqlite":
        backend: Backend = FileBackend(tmp_path / "store.db")
    else:
        backend = EtcdBackend(request.getfixturevalue("etcd"), f"test-{request.node.nodeid[-200:]}".replace("/", "-"))
    yield backend
    backend.end_outage()


@pytest_asyncio.fixture
async def opened(backend: Backend) -> AsyncIterator[Open]:
    """Opens clients, each as if in a process of its own, and closes them after the test."""
    stores: list[Coordination] = []

    async def open_another() -> Coordination:
        stores.append(await open_coordination(backend.spec))
        return stores[-1]

    yield open_another
    for store in stores:
        await store.close()


@pytest_asyncio.fixture
async def store(opened: Open) -> Coordination:
    return await opened()


@pytest.fixture
def children() -> Iterator[Callable[..., Child]]:
    """Starts child processes, and ends them after the test."""
    started: list[Child] = []

    def start(*arguments: str) -> Child:
        started.append(Child(*arguments))
        return started[-1]

    yield start
    for child in started:
        child.end()


