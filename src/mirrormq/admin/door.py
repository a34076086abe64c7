"""The management API of a node at its configured addresses, and the file by which tools on this machine find it."""

from __future__ import annotations

import os
from pathlib import Path

from mirrormq.admin import rendezvous
from mirrormq.admin.definitions_import import DefinitionsError, load_file
from mirrormq.admin.server import AdminServer
from mirrormq.node.runtime import Runtime, StartError
from mirrormq.node.tls import TlsError, server_context


class Door:
    def __init__(self, runtime: Runtime) -> None:
        self.server = AdminServer(runtime)
        self._runtime = runtime
        self._file: Path | None = None

    async def open(self) -> None:
        """StartError if it cannot be."""
        config = self._runtime.config
        if config.management_port is not None:
            await self.server.start(config.management_ip, config.management_port)
        if config.management_ssl_port is not None:
            try:
                context = server_context(config.management_tls, "management.ssl")
            except TlsError as fault:
                raise StartError(str(fault)) from None
            await self.server.start(config.management_ssl_ip, config.management_ssl_port, context)
        self._announce()

    async def load_definitions(self) -> None:
        """What `load_definitions` names, before the first client comes. StartError if it cannot be read."""
        path = self._runtime.config.load_definitions
        if path is not None:
            try:
                await load_file(self._runtime, path)
            except DefinitionsError as fault:
                raise StartError(str(fault)) from None

    def _announce(self) -> None:
        config = self._runtime.config
        server = self.server
        place = rendezvous.Place(config.node_name, server.url, server.token, os.getpid(), str(config.data_dir))
        self._file = rendezvous.publish(place, os.environ)
        if self._file is None:
            self._runtime.report("warning", "no directory for the file by which mirrormqctl finds this node; use --url")

    async def close(self) -> None:
        rendezvous.withdraw(self._file)
        await self.server.stop()
