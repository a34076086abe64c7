"""What keeps strangers out of the API: waits, headers, origins, TLS."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from compat.support import free_port, unique
from mirrormq.admin.attempts import FORGET, FREE, LONGEST, MOST_WAITING, Attempts
from mirrormq.admin.errors import ApiError

from .support import Node

MakeUser = Callable[..., str]


# --- the wait, without a clock ------------------------------------------------------------------------------------------


def test_the_first_wrong_passwords_cost_nothing_then_each_doubles_the_wait():
    attempts, free = Attempts(), FREE["user"]
    waits = [attempts.failed("u", "there", 0.0) for _ in range(free + 8)]
    assert waits[:free] == [0.0] * free
    assert waits[free:free + 4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert max(waits) == LONGEST


def test_a_right_password_and_time_end_the_count():
    attempts, many = Attempts(), FREE["user"] + 3
    for _ in range(many):
        attempts.failed("u", "there", 0.0)
    attempts.succeeded("u", "there")
    assert attempts.failed("u", "there", 1.0) == 0.0
    for _ in range(many):
        attempts.failed("u", "there", 1.0)
    assert attempts.failed("u", "there", 2.0) > 0.0
    assert attempts.failed("u", "there", 3.0 + FORGET) == 0.0


def test_neither_names_nor_addresses_wait_for_each_other():
    attempts = Attempts()
    for _ in range(FREE["user"] + 3):
        attempts.failed("u", "there", 0.0)
    assert attempts.failed("u", "elsewhere", 0.0) == 0.0
    assert attempts.failed("another", "there", 0.0) == 0.0


def test_guessing_many_names_from_one_address_waits_too():
    attempts = Attempts()
    for number in range(FREE["address"]):
        attempts.failed(f"u{number}", "there", 0.0)
    assert attempts.failed("another", "there", 0.0) > 0.0
    assert attempts.failed("another", "elsewhere", 0.0) == 0.0


async def test_nobody_keeps_many_answers_waiting():
    attempts = Attempts()
    for _ in range(FREE["user"] + 6):
        attempts.failed("u", "there", asyncio.get_running_loop().time())
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(attempts.delay("u", "there")) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError):
            attempts.check("there")
        attempts.check("elsewhere")
        for task in waiting:
            task.cancel()
    attempts.check("there")


# --- a node ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def besieged(run_directory: None, tmp_path: Path) -> Iterator[Node]:
    server = Node(tmp_path, name="besieged@localhost")
    server.start()
    yield server
    server.stop()


@pytest.mark.live
def test_guessing_passwords_gets_slow_and_others_do_not_notice(besieged: Node):
    replies: list[int] = []
    guesses = [threading.Thread(target=lambda: replies.append(besieged.ask("GET", "/api/whoami", password=unique("p")).status))
               for _ in range(FREE["user"] + MOST_WAITING + 15)]
    for guess in guesses:
        guess.start()
    started = time.monotonic()
    mine = besieged.ask("GET", "/api/whoami")
    for guess in guesses:
        guess.join()
    assert mine.status in (200, 429)
    assert set(replies) == {401, 429}
    assert time.monotonic() - started > LONGEST / 10
    assert besieged.ask("GET", "/api/whoami").status == 200


@pytest.mark.live
def test_every_answer_ties_the_browsers_hands(node: Node):
    for path in ("/", "/api/overview", "/api/nope", "/api/index.html", "/metrics"):
        headers = node.ask("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe-eval" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert "strict-transport-security" not in headers


@pytest.mark.live
def test_scripts_of_other_sites_are_not_let_in_by_default(node: Node):
    for method in ("GET", "OPTIONS"):
        reply = node.ask(method, "/api/overview", headers={"Origin": "https://evil.example"})
        assert not any(name.startswith("access-control") for name in reply.headers)


@pytest.mark.live
def test_over_tls_the_browser_is_told_to_stay_there_and_the_cookie_is_secure(run_directory: None, tmp_path: Path):
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    port = free_port()
    (tmp_path / "node.conf").write_text(
        f"management.ssl.port = {port}\nmanagement.ssl.certfile = {tmp_path / 'server.pem'}\n"
        f"management.ssl.keyfile = {tmp_path / 'server.pem'}\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="sealed@localhost")
    server.start()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    try:
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=30)
        connection.request("GET", "/api/auth")
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("strict-transport-security")) == (200, "max-age=31536000")
        answer.read()
        page, login = {"X-MirrorMQ-Page": "1"}, b'{"username":"guest","password":"guest"}'
        connection.request("POST", "/api/session", body=login, headers=page)
        cookie = connection.getresponse().getheader("set-cookie", "")
        assert {"Secure", "HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
        connection.close()
    finally:
        server.stop()


@pytest.mark.live
def test_names_are_data_wherever_they_appear(node: Node, vhost: str):
    """A header cannot be broken out of, and pages are escaped."""
    reply = node.ask("GET", "/api/definitions?download=a%0d%0aset-cookie:x")
    assert reply.status == 200
    assert "set-cookie" not in reply.headers
    assert "content-disposition" not in reply.headers
    hostile = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    assert node.ask("PUT", f"/api/queues/{vhost}/{hostile}", {}).status == 201
    assert node.ask("GET", f"/api/queues/{vhost}/{hostile}").headers["content-type"] == "application/json"
    assert "<script>alert" not in str(node.ask("GET", "/").body)
    assert node.ask("DELETE", f"/api/queues/{vhost}/{hostile}").status == 204
