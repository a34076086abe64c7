"""Which store: `sqlite:/path/file.db`, or `etcd:http://h1:2379,http://h2:2379`.

What an etcd needs beyond its addresses may stand in the text too, `etcd:https://user:password@h1:2379,https://h2:2379?ca=/ca.pem`,
with the names of the parameters below; a parameter wins over the text.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from .port import Coordination

OPTIONS = ("user", "password", "ca", "cert", "key", "namespace")


async def open_coordination(
    spec: str,
    *,
    user: str = "",
    password: str = "",
    ca: str | Path = "",
    cert: str | Path = "",
    key: str | Path = "",
    namespace: str = "",
) -> Coordination:
    """Open a store. A file is opened or created; an etcd is not yet asked, so a node can start while it is away.

    Raises ValueError for a text that names no store, and the port's errors for a file that cannot be used.
    """
    kind, _, rest = spec.partition(":")
    if kind == "sqlite" and rest:
        return await _open_file(Path(rest))
    if kind != "etcd" or not rest:
        raise ValueError(f"{spec!r} names no coordination store: write sqlite:/path/file.db or etcd:http://host:2379,…")
    addresses, options = parse_etcd(rest)
    given = {"user": user, "password": password, "ca": ca, "cert": cert, "key": key, "namespace": namespace}
    options |= {name: str(value) for name, value in given.items() if value}
    from .etcd import open_etcd

    return await open_etcd(addresses, **options)


async def _open_file(path: Path) -> Coordination:
    from .sqlite import FileCoordination

    store = FileCoordination(path)
    await store.open()
    return store


def parse_etcd(text: str) -> tuple[list[str], dict[str, str]]:
    """The addresses, without credentials, and the options of them all."""
    text, _, query = text.partition("?")
    options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    if unknown := set(options) - set(OPTIONS):
        raise ValueError(f"unknown options for etcd: {', '.join(sorted(unknown))}; known are {', '.join(OPTIONS)}")
    addresses = []
    for part in text.split(","):
        address = urlsplit(part.strip())
        if address.scheme not in ("http", "https") or not address.hostname or address.path not in ("", "/"):
            raise ValueError(f"{part!r} is no address of an etcd: write http://host:2379 or https://host:2379")
        if address.username:
            options |= {"user": unquote(address.username), "password": unquote(address.password or "")}
        addresses.append(f"{address.scheme}://{address.netloc.rpartition('@')[2]}")
    return addresses, options
