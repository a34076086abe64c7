"""The web page: files of the folder `static`, read once, each with the headers that keep it safe.

Scripts and styles come from this server alone, nothing may be put into the page by a name or a message: no inline script, no
inline style, no frame around it. A browser keeps a file and asks whether it has changed.
"""

from __future__ import annotations

import gzip
import hashlib
import html
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from mirrormq.admin.call import Answer, Call
from mirrormq.admin.errors import not_found

KINDS: Final = {
    "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}  # fmt: skip
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
SAFE: Final = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "x-frame-options": "DENY",
    "referrer-policy": "no-referrer", "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}  # fmt: skip


class File(NamedTuple):
    kind: str
    data: bytes
    packed: bytes
    tag: str


def _file(kind: str, data: bytes) -> File:
    return File(KINDS[kind], data, gzip.compress(data, 9, mtime=0), f'"{hashlib.sha256(data).hexdigest()[:24]}"')


@cache
def _all() -> dict[tuple[str, ...], File]:
    """By folder and name: only what was there at the first look is ever served, whatever a path says."""
    root = files("mirrormq.admin").joinpath("static")
    found: dict[tuple[str, ...], File] = {}
    for entry in root.iterdir():
        places = [((entry.name,), entry)] if entry.is_file() else [((entry.name, one.name), one) for one in entry.iterdir()]
        for place, one in places:
            kind = place[-1].rpartition(".")[2]
            if one.is_file() and kind in KINDS:
                found[place] = _file(kind, one.read_bytes())
    return found


@cache
def _index(base: str, node: str) -> File:
    text = _all()["index.html",].data.decode()
    return _file("html", text.replace("{{base}}", html.escape(base)).replace("{{node}}", html.escape(node)).encode())


def serve_index(call: Call) -> Answer:
    return _answer(call, _index(call.runtime.config.management_path_prefix.rstrip("/"), call.broker.node_name))


def serve_file(call: Call) -> Answer:
    place = (call.args["folder"], call.args["file"]) if "folder" in call.args else (call.args["file"],)
    found = _all().get(place)
    if found is None or place == ("index.html",):
        raise not_found()
    return _answer(call, found)


def _answer(call: Call, file: File) -> Answer:
    headers = SAFE | {"content-type": file.kind, "etag": file.tag, "cache-control": "no-cache"}
    if call.headers.get("If-None-Match") == file.tag:
        return Answer(304, headers=headers)
    if "gzip" in call.headers.get("Accept-Encoding", ""):
        return Answer(200, file.packed, headers | {"content-encoding": "gzip"})
    return Answer(200, file.data, headers)
