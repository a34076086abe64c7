"""The management API of a node at its configured addresses, and the file by which tools on this machine find it.

The door is open from the first moment to the last, whether the application behind it runs or not.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from mirrormq.admin import rendezvous
from mirrormq.admin.app import App
from mirrormq.admin.server import AdminServer
from mirrormq.node.runtime import StartError
from mirrormq.node.tls import TlsError, server_context

log = logging.getLogger("mirrormq")


class Door:
    def __init__(self, app: App) -> None:
        self.server = AdminServer(app)
        self._app = app
        self._file: Path | None = None

    async def open(self) -> None:
        """StartError if it cannot be."""
        config = self._app.config
        if config.management_port is not None:
            await self.server.start(config.management_ip, config.management_port)
        if config.management_ssl_port is not None:
            try:
                context = server_context(config.management_tls, "management.ssl", log.error)
            except TlsError as fault:
                raise StartError(str(fault)) from None
            await self.server.start(config.management_ssl_ip, config.management_ssl_port, context)
        if config.prometheus_port is not None:
            await self.server.start_scrape(config.prometheus_ip, config.prometheus_port)
        self._announce()
        if self._file is None:
            log.warning("no directory for the file by which mirrormqctl finds this node; use --url")
        self._app.on_state = self._announce

    def _announce(self) -> None:
        config, server = self._app.config, self.server
        place = rendezvous.Place(config.node_name, server.url, server.token, os.getpid(), str(config.data_dir), self._link())
        self._file = rendezvous.publish(place, os.environ)

    def _link(self) -> str:
        """Where nodes of this machine reach the links, if they are up."""
        runtime = self._app.runtime
        if runtime is None:
            return ""
        host = runtime.cluster.link_host
        return f"{'127.0.0.1' if host in ('', '0.0.0.0', '::') else host}:{runtime.cluster.links.port}"

    async def close(self) -> None:
        self._app.on_state = lambda: None
        rendezvous.withdraw(self._file)
        await self.server.stop()
