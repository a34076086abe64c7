"""Commands on permissions and topic permissions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirrormq.cli.ctl.client import Answer, part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import UNAVAILABLE, Failure, no_user, refused

PATTERNS = ("configure", "write", "read")


def _rows(context: Context, path: str) -> list[dict[str, Any]]:
    return list(context.client.get(path))


def _of_user(context: Context, what: str) -> list[dict[str, Any]]:
    answer = context.client.request("GET", f"/api/users/{part(context.arg(0))}/{what}")
    if not answer.is_good:
        raise refused(["no_such_user", context.arg(0)])
    return list(answer.body)


def _show(context: Context, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
    context.out.table(columns, rows)


def list_permissions(context: Context) -> None:
    context.out.banner(f'Listing permissions for vhost "{context.vhost}" ...')
    context.require_vhost()
    _show(context, ("user", *PATTERNS), _rows(context, f"/api/vhosts/{context.vhost_part}/permissions"))


def list_user_permissions(context: Context) -> None:
    context.out.banner(f'Listing permissions for user "{context.arg(0)}" ...')
    _show(context, ("vhost", *PATTERNS), _of_user(context, "permissions"))


def list_topic_permissions(context: Context) -> None:
    context.out.banner(f'Listing topic permissions for vhost "{context.vhost}" ...')
    context.require_vhost()
    rows = _rows(context, f"/api/vhosts/{context.vhost_part}/topic-permissions")
    _show(context, ("user", "exchange", "write", "read"), rows)


def list_user_topic_permissions(context: Context) -> None:
    context.out.banner(f'Listing topic permissions for user "{context.arg(0)}" ...')
    context.out.hide_headers()      # as RabbitMQ does, for this list alone
    _show(context, ("vhost", "exchange", "write", "read"), _of_user(context, "topic-permissions"))


def _check_both(context: Context) -> None:
    user = context.arg(0)
    if not context.client.exists(f"/api/users/{part(user)}"):
        raise no_user(user, is_quoted=False)
    if not context.client.exists(f"/api/vhosts/{context.vhost_part}"):
        raise Failure(UNAVAILABLE, f"Virtual host {context.vhost} does not exist")


def _finish(context: Context, answer: Answer) -> None:
    """Clearing what is not there is no failure."""
    if not answer.is_good and answer.status != 404:
        raise refused(answer.reason)
    context.done()


def set_permissions(context: Context) -> None:
    user, *patterns = context.args
    context.out.banner(f'Setting permissions for user "{user}" in vhost "{context.vhost}" ...')
    _check_both(context)
    body = dict(zip(PATTERNS, patterns, strict=True))
    _finish(context, context.client.request("PUT", f"/api/permissions/{context.vhost_part}/{part(user)}", body))


def clear_permissions(context: Context) -> None:
    user = context.arg(0)
    context.out.banner(f'Clearing permissions for user "{user}" in vhost "{context.vhost}" ...')
    _check_both(context)
    _finish(context, context.client.request("DELETE", f"/api/permissions/{context.vhost_part}/{part(user)}"))


def set_topic_permissions(context: Context) -> None:
    user, exchange, write, read = context.args
    context.out.banner(
        f'Setting topic permissions on "{exchange}" for user "{user}" in vhost "{context.vhost}" ...')
    _check_both(context)
    body = {"exchange": exchange, "write": write, "read": read}
    _finish(context, context.client.request("PUT", f"/api/topic-permissions/{context.vhost_part}/{part(user)}", body))


def clear_topic_permissions(context: Context) -> None:
    user, exchange = context.arg(0), context.args[1] if len(context.args) > 1 else ""
    on = f' on "{exchange}"' if exchange else ""
    context.out.banner(f'Clearing topic permissions{on} for user "{user}" in vhost "{context.vhost}" ...')
    _check_both(context)
    path = f"/api/topic-permissions/{context.vhost_part}/{part(user)}"
    _finish(context, context.client.request("DELETE", f"{path}/{part(exchange)}" if exchange else path))
