"""Refusals of the HTTP API: a status, a short word and a reason, as RabbitMQ's clients know them.

`reason` is text, or a list such as `["not_boolean", "maybe"]` that names the value at fault.
"""

from __future__ import annotations

from typing import Final

from mirrormq.wire.errors import AccessRefused, AMQPError, NotFound

Reason = str | list[object]
WIDTH: Final = 80       # of a line that Erlang prints


class ApiError(Exception):
    """Answered with `status`; the body is empty where `error` is."""

    def __init__(self, status: int, error: str = "", reason: Reason = "",
                 headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}


def bad_request(reason: Reason) -> ApiError:
    return ApiError(400, "bad_request", reason)


def key_missing(*keys: str) -> ApiError:
    """As Erlang prints a list: in one line, if it fits."""
    words = [f"{{key_missing,{key}}}" for key in keys]
    line = f"[{','.join(words)}]"
    return bad_request(line if len(line) <= WIDTH else f"[{f',{chr(10)} '.join(words)}]")


def not_found() -> ApiError:
    """What the path names does not exist."""
    return ApiError(404, "Object Not Found", "Not Found")


def missing(reason: str) -> ApiError:
    """Something that the path or the body relies on does not exist."""
    return ApiError(404, "not_found", reason)


def not_authorised(reason: str) -> ApiError:
    return ApiError(401, "not_authorised", reason)


def unavailable(reason: str) -> ApiError:
    return ApiError(503, "service_unavailable", reason)


def from_broker(error: AMQPError) -> ApiError:
    """What the broker refused to do for the user: declare, delete, bind."""
    if isinstance(error, AccessRefused):
        return not_authorised("Access refused.")
    if isinstance(error, NotFound):
        return missing(error.text)
    return bad_request(error.text)
