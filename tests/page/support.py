"""Support for the tests of the web page: a real browser, and a reader who logs in and looks around.

Debian's package chromium is used. Where it is missing tests are skipped, unless MIRRORMQ_REQUIRE_ALL=1 asks for everything: then
it is installed, and its absence is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from admin.support import Node, quote

ROOT = Path(__file__).parent.parent.parent
REQUIRED = os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")
PHONE = {"width": 360, "height": 740}
PATIENCE = 60_000       # milliseconds in which a page shows what it should, on a busy machine
expect.set_options(timeout=PATIENCE)


def find_browser() -> str:
    """The program; skips the test where it is missing."""
    found = [path for path in map(shutil.which, PROGRAMS) if path]
    if not found and REQUIRED:
        subprocess.run([ROOT / ".ci" / "packages", "chromium"], check=True)
        found = [path for path in map(shutil.which, PROGRAMS) if path]
    if not found:
        if REQUIRED:
            pytest.fail("no browser, and all components are required: install Debian's chromium")
        pytest.skip("no browser is installed (Debian's package is chromium)")
    return found[0]


@contextmanager
def running_browser() -> Iterator[Browser]:
    program = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS), timeout=3 * PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


class Reader:
    """A person at the page. What the browser complains about is kept in `complaints`."""

    def __init__(self, context: BrowserContext, node: Node) -> None:
        self.context = context
        self.node = node
        context.set_default_timeout(PATIENCE)
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.requests: list[Request] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda fault: self.complaints.append(str(fault)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _request(self, request: Request) -> None:
        self.requests.append(request)

    def log_in(self, user: str = "guest", password: str | None = None) -> None:
        self.page.goto(self.node.url)
        self.page.get_by_label("User name").fill(user)
        self.page.get_by_label("Password").fill(password or user)
        self.page.keyboard.press("Enter")

    def enter(self, user: str = "guest") -> None:
        """Come with a session, without the form."""
        reply = self.node.ask("POST", "/api/session", {"username": user, "password": user}, user=None,
                              headers={"X-MirrorMQ-Page": "1"})
        assert reply.status == 200, reply
        name, _, value = reply.headers["set-cookie"].partition(";")[0].partition("=")
        self.context.add_cookies([{"name": name, "value": value, "url": self.node.url, "httpOnly": True, "sameSite": "Strict"}])
        self.page.goto(self.node.url)
        expect(self.page.locator(".frame")).to_be_visible()

    def open(self, *parts: str) -> None:
        """Go to a view, and wait until it has been filled."""
        self.page.goto(f"{self.node.url}/#/{'/'.join(quote(part) for part in parts)}")
        shown = self.page.evaluate("location.hash")
        expect(self.page.locator(".frame")).to_have_attribute("data-shown", shown)

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))
