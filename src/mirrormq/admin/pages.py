"""What the API offers, as a page."""

from __future__ import annotations

import html

from mirrormq.admin.call import Answer, Call
from mirrormq.admin.static_files import SAFE


def _page(title: str, body: str) -> Answer:
    text = (f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
            f"<link rel=stylesheet href='../static/plain.css'><h1>{html.escape(title)}</h1>{body}</html>")
    return Answer(200, text.encode(), SAFE | {"content-type": "text/html; charset=utf-8"})


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
