"""Logging in with a browser: a session in a cookie that scripts cannot read and other sites cannot use.

Rules
 1. The cookie tells who, until when, and which password it was; a signature with a key that the nodes of a cluster derive from
    their secret makes it hold on every one of them. Nothing is kept for a session that goes on, so it outlives a restart.
 2. It is HttpOnly, SameSite=Strict, and Secure under TLS. Its name is made from that key, because browsers give the
    cookies of one host to all its ports.
 3. A request that another site caused is not let in by a cookie, whatever it asks for (`Sec-Fetch-Site`, `Origin`). One that
    changes something carries the session's token besides, in a header of its own, which only our page can know.
 4. What a user may is looked up at each request. A session ends with its user, with a change of password, and after `LIFETIME`.
 5. A session that is logged out is revoked, here at once and on the other nodes that can be reached. A node that starts later
    does not know of it: then its lifetime ends it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from aiohttp import web

from mirrormq.admin.access import Principal
from mirrormq.admin.errors import not_authorised
from mirrormq.broker.auth import Authority, LoginRefused, User

LIFETIME: Final = 8 * 3600          # seconds
MOST: Final = 100_000               # revoked sessions that are remembered; beyond it the oldest are not
TOKEN_HEADER: Final = "X-MirrorMQ-Token"        # noqa: S105 - the name of a header
PAGE_HEADER: Final = "X-MirrorMQ-Page"


class Session(NamedTuple):
    user: str
    id: str
    until: int                      # seconds since 1970
    token: str


class Logins:
    """The sessions that hold on one node."""

    def __init__(self, key: bytes) -> None:
        self.cookie: str = "mirrormq-" + hmac.digest(key, b"name", "sha256").hex()[:12]
        self._key = key
        self._revoked: dict[str, int] = {}      # by id: when it would have ended

    def begin(self, user: User, now: float) -> tuple[str, Session]:
        """The cookie's value, and the session."""
        name, until = secrets.token_urlsafe(18), int(now) + LIFETIME
        said = json.dumps([user.name, name, until, self._password(user)]).encode()
        value = f"{base64.urlsafe_b64encode(said).decode()}.{self._sign('session', said)}"
        return value, self._session(user.name, name, until)

    def find(self, authority: Authority, cookies: str | None, now: float) -> Session | None:
        """The session of a request, if it still holds."""
        said = self._said(_cookie(cookies, self.cookie))
        if said is None:
            return None
        name, id_, until, password = said
        user = authority.users.get(name)
        if user is None or now > until or id_ in self._revoked or not hmac.compare_digest(password, self._password(user)):
            return None
        return self._session(name, id_, until)

    def end(self, id_: str, until: int, now: float) -> None:
        """Also what is over by itself is forgotten then."""
        self._revoked = {known: end for known, end in self._revoked.items() if end >= now}
        self._revoked[id_] = until
        while len(self._revoked) > MOST:
            del self._revoked[next(iter(self._revoked))]

    def _said(self, value: str) -> list[Any] | None:
        text, _, signature = value.partition(".")
        try:
            said = base64.urlsafe_b64decode(text)
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(signature.encode(errors="replace"), self._sign("session", said).encode()):
            return None
        found: list[Any] = json.loads(said)
        return found

    def _session(self, user: str, id_: str, until: int) -> Session:
        return Session(user, id_, until, self._sign("token", id_.encode()))

    def _password(self, user: User) -> str:
        """Tells a changed password, and nothing about it to anybody without the key."""
        return self._sign("password", f"{user.name} {user.password_hash}".encode(errors="surrogatepass"))

    def _sign(self, purpose: str, said: bytes) -> str:
        return hmac.digest(self._key, purpose.encode() + b"\0" + said, "sha256").hex()


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


def principal_of(request: web.Request, logins: Logins, authority: Authority, now: float) -> Principal | None:
    """Who is logged in with the browser that sends the request; None if nobody is."""
    session = logins.find(authority, request.headers.get("Cookie"), now)
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
