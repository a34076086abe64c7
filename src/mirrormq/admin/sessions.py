"""Logging in with a browser: a session known by a cookie that scripts cannot read and other sites cannot use.

Rules
 1. The cookie is HttpOnly, SameSite=Strict, and Secure under TLS. Its name is made from the node's, because browsers give the
    cookies of one host to all its ports.
 2. A request that another site caused is not let in by a cookie, whatever it asks for (`Sec-Fetch-Site`, `Origin`). One that
    changes something carries the session's token besides, in a header of its own, which only our page can know.
 3. What a user may is looked up at each request. A session ends with its user, with a change of password, and after `LIFETIME`.
 4. Who guesses passwords waits longer and longer, by name and by address; meanwhile the password is not even looked at.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from aiohttp import web

from mirrormq.admin.access import Principal
from mirrormq.admin.attempts import Attempts
from mirrormq.admin.errors import not_authorised
from mirrormq.broker.auth import Authority, LoginRefused, User

LIFETIME: Final = 8 * 3600.0
MOST: Final = 10_000                # sessions; beyond it the oldest go
TOKEN_HEADER: Final = "X-MirrorMQ-Token"        # noqa: S105 - the name of a header
PAGE_HEADER: Final = "X-MirrorMQ-Page"


class Session(NamedTuple):
    user: str
    password_hash: str
    token: str
    until: float


class Logins:
    """The sessions of one node."""

    def __init__(self, node: str) -> None:
        self.cookie: str = "mirrormq-" + hashlib.sha256(node.encode()).hexdigest()[:12]
        self.attempts: Attempts = Attempts()
        self._sessions: dict[str, Session] = {}

    def begin(self, user: User) -> tuple[str, Session]:
        name = secrets.token_urlsafe(32)
        session = Session(user.name, user.password_hash, secrets.token_urlsafe(24), time.monotonic() + LIFETIME)
        while len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_kept(name)] = session
        return name, session

    def find(self, authority: Authority, cookies: str | None) -> Session | None:
        """The session of a request, if it still holds."""
        name = _cookie(cookies, self.cookie)
        session = self._sessions.get(_kept(name)) if name else None
        if session is None:
            return None
        user = authority.users.get(session.user)
        if user is None or session.until < time.monotonic() or user.password_hash != session.password_hash:
            del self._sessions[_kept(name)]
            return None
        return session

    def end(self, cookies: str | None) -> None:
        self._sessions.pop(_kept(_cookie(cookies, self.cookie)), None)


def _kept(name: str) -> str:
    """Sessions are kept by a digest: what is in memory is not what opens the door."""
    return hashlib.sha256(name.encode()).hexdigest()


def _cookie(header: str | None, name: str) -> str:
    try:
        morsel = SimpleCookie(header or "").get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def is_foreign(request: web.Request) -> bool:
    """Whether another site, or a page of another port of this host, has caused the request."""
    fetched = request.headers.get("Sec-Fetch-Site")
    if fetched is not None:             # not over plain HTTP from afar; behind a proxy it is truer than a comparison of names
        return fetched not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("Host")


def principal_of(request: web.Request, logins: Logins, authority: Authority) -> Principal | None:
    """Who is logged in with the browser that sends the request; None if nobody is."""
    session = logins.find(authority, request.headers.get("Cookie"))
    if session is None or is_foreign(request):
        return None
    if request.method not in ("GET", "HEAD"):
        sent = request.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(sent.encode(), session.token.encode()):
            raise not_authorised("the request does not come from the page: its token is missing or wrong")
    try:
        authority.check_origin(session.user, request.remote or "")
    except LoginRefused:
        return None
    return Principal(authority.users[session.user], authority)
