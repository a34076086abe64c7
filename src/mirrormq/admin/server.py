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
from contextlib import nullcontext, suppress
from typing import Final

from aiohttp import ClientPayloadError, web

from mirrormq.admin import control
from mirrormq.admin.access import CHALLENGE, Gate, Principal, claimed_name, is_token
from mirrormq.admin.app import NEEDS_RUNNING, App
from mirrormq.admin.call import Answer, Call, State
from mirrormq.admin.elsewhere import answer_others
from mirrormq.admin.errors import ApiError, not_found, unavailable
from mirrormq.admin.listing import encode
from mirrormq.admin.pieces import Pieces
from mirrormq.admin.rates import Rates
from mirrormq.admin.router import Place, Router, parts_of
from mirrormq.admin.routes import NOT_JSON, ROUTES, anyone
from mirrormq.admin.scrape import ScrapeServer
from mirrormq.admin.sessions import PAGE_HEADER, is_foreign, principal_of
from mirrormq.admin.shield import HEADERS, OVER_TLS
from mirrormq.broker.auth import User
from mirrormq.node.listener import why_not
from mirrormq.node.patience import StoreUnheard
from mirrormq.node.runtime import Runtime, StartError

log = logging.getLogger("mirrormq")
_silent = logging.getLogger("mirrormq.http")        # what strangers send is no event; our own faults go to `log`
_silent.setLevel(logging.CRITICAL + 1)
MAX_BODY: Final = 192 << 20         # a message of the largest size, in base64
MAX_STRANGER: Final = 16 << 10      # of somebody who has not logged in
BODY_PATIENCE: Final = 60.0
STABLE_PATIENCE: Final = 30.0       # seconds that an answer waits for the disk
STOP_PATIENCE: Final = 2.0
JSON_KINDS: Final = ("*/*", "application/*", "application/json", "application/bigint")


class AdminServer:
    """`token` lets a tool on this machine in; the rendezvous file carries it."""

    def __init__(self, app: App) -> None:
        self.token = secrets.token_urlsafe(32)
        self.addresses: list[tuple[str, str, int]] = []
        self._app = app
        self._config = app.config
        self._state: State | None = None
        self._router = Router(ROUTES, self._config.management_path_prefix)
        self._prefix = (*parts_of(self._config.management_path_prefix), *control.PREFIX)
        self._runner: web.AppRunner | None = None
        self._scrape = ScrapeServer(lambda: self._state)
        app.on_runtime = self.serve

    def serve(self, runtime: Runtime | None) -> None:
        """Answer for this runtime from now on; None while the application is stopped."""
        if runtime is None:
            self._state = None
            return
        runtime.addresses += self.addresses
        self._state = State(runtime, Gate(runtime.broker, self.token), Rates(self._config.collect_statistics_interval_ms))
        answer_others(self._state)

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen at one more address; an empty host is every address, port 0 any free one."""
        if self._runner is None:
            self._runner = await self._start_runner()
        site = web.TCPSite(self._runner, host or None, port, ssl_context=tls)
        known = len(self._runner.addresses)
        try:
            await site.start()
        except OSError as fault:
            where = f"{host or '*'}:{port}"
            raise StartError(f"the management API cannot listen at {where} {why_not(fault, '--http-port')}") from fault
        for address in self._runner.addresses[known:]:
            place = ("https" if tls is not None else "http", str(address[0]), int(address[1]))
            self.addresses.append(place)

    async def _start_runner(self) -> web.AppRunner:
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_route("*", r"/{path:[\s\S]*}", self._serve)     # names may have line ends
        runner = web.AppRunner(application, access_log=None, logger=_silent, handle_signals=False,
                               shutdown_timeout=STOP_PATIENCE)
        await runner.setup()
        return runner

    async def start_scrape(self, host: str, port: int) -> None:
        """Metrics without a login, at an address of their own."""
        await self._scrape.start(host, port)
        if self._scrape.address is not None:
            self.addresses.append(self._scrape.address)

    async def stop(self) -> None:
        await self._scrape.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Where a tool on this machine reaches the API; empty before the start."""
        own = [address for address in self.addresses if address[0] in ("http", "https")]
        if not own:
            return ""
        protocol, host, port = own[0]
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1"
        where = f"[{host}]" if ":" in host else host
        return f"{protocol}://{where}:{port}{self._config.management_path_prefix}"

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
        parts = parts_of(request.raw_path)
        if tuple(parts[:len(self._prefix)]) == self._prefix:
            return await self._control(request, parts[len(self._prefix):])
        place = self._router.find(request.raw_path)
        if place is None:
            raise not_found()
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS":
            return Answer(200, headers={"allow": place.allowed})
        if method not in place.handlers:
            raise ApiError(405, headers={"allow": place.allowed})
        return await self._handle(request, place, method)

    async def _control(self, request: web.Request, rest: list[str]) -> Answer:
        """What is asked of the process, whether its application runs or not."""
        method = "GET" if request.method == "HEAD" else request.method
        if not rest:
            if method != "GET":
                raise ApiError(405, headers={"allow": "HEAD, GET"})
            return Answer(200, control.show(self._app))
        if len(rest) > 1 or rest[0] not in control.DEEDS:
            raise not_found()
        if method != "POST":
            raise ApiError(405, headers={"allow": "POST"})
        if not is_token(request.headers.get("Authorization"), self.token):
            raise ApiError(401, "not_authorized", "only tools on the node's own machine may do this", CHALLENGE)
        return Answer(200, await control.act(self._app, rest[0], await _body(request)))

    async def _handle(self, request: web.Request, place: Place, method: str) -> Answer:
        access, handler = place.handlers[method]
        state = self._state
        if state is None:
            raise ApiError(503, "app_not_running", NEEDS_RUNNING)
        runtime = state.runtime
        runtime.tick()
        principal = await self._identify(request, state, is_needed=access is not anyone)
        access(principal, place.args.get("vhost", ""))
        if not _accepts_json(request.headers.get("Accept", "")) and access not in NOT_JSON:
            raise ApiError(406)
        raw = await _body(request, MAX_BODY if access is not anyone else MAX_STRANGER)
        runtime.tick()
        call = Call(state, principal, place.args, request.query, request.headers, raw)
        call.address, call.is_secure, call.is_foreign = request.remote or "", request.secure, is_foreign(request)
        before = runtime.broker.journal.written
        answered = handler(call)
        answer = await answered if inspect.isawaitable(answered) else answered
        assert isinstance(answer, Answer)
        if method != "GET":
            with suppress(ApiError) if answer is not answered else nullcontext():
                await _stable(runtime, before)      # who took time has waited for its own changes: others' may fail
        return answer

    async def _identify(self, request: web.Request, state: State, *, is_needed: bool) -> Principal:
        """A wrong password is answered the later the more of them came from there."""
        if not is_needed:
            return Principal(User(""), state.broker.authority)
        address, attempts = request.remote or "", state.gate.attempts
        attempts.check(address)
        try:
            principal = self._principal(request, state)
        except ApiError as refusal:
            if refusal.error == "not_authorized":
                await attempts.delay(claimed_name(request.headers.get("Authorization")), address)
            raise
        attempts.succeeded(principal.name, address)
        return principal

    def _principal(self, request: web.Request, state: State) -> Principal:
        header = request.headers.get("Authorization")
        broker = state.broker
        logged_in = principal_of(request, state.logins, broker.authority, broker.now / 1000) if header is None else None
        return logged_in or state.gate.identify(header, request.remote or "")

    def _respond(self, request: web.Request, answer: Answer) -> web.Response:
        headers = {**HEADERS, **(OVER_TLS if request.secure else {}), **self._origin(request), **answer.headers}
        if PAGE_HEADER in request.headers:
            headers.pop("www-authenticate", None)       # the page asks by itself; a browser would put up its own window
        if answer.body is None:
            return web.Response(status=answer.status, headers=headers)
        headers.setdefault("content-type", "application/json")
        if isinstance(answer.body, Pieces):
            headers["content-length"] = str(answer.body.size)
            return web.Response(status=answer.status, headers=headers, body=aiter(answer.body))
        body = answer.body if isinstance(answer.body, bytes) else encode(answer.body)
        return web.Response(status=answer.status, headers=headers, body=body)

    def _origin(self, request: web.Request) -> dict[str, str]:
        """Scripts of other sites may call if the configuration names their site."""
        origin = request.headers.get("Origin")
        allowed = self._config.management_cors_origins
        if origin is None or not (origin in allowed or "*" in allowed):
            return {}
        return {"access-control-allow-origin": origin, "access-control-allow-credentials": "true",
                "access-control-allow-headers": "authorization, content-type, x-reason",
                "access-control-allow-methods": "HEAD, GET, PUT, POST, DELETE, OPTIONS"}


async def _stable(runtime: Runtime, before: int) -> None:
    """Wait for what was changed; what was refused or read has nothing to wait for."""
    runtime.tick()
    runtime.schedule()
    try:
        async with asyncio.timeout(STABLE_PATIENCE):
            if not await runtime.agreed(before):
                raise unavailable("something else was changed at the same time, and this was not; try again")
    except TimeoutError:
        raise unavailable("the cluster has not agreed on the change in time; look whether it was made") from None
    except StoreUnheard as fault:
        raise unavailable(str(fault)) from None


async def _body(request: web.Request, limit: int = MAX_BODY) -> bytes:
    """All of it, from a caller who is known by now."""
    if not request.can_read_body:
        return b""
    if (request.content_length or 0) > limit or (limit < MAX_BODY and request.content_length is None):
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
