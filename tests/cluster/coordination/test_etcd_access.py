"""Who may use an etcd: logins, permissions, certificates."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from cluster.etcd import EtcdCluster, etcd_cluster
from mirrormq.cluster.coordination import Coordination, Refused, Unreachable, open_coordination

from .support import PATIENCE, Copy, following, put

pytestmark = pytest.mark.live


def text(word: str) -> str:
    return b64encode(word.encode()).decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """An etcd with logins: user broker may read and write below mirrormq/."""
    with etcd_cluster(tmp_path_factory.mktemp("guarded"), size=1) as cluster:
        permission = {"permType": "READWRITE", "key": text("mirrormq/"), "range_end": text("mirrormq0")}
        for path, body in (
            ("auth/user/add", {"name": "root", "password": "secret"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/role/add", {"name": "brokers"}),
            ("auth/role/grant", {"name": "brokers", "perm": permission}),
            ("auth/user/add", {"name": "broker", "password": "p@ss/word"}),
            ("auth/user/grant", {"user": "broker", "role": "brokers"}),
            ("auth/user/add", {"name": "stranger", "password": "word"}),
            ("auth/enable", {}),
        ):
            cluster.ask(0, path, body)
        yield cluster


async def test_a_login_is_used_and_renewed(guarded: EtcdCluster) -> None:
    store = await open_coordination(guarded.spec, user="broker", password="p@ss/word")
    watch = store.watch("", await put(store, "a"))
    lease = await store.grant(60)
    await put(store, "b", "", lease)
    await following(watch)
    await asyncio.to_thread(guarded.restart, 0)  # tokens live in its memory
    await until_reachable(store)
    await store.keep_alive(lease)
    await put(store, "c", "", lease)
    await Copy().until(watch, "c")
    await store.close()


async def until_reachable(store: Coordination) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await store.read("")
                return
            except Unreachable:
                await asyncio.sleep(0.1)


async def test_a_login_may_stand_in_the_address(guarded: EtcdCluster) -> None:
    address = guarded.spec.replace("http://", "http://broker:p%40ss%2Fword@")
    store = await open_coordination(address)
    await put(store, "a")
    await store.close()


@pytest.mark.parametrize(
    ("user", "password", "words"),
    [("", "", "check user and password"), ("broker", "wrong", "check user and password"), ("stranger", "word", "grant its role")],
)
async def test_who_may_not_is_told_so(guarded: EtcdCluster, user: str, password: str, words: str) -> None:
    store = await open_coordination(guarded.spec, user=user, password=password)
    with pytest.raises(Refused, match=words):
        await store.read("")
    with pytest.raises(Refused, match=words):
        await put(store, "a")
    with pytest.raises(Refused):
        await following(store.watch("", 0))
    await store.close()


async def test_a_login_does_no_harm_where_none_is_needed(etcd: EtcdCluster) -> None:
    store = await open_coordination(etcd.spec, user="broker", password="any", namespace="open")
    await put(store, "a")
    await store.close()


class Authority:
    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self._directory = directory
        self.ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str) -> tuple[Path, Path]:
        issued = self._authority.issue_cert(name)
        cert, key = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return cert, key


async def test_certificates_are_used_both_ways(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    own_cert, own_key = authority.issue("broker.example")
    options = [
        "--cert-file", str(cert), "--key-file", str(key), "--client-cert-auth", "--trusted-ca-file", str(authority.ca),
    ]  # fmt: skip
    cluster = EtcdCluster(tmp_path / "etcd", 1, scheme="https", options=options)
    try:
        cluster.start()
        store = await open_coordination(f"{cluster.spec}?ca={authority.ca}", cert=own_cert, key=own_key)
        watch = store.watch("", 0)
        await until_reachable(store)
        await put(store, "a")
        await following(watch)
        await store.close()
        await expect_refused(cluster.spec)
        await expect_unreachable(f"{cluster.spec}?ca={authority.ca}")
    finally:
        cluster.stop()


async def expect_refused(spec: str) -> None:
    store = await open_coordination(spec)
    try:
        with pytest.raises(Refused, match="authority"):
            await store.read("")
    finally:
        await store.close()


async def expect_unreachable(spec: str) -> None:
    """Without a certificate of our own the member hangs up."""
    store = await open_coordination(spec)
    try:
        with pytest.raises(Unreachable):
            await store.read("")
    finally:
        await store.close()


async def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"missing\.pem"):
        await open_coordination("etcd:https://127.0.0.1:1", ca=tmp_path / "missing.pem")
    (tmp_path / "empty.pem").touch()
    with pytest.raises(Refused, match=r"empty\.pem"):
        await open_coordination("etcd:https://127.0.0.1:1", ca=tmp_path / "empty.pem")
