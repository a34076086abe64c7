"""The API described for programs: an OpenAPI 3.1 document, put together from the table of routes, at `/api/openapi.json`.

Every route is in it because it is made from the routes; what the table of routes does not say (bodies, query parameters) stands
here, and a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from mirrormq import __version__
from mirrormq.admin.call import Answer, Call, Json
from mirrormq.admin.openapi_bodies import BODIES, MESSAGES

WRITES: Final = ("PUT", "POST", "DELETE")
PAGED: Final = ("/api/queues", "/api/exchanges", "/api/connections", "/api/channels", "/api/vhosts")
SAMPLED: Final = (*PAGED, "/api/overview", "/api/nodes")
TAGS: Final = {
    "anyone": "nobody has to log in", "known": "no tag; permissions in the virtual host decide", "management": "any tag", "monitor": "monitoring", "scraper": "monitoring",
    "policymaker": "policymaker", "administrator": "administrator", "member": "any tag, and a permission in the virtual host",
    "member_or_monitor": "monitoring, or any tag and a permission in the virtual host",
}  # fmt: skip
"""The access of a route, by its name in `routes`, in words."""


def show_openapi(_: Call) -> Answer:
    return Answer(200, document())


def document() -> Json:
    from mirrormq.admin.routes import ROUTES  # the table names this page

    paths: dict[str, Json] = {}
    for method, path, access, handler in ROUTES:
        shown = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)
        paths.setdefault(shown, {})[method.lower()] = _operation(method, path, access.__name__, handler)
    return {
        "openapi": "3.1.0",
        "info": {"title": "MirrorMQ management API", "version": __version__,
                 "description": "RabbitMQ's management HTTP API. Names in paths are percent-encoded; the virtual host / is %2F."},
        "security": [{"basic": []}], "paths": paths,
        "components": {"securitySchemes": {"basic": {"type": "http", "scheme": "basic"},
                                           "token": {"type": "http", "scheme": "bearer"}},
                       "schemas": {"Refusal": _refusal()}},
    }  # fmt: skip


def _refusal() -> Json:
    return {"type": "object", "required": ["error", "reason"],
            "properties": {"error": {"type": "string"}, "reason": {"type": ["string", "array"]}}}


def _operation(method: str, path: str, access: str, handler: Callable[..., Any]) -> Json:
    operation: Json = {
        "operationId": _identifier(method, path), "summary": _summary(handler), "description": f"Tag: {TAGS[access]}.",
        "tags": [path.split("/")[2] if path.count("/") > 1 else "pages"],
        "parameters": _path_parameters(path) + _query(method, path),
        "responses": _responses(method, path, access),
    }  # fmt: skip
    if access == "anyone":
        operation["security"] = []
    body = BODIES.get(f"{method} {path}")
    if body is not None:
        operation["requestBody"] = {"required": bool(body.get("required")), "content": {"application/json": {"schema": body}}}
    return operation


def _identifier(method: str, path: str) -> str:
    words = re.findall(r"[A-Za-z]+", re.sub(r":[^}]*\}", "}", path))
    return method.lower() + "".join(word.capitalize() for word in words)


def _summary(handler: Callable[..., Any]) -> str:
    name = getattr(handler, "__name__", "")
    return name.strip("_").replace("_", " ").capitalize()


def _path_parameters(path: str) -> list[Json]:
    found = []
    for name, choices in re.findall(r"\{(\w+)(?::([^}]*))?\}", path):
        schema: Json = {"type": "string", "minLength": 1}
        if choices:
            schema = {"type": "string", "enum": choices.split("|")}
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _parameter(name: str, kind: str, text: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": kind}}


def _query(method: str, path: str) -> list[Json]:
    if method == "DELETE" and re.fullmatch(r"/api/(queues|exchanges)/\{vhost\}/\{name\}", path):
        return [_parameter("if-unused", "boolean", "Refuse if it is in use"),
                _parameter("if-empty", "boolean", "Refuse if it is not empty")]
    if path == "/metrics/detailed":
        return [_parameter("family", "string", "A group of metrics; may be given several times"),
                _parameter("vhost", "string", "Only of this virtual host; may be given several times")]
    if method != "GET" or not path.startswith("/api/"):
        return []
    found = [_parameter("columns", "string", "Fields to show, with commas between them and dots inside")]
    if not path.endswith("}") or path.count("{") == 1:
        found += [_parameter("sort", "string", "The field to sort by"), _parameter("sort_reverse", "boolean", "Backwards")]
    if path in PAGED or re.fullmatch(r"/api/(queues|exchanges)/\{vhost\}", path):
        found += [_parameter("page", "integer", "Which page; then the answer is an object"),
                  _parameter("page_size", "integer", "Rows of a page, up to 500"),
                  _parameter("name", "string", "Only such names"),
                  _parameter("use_regex", "boolean", "The name is a regular expression")]
    if path.startswith(SAMPLED):
        found += [_parameter(f"{name}_{end}", "integer", text) for name in ("lengths", "msg_rates", "data_rates")
                  for end, text in (("age", "Seconds that samples go back"), ("incr", "Seconds between samples"))]
    return found


def _responses(method: str, path: str, access: str) -> Json:
    plain: Json = {"description": "Done"}
    refused: Json = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}}
    page = "text/html" if path in ("/", "/api/index.html") else "application/json"
    kind = "text/plain" if path.startswith("/metrics") else page
    good: Json = {"description": "The answer", "content": {kind: {"schema": {}}}}
    found: Json = {"200": good} if method == "GET" or path in MESSAGES else {"204": plain}
    if method in ("PUT", "POST"):
        found |= {"201": {"description": "Made"}, "204": plain}
    if path == "/api":
        found = {"301": {"description": "The list of paths"}}
    if access != "anyone":
        found |= {"401": {"description": "Not logged in, or not allowed", **refused},
                  "429": {"description": "Too many wrong passwords", **refused}}
    if method in WRITES or "{" in path or path in PAGED:
        found |= {"400": {"description": "The request makes no sense", **refused}}
    if "{" in path:
        found |= {"404": {"description": "There is no such thing", **refused}}
    return found | {"503": {"description": "The application is stopped, or a check has failed", **refused}}
