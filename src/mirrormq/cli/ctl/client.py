"""The way to a node: where its management API is, how to log in, and one request after another."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from mirrormq.admin import rendezvous
from mirrormq.cli.ctl.faults import UNAVAILABLE, Failure, Misuse, TimedOut, WrongState, refused
from mirrormq.cli.ctl.grammar import Values

DEFAULT_URL: Final = "http://localhost:15672"
DEFAULT_NODE: Final = "rabbit"
DEFAULT_TIMEOUT: Final = 60.0
LONGEST_TIMEOUT: Final = 1e6           # sockets have no room for much more
WRONG_STATE: Final = ("app_running", "app_not_running")


class Target(NamedTuple):
    """`node` is empty where only the address is known."""

    node: str
    url: str
    authorization: str
    pid: int = 0
    is_gone: bool = False       # its file is there, its process is not


def find_target(values: Values) -> Target:
    """By address, by the node's name, or at the default port."""
    login = _login(values)
    url = values.get("url") or os.environ.get("MIRRORMQ_URL")
    if isinstance(url, str):
        return Target(str(values.get("node") or ""), url, login or _basic("guest", "guest"))
    named = values.get("node") or os.environ.get("MIRRORMQ_NODENAME") or os.environ.get("RABBITMQ_NODENAME")
    node = rendezvous.full_name(str(named or DEFAULT_NODE))
    place = rendezvous.read(node, os.environ)
    if place is None and not named:
        place = _at_default_port()
    if place is not None and (named or place.is_alive()):
        return Target(place.node, place.url, login or f"Bearer {place.token}", place.pid, is_gone=not place.is_alive())
    return Target(node if named else "", "" if named else DEFAULT_URL, login or _basic("guest", "guest"))


def _at_default_port() -> rendezvous.Place | None:
    """A node of any name that runs here and serves the default port."""
    port = urlsplit(DEFAULT_URL).port
    living = [place for place in rendezvous.read_all(os.environ) if place.is_alive()]
    return next((place for place in living if urlsplit(place.url).port == port), None)


def _login(values: Values) -> str:
    if "username" not in values and "password" not in values:
        return ""
    return _basic(str(values.get("username", "guest")), str(values.get("password", "guest")))


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode("utf-8", "surrogateescape")).decode("ascii")


def part(text: str) -> str:
    """One part of a path; a slash in it too is escaped."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def is_good(self) -> bool:
        return self.status < 400

    @property
    def word(self) -> str:
        """The short word of a refusal."""
        return str(self.body.get("error", "")) if isinstance(self.body, dict) and not self.is_good else ""

    @property
    def reason(self) -> object:
        return self.body.get("reason", "") if isinstance(self.body, dict) else ""


class Client:
    def __init__(self, values: Values) -> None:
        self.target = find_target(values)
        timeout = values.get("timeout")
        self._timeout = min(timeout, LONGEST_TIMEOUT) if isinstance(timeout, float) else DEFAULT_TIMEOUT
        self._values = values
        self._connection: http.client.HTTPConnection | None = None
        self._prefix = ""

    @property
    def node(self) -> str:
        return self.target.node or str(self.get("/api/app")["node"])

    def request(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """Whatever the node answers, unless it refuses the login or cannot be reached."""
        try:
            answer = self._exchange(method, path, body, headers or {})
        except (OSError, http.client.HTTPException) as fault:
            raise self._unreachable(fault) from None
        if answer.status == 401 and "Access refused" not in str(answer.reason):
            reason = answer.reason or "there was none"
            raise Failure(UNAVAILABLE, f"the node at {self.target.url} refused the login: {reason}")
        if answer.word in WRONG_STATE:
            raise WrongState(str(answer.reason))
        return answer

    def ask_as(self, authorization: str, path: str) -> Answer:
        """The same question in another's name; a refused login is an answer too."""
        try:
            return self._exchange("GET", path, None, {"Authorization": authorization})
        except (OSError, http.client.HTTPException) as fault:
            raise self._unreachable(fault) from None

    def get(self, path: str) -> Any:
        return self._expect(self.request("GET", path))

    def change(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        return self._expect(self.request(method, path, body, headers))

    def exists(self, path: str) -> bool:
        return self.request("GET", path).status != 404

    def _expect(self, answer: Answer) -> Any:
        if not answer.is_good:
            raise refused(answer.reason or f"the node answered {answer.status}")
        return answer.body

    def _exchange(self, method: str, path: str, body: object, headers: dict[str, str]) -> Answer:
        connection = self._connect()
        data = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": self.target.authorization, "Content-Type": "application/json", **headers}
        connection.request(method, self._prefix + path, body=data, headers=sent)
        answer = connection.getresponse()
        text = answer.read()
        if answer.will_close:
            self._connection = None
        try:
            return Answer(answer.status, json.loads(text) if text else None)
        except ValueError:
            raise http.client.HTTPException(f"no node answers there: {answer.status} without JSON") from None

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self.target.is_gone or not self.target.url:
                raise ConnectionRefusedError("the node is not running on this machine")
            if not self._timeout:
                raise TimeoutError      # or the socket would not wait for its own connection
            self._connection = self._open(self.target.url)
        return self._connection

    def _open(self, url: str) -> http.client.HTTPConnection:
        try:
            place = urlsplit(url if "//" in url else f"http://{url}")
            host, port = place.hostname or "localhost", place.port
            host.encode("idna")         # as whoever looks it up does: a name with two dots in a row is none
        except ValueError:
            raise Misuse(f"{url} is not an address") from None
        if place.scheme not in ("http", "https") or not url.isascii():
            raise Misuse(f"{url} is not an address such as http://localhost:15672")
        self._prefix = place.path.rstrip("/")
        if place.scheme != "https":
            return http.client.HTTPConnection(host, port or 15672, timeout=self._timeout)
        return http.client.HTTPSConnection(host, port or 15671, timeout=self._timeout, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        file = self._values.get("cacertfile")
        try:
            context = ssl.create_default_context(cafile=str(file) if file else None)
        except OSError as fault:
            raise Misuse(f"--cacertfile {file} cannot be used: {fault.strerror or fault}") from None
        if self._values.get("insecure"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _unreachable(self, fault: Exception) -> Failure:
        target = self.target
        if isinstance(fault, TimeoutError) and (not self._timeout or (self._connection and self._connection.sock)):
            return TimedOut(target.node or target.url, self._timeout)
        if isinstance(fault, http.client.BadStatusLine) and not isinstance(fault, ConnectionError):
            fault = http.client.HTTPException("what answers there does not speak HTTP; is it the port of the management API?")
        name = target.node or target.url
        where = target.url or "nothing: no file of a node with this name was found"
        looked = "\n".join(f"  {directory}" for directory in rendezvous.run_directories(os.environ))
        return Failure(UNAVAILABLE, is_bare=True, text=(
            f"Error: unable to perform an operation on node '{name}'. "
            "Please see diagnostics information and suggestions below.\n\n"
            "Most common reasons for this are:\n\n * Target node is not running\n"
            " * It runs under another name, at another port or on another machine: give -n <node> or --url <address>\n"
            " * It runs as another user, whose files this user may not read: give --url, --username and --password\n\n"
            f"DIAGNOSTICS\n===========\n\nattempted to contact: {where}\nreason: {fault}\n"
            f"files of nodes are looked for in:\n{looked}"))
