"""The adapter for many machines: etcd 3.4 or newer, through its JSON gateway."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.cluster.coordination.port import Coordination

from .codec import Codec
from .endpoints import Endpoints
from .http import Http, check_files, trust
from .store import EtcdCoordination
from .transport import Transport

NAMESPACE = "mirrormq/"


async def open_etcd(
    addresses: Sequence[str],
    *,
    user: str = "",
    password: str = "",
    ca: str = "",
    cert: str = "",
    key: str = "",
    namespace: str = NAMESPACE,
) -> Coordination:
    """Ready to be asked; raises Refused for certificates that cannot be used."""
    check_files(ca, cert, key)
    codec = Codec(namespace.rstrip("/") + "/")
    http = Http(trust(ca, cert, key) if any(address.startswith("https") for address in addresses) else None)
    return EtcdCoordination(Transport(http, Endpoints(addresses), codec.probe, user, password), codec)
