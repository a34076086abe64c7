"""A listener for Prometheus alone: `/metrics` without a login, at `prometheus.tcp.port`, as RabbitMQ has it at 15692.

Whoever can reach the port can read the names of all queues; the configuration decides who can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web

from mirrormq.admin import metrics
from mirrormq.admin.access import Principal
from mirrormq.admin.call import Answer, Call, State
from mirrormq.admin.shield import HEADERS
from mirrormq.broker.auth import User
from mirrormq.node.runtime import StartError

PAGES: Final = {
    "/metrics": metrics.show_metrics, "/metrics/per-object": metrics.show_per_object, "/metrics/detailed": metrics.show_detailed,
}  # fmt: skip
STOP_PATIENCE: Final = 2.0


class ScrapeServer:
    def __init__(self, state: Callable[[], State | None]) -> None:
        self._state = state
        self._runner: web.AppRunner | None = None
        self.address: tuple[str, str, int] | None = None

    async def start(self, host: str, port: int) -> None:
        application = web.Application()
        for path in PAGES:
            application.router.add_get(path, self._serve)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=STOP_PATIENCE)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host or None, port).start()
        except OSError as fault:
            raise StartError(f"metrics cannot be served at {host or '*'}:{port} ({fault.strerror or fault}): choose another "
                             "prometheus.tcp.port, or stop what uses it") from fault
        place = self._runner.addresses[0]
        self.address = ("http/prometheus", str(place[0]), int(place[1]))

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.Request) -> web.Response:
        state = self._state()
        if state is None:
            return web.Response(status=503, headers=HEADERS)
        state.runtime.tick()
        call = Call(state, Principal(User(""), state.broker.authority), {}, request.query, request.headers, b"")
        answer: Answer = await PAGES[request.path](call)
        assert isinstance(answer.body, bytes)
        return web.Response(status=answer.status, headers={**HEADERS, **answer.headers}, body=answer.body)
