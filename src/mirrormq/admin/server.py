"""The HTTP server: one door for every request, in RabbitMQ's order.

An unknown path is 404 and a wrong method 405 before anybody has logged in; then comes who is asking, then whether they
may, then what they accept, then the handler. A change is answered when it is stable.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import ssl
from typing import Final

from aiohttp import ClientPayloadError, web

from mirrormq.admin.access import Gate, Principal
from mirrormq.admin.call import Answer, Call, State
from mirrormq.admin.errors import ApiError, not_found, unavailable
from mirrormq.admin.listing import encode
from mirrormq.admin.parameters import apply_cluster_name
from mirrormq.admin.rates import Rates
from mirrormq.admin.router import Place, Router
from mirrormq.admin.routes import ROUTES, anyone
from mirrormq.broker.auth import User
from mirrormq.node.runtime import Runtime, StartError

log = logging.getLogger("mirrormq")
_silent = logging.getLogger("mirrormq.http")        # what strangers send is no event; our own faults go to `log`
_silent.setLevel(logging.CRITICAL + 1)
MAX_BODY: Final = 192 << 20         # a message of the largest size, in base64
BODY_PATIENCE: Final = 60.0
STABLE_PATIENCE: Final = 30.0       # seconds that an answer waits for the disk
STOP_PATIENCE: Final = 2.0
JSON_KINDS: Final = ("*/*", "application/*", "application/json", "application/bigint")
HEADERS: Final = {
    "cache-control": "no-cache", "vary": "accept, accept-encoding, origin", "server": "MirrorMQ",
    "content-security-policy": "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'",
}  # fmt: skip


class AdminServer:
    """`token` lets a tool on this machine in; the rendezvous file carries it."""

    def __init__(self, runtime: Runtime) -> None:
        self.token = secrets.token_urlsafe(32)
        self.addresses: list[tuple[str, str, int]] = []
        self._runtime = runtime
        self._state = State(runtime, Gate(runtime.broker, self.token),
                            Rates(runtime.config.collect_statistics_interval_ms))
        self._router = Router(ROUTES, runtime.config.management_path_prefix)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen at one more address; an empty host is every address, port 0 any free one."""
        if self._runner is None:
            self._runner = await self._start_runner()
        site = web.TCPSite(self._runner, host or None, port, ssl_context=tls)
        known = len(self._runner.addresses)
        try:
            await site.start()
        except OSError as fault:
            raise StartError(f"the management API cannot listen at {host or '*'}:{port} ({fault.strerror or fault}): "
                             "choose another port with --http-port, or stop what uses it") from fault
        for address in self._runner.addresses[known:]:
            place = ("https" if tls is not None else "http", str(address[0]), int(address[1]))
            self.addresses.append(place)
            self._runtime.addresses.append(place)

    async def _start_runner(self) -> web.AppRunner:
        apply_cluster_name(self._runtime.broker)
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(application, access_log=None, logger=_silent, handle_signals=False,
                               shutdown_timeout=STOP_PATIENCE)
        await runner.setup()
        return runner

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Where a tool on this machine reaches the API; empty before the start."""
        if not self.addresses:
            return ""
        protocol, host, port = self.addresses[0]
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1"
        where = f"[{host}]" if ":" in host else host
        return f"{protocol}://{where}:{port}{self._runtime.config.management_path_prefix}"

    # --- one request ------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except ApiError as error:
            answer = _refusal(error)
        except web.HTTPException:
            raise
        except Exception:
            log.exception("a fault in the management API at %s %s; please report it", request.method, request.path)
            answer = Answer(500, {"error": "internal_error", "reason": "see the log of the node"})
        return self._respond(request, answer)

    async def _answer(self, request: web.Request) -> Answer:
        place = self._router.find(request.raw_path)
        if place is None:
            raise not_found()
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS":
            return Answer(200, headers={"allow": place.allowed})
        if method not in place.handlers:
            raise ApiError(405, headers={"allow": place.allowed})
        return await self._handle(request, place, method)

    async def _handle(self, request: web.Request, place: Place, method: str) -> Answer:
        access, handler = place.handlers[method]
        self._runtime.tick()
        principal = self._principal(request, is_needed=access is not anyone)
        access(principal, place.args.get("vhost", ""))
        if not _accepts_json(request.headers.get("Accept", "")) and access is not anyone:
            raise ApiError(406)
        raw = await _body(request)
        self._runtime.tick()
        call = Call(self._state, principal, place.args, request.query, request.headers, raw)
        answer = handler(call)
        if inspect.isawaitable(answer):
            answer = await answer
        assert isinstance(answer, Answer)
        if method != "GET":
            await self._stable()
        return answer

    def _principal(self, request: web.Request, *, is_needed: bool) -> Principal:
        if not is_needed:
            return Principal(User(""), self._runtime.broker.authority)
        return self._state.gate.identify(request.headers.get("Authorization"), request.remote or "")

    async def _stable(self) -> None:
        """Wait for what was changed; what was refused or read has nothing to wait for."""
        self._runtime.tick()
        self._runtime.schedule()
        try:
            async with asyncio.timeout(STABLE_PATIENCE):
                await self._runtime.records_written()
        except TimeoutError:
            raise unavailable("the change is made but not yet on disk") from None

    def _respond(self, request: web.Request, answer: Answer) -> web.Response:
        headers = {**HEADERS, **self._origin(request), **answer.headers}
        if answer.body is None:
            return web.Response(status=answer.status, headers=headers)
        headers.setdefault("content-type", "application/json")
        body = answer.body if isinstance(answer.body, bytes) else encode(answer.body)
        return web.Response(status=answer.status, headers=headers, body=body)

    def _origin(self, request: web.Request) -> dict[str, str]:
        """Scripts of other sites may call if the configuration names their site."""
        origin = request.headers.get("Origin")
        allowed = self._runtime.config.management_cors_origins
        if origin is None or not (origin in allowed or "*" in allowed):
            return {}
        return {"access-control-allow-origin": origin, "access-control-allow-credentials": "true",
                "access-control-allow-headers": "authorization, content-type, x-reason",
                "access-control-allow-methods": "HEAD, GET, PUT, POST, DELETE, OPTIONS"}


async def _body(request: web.Request) -> bytes:
    """All of it, from a caller who is known by now."""
    if not request.can_read_body:
        return b""
    if (request.content_length or 0) > MAX_BODY:
        raise ApiError(413, "bad_request", "the body is too large")
    try:
        async with asyncio.timeout(BODY_PATIENCE):
            return await request.read()
    except TimeoutError:
        raise ApiError(408) from None
    except web.HTTPRequestEntityTooLarge:
        raise ApiError(413, "bad_request", "the body is too large") from None
    except (ConnectionError, ClientPayloadError, web.RequestPayloadError):
        raise ApiError(400) from None       # the caller has gone, or sent no such body


def _refusal(error: ApiError) -> Answer:
    body = {"error": error.error, "reason": error.reason} if error.error else None
    return Answer(error.status, body, error.headers)


def _accepts_json(accept: str) -> bool:
    kinds = {part.partition(";")[0].strip() for part in accept.split(",")}
    return not accept or not kinds.isdisjoint(JSON_KINDS)
