"""The paths that the web page needs beside those of RabbitMQ's API, and the page itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mirrormq.admin import biography, browse, login, outlook, rings, static_files, undo
from mirrormq.admin.access import Principal
from mirrormq.admin.call import Handler

Access = Callable[[Principal, str], None]
Route = tuple[str, str, Access, Handler]
QUESTIONS: Final[dict[str, Any]] = browse.HERE
"""What nodes ask each other for these paths; each module above adds its own."""


def page_routes(anyone: Access, member: Access, monitor: Access, administrator: Access) -> tuple[Route, ...]:
    one = "/api/queues/{vhost}/{name}"
    return (
        ("GET", "/", anyone, static_files.serve_index),
        ("GET", "/static/{file}", anyone, static_files.serve_file),
        ("GET", "/static/{folder}/{file}", anyone, static_files.serve_file),
        ("GET", "/api/session", anyone, login.show_session),
        ("POST", "/api/session", anyone, login.log_in),
        ("DELETE", "/api/session", anyone, login.log_out),
        ("GET", f"{one}/messages", member, browse.browse_messages),
        ("GET", f"{one}/messages/{{index}}", member, biography.show_biography),
        ("GET", f"{one}/ring", member, rings.show_ring),
        ("GET", f"{one}/failovers", member, rings.list_failovers),
        ("GET", f"{one}/quarantine", member, rings.list_quarantine),
        ("POST", f"{one}/quarantine/{{item}}", member, rings.settle_quarantine),
        ("GET", "/api/undo/{vhost}", member, undo.list_undo),
        ("POST", "/api/undo/{vhost}/{item}", member, undo.undo),
        ("GET", "/api/cluster-map", monitor, outlook.show_map),
        ("GET", "/api/nodes/{node}/stop-forecast", monitor, outlook.show_forecast),
        ("GET", "/api/rebalance/queues", administrator, outlook.preview_rebalance),
    )
