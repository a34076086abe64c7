"""The few pages for a person with a browser: what this is, and what the API offers."""

from __future__ import annotations

import html

from mirrormq import build_info
from mirrormq.admin.call import Answer, Call

STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "td,th{text-align:left;padding:.2em 1em .2em 0}"
)


def _page(title: str, body: str) -> Answer:
    text = (f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
            f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>{body}</html>")
    return Answer(200, text.encode(), {"content-type": "text/html; charset=utf-8"})


def index(call: Call) -> Answer:
    node = html.escape(call.broker.node_name)
    return _page("MirrorMQ", (
        f"<p>Node <b>{node}</b>, version {html.escape(build_info())}.</p>"
        "<ul><li><a href='api/index.html'>The HTTP API</a><li><a href='api/overview'>api/overview</a>"
        "<li><a href='api/queues'>api/queues</a><li><a href='api/definitions'>api/definitions</a></ul>"))


def api_index(_: Call) -> Answer:
    from mirrormq.admin.routes import ROUTES  # the table names this page

    paths: dict[str, list[str]] = {}
    for route in ROUTES:
        if route[1].startswith("/api/"):
            paths.setdefault(route[1], []).append(route[0])
    rows = "".join(f"<tr><td>{' '.join(names)}<td><code>{html.escape(path)}</code>" for path, names in paths.items())
    return _page("The HTTP API", f"<table><tr><th>Methods<th>Path{rows}</table>")


def to_api_index(_: Call) -> Answer:
    return Answer(301, headers={"location": "/api/index.html"})
