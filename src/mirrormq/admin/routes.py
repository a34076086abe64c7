"""Every path of the HTTP API: method, path, who may, and the handler. A word in braces is one part of the path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirrormq.admin import (
    bindings,
    cluster_view,
    connections,
    consumers,
    definitions,
    exchanges,
    feed,
    feed_publish,
    health,
    messages,
    metrics,
    nodes,
    openapi,
    overview,
    pages,
    parameters,
    permissions,
    queues,
    users,
    vhosts,
)
from mirrormq.admin.access import Principal
from mirrormq.admin.call import Handler
from mirrormq.admin.page_routes import page_routes
from mirrormq.admin.policies import OPERATOR_POLICIES, POLICIES

Access = Callable[[Principal, str], None]
"""Raises unless the caller may; the second argument is the virtual host of the path, or empty."""


def anyone(_: Principal, __: str) -> None:
    """Also those who have not logged in."""


def known(_: Principal, __: str) -> None:
    """Whoever has logged in; the handler looks for permissions."""


def management(principal: Principal, _: str) -> None:
    principal.require_management()


def monitor(principal: Principal, _: str) -> None:
    principal.require_monitor()


def scraper(principal: Principal, _: str) -> None:
    """Like `monitor`, for what is not JSON."""
    principal.require_monitor()


def policymaker(principal: Principal, vhost: str) -> None:
    principal.require_policymaker(vhost)


def administrator(principal: Principal, _: str) -> None:
    principal.require_administrator()


def member(principal: Principal, vhost: str) -> None:
    """With a permission in the virtual host."""
    principal.require_vhost(vhost)


def member_or_monitor(principal: Principal, vhost: str) -> None:
    if not principal.is_monitor:
        principal.require_vhost(vhost)


NOT_JSON: Final = (anyone, scraper)
Route = tuple[str, str, Access, Handler]

ROUTES: Final[tuple[Route, ...]] = (
    *page_routes(anyone, member, monitor, administrator),
    ("GET", "/metrics", scraper, metrics.show_metrics),
    ("GET", "/metrics/per-object", scraper, metrics.show_per_object),
    ("GET", "/metrics/detailed", scraper, metrics.show_detailed),
    ("GET", "/api", anyone, pages.to_api_index),
    ("GET", "/api/index.html", anyone, pages.api_index),
    ("GET", "/api/openapi.json", anyone, openapi.show_openapi),
    ("GET", "/api/auth", anyone, overview.show_auth),
    ("GET", "/api/whoami", management, users.whoami),
    ("GET", "/api/overview", management, overview.show_overview),
    ("GET", "/api/cluster", monitor, cluster_view.show_cluster),
    ("GET", "/api/cluster-name", management, parameters.show_cluster_name),
    ("PUT", "/api/cluster-name", administrator, parameters.put_cluster_name),
    ("GET", "/api/extensions", management, overview.list_extensions),
    ("GET", "/api/feature-flags", administrator, overview.list_features),
    ("GET", "/api/deprecated-features", administrator, overview.list_deprecated),
    ("GET", "/api/deprecated-features/used", administrator, overview.list_deprecated),
    ("GET", "/api/nodes", monitor, nodes.list_nodes),
    ("GET", "/api/nodes/{node}", monitor, nodes.show_node),
    ("GET", "/api/nodes/{node}/memory", monitor, nodes.show_memory),
    ("GET", "/api/environment", administrator, nodes.show_environment),
    ("GET", "/api/auth/attempts/{node}", monitor, overview.list_attempts),
    ("GET", "/api/auth/attempts/{node}/source", monitor, overview.list_attempts_by_source),
    ("POST", "/api/rebalance/queues", administrator, overview.rebalance),
    ("DELETE", "/api/reset", administrator, overview.reset_statistics),
    ("GET", "/api/definitions", administrator, definitions.show_definitions),
    ("POST", "/api/definitions", administrator, definitions.post_definitions),
    ("GET", "/api/definitions/{vhost}", administrator, definitions.show_vhost_definitions),
    ("POST", "/api/definitions/{vhost}", administrator, definitions.post_vhost_definitions),
    ("GET", "/api/connections", management, connections.list_connections),
    ("GET", "/api/connections/{name}", management, connections.show_connection),
    ("DELETE", "/api/connections/{name}", management, connections.close_connection),
    ("GET", "/api/connections/{name}/channels", management, connections.list_of_connection),
    ("GET", "/api/connections/username/{user}", management, connections.list_of_user),
    ("DELETE", "/api/connections/username/{user}", administrator, connections.close_of_user),
    ("GET", "/api/channels", management, connections.list_channels),
    ("GET", "/api/channels/{name}", management, connections.show_channel),
    ("GET", "/api/consumers", management, consumers.list_consumers),
    ("GET", "/api/consumers/{vhost}", management, consumers.list_in_vhost),
    ("GET", "/api/exchanges", management, exchanges.list_exchanges),
    ("GET", "/api/exchanges/{vhost}", member, exchanges.list_exchanges),
    ("GET", "/api/exchanges/{vhost}/{name}", member, exchanges.show_exchange),
    ("PUT", "/api/exchanges/{vhost}/{name}", member, exchanges.declare_exchange),
    ("DELETE", "/api/exchanges/{vhost}/{name}", member, exchanges.delete_exchange),
    ("GET", "/api/exchanges/{vhost}/{name}/bindings/source", member, bindings.from_exchange),
    ("GET", "/api/exchanges/{vhost}/{name}/bindings/destination", member, bindings.to_exchange),
    ("POST", "/api/exchanges/{vhost}/{name}/publish", member, messages.publish_message),
    ("GET", "/api/queues", management, queues.list_queues),
    ("GET", "/api/queues/{vhost}", member, queues.list_queues),
    ("GET", "/api/queues/{vhost}/{name}", member, queues.show_queue),
    ("PUT", "/api/queues/{vhost}/{name}", member, queues.declare_queue),
    ("DELETE", "/api/queues/{vhost}/{name}", member, queues.delete_queue),
    ("GET", "/api/queues/{vhost}/{name}/bindings", member, bindings.of_queue),
    ("DELETE", "/api/queues/{vhost}/{name}/contents", member, queues.purge_queue),
    ("POST", "/api/queues/{vhost}/{name}/actions", administrator, queues.act_on_queue),
    ("POST", "/api/queues/{vhost}/{name}/get", member, messages.get_messages),
    ("GET", "/api/feed/{vhost}", known, feed.list_feeds),
    ("GET", "/api/feed/{vhost}/{name}", known, feed.read_feed),
    ("GET", "/api/feed/{vhost}/{name}/at", known, feed.find_time),
    ("GET", "/api/feed/{vhost}/{name}/span", known, feed.find_span),
    ("POST", "/api/feed/{vhost}/{name}/publish", known, feed_publish.publish_run),
    ("GET", "/api/lake-mirrors/{vhost}", known, feed.list_mirrors),
    ("GET", "/api/lake-mirrors/{vhost}/{name}", known, feed.show_mirror),
    ("PUT", "/api/lake-mirrors/{vhost}/{name}", known, feed.put_mirror),
    ("DELETE", "/api/lake-mirrors/{vhost}/{name}", known, feed.delete_mirror),
    ("GET", "/api/bindings", management, bindings.list_bindings),
    ("GET", "/api/bindings/{vhost}", member, bindings.list_bindings),
    ("GET", "/api/bindings/{vhost}/e/{source}/{kind:e|q}/{destination}", member, bindings.list_between),
    ("POST", "/api/bindings/{vhost}/e/{source}/{kind:e|q}/{destination}", member, bindings.make_binding),
    ("GET", "/api/bindings/{vhost}/e/{source}/{kind:e|q}/{destination}/{properties}", member, bindings.show_one),
    ("DELETE", "/api/bindings/{vhost}/e/{source}/{kind:e|q}/{destination}/{properties}", member, bindings.remove),
    ("GET", "/api/vhosts", management, vhosts.list_vhosts),
    ("GET", "/api/vhosts/{vhost}", administrator, vhosts.show_vhost),
    ("PUT", "/api/vhosts/{vhost}", administrator, vhosts.put_vhost),
    ("DELETE", "/api/vhosts/{vhost}", administrator, vhosts.delete_vhost),
    ("GET", "/api/vhosts/{vhost}/permissions", administrator, permissions.list_permissions),
    ("GET", "/api/vhosts/{vhost}/topic-permissions", administrator, permissions.list_topic_permissions),
    ("GET", "/api/vhosts/{vhost}/connections", member, connections.list_connections),
    ("GET", "/api/vhosts/{vhost}/channels", member, connections.list_channels),
    ("POST", "/api/vhosts/{vhost}/start/{node}", administrator, vhosts.start_vhost),
    ("GET", "/api/vhost-limits", management, vhosts.list_limits),
    ("GET", "/api/vhost-limits/{vhost}", member_or_monitor, vhosts.list_limits),
    ("PUT", "/api/vhost-limits/{vhost}/{name}", administrator, vhosts.put_limit),
    ("DELETE", "/api/vhost-limits/{vhost}/{name}", administrator, vhosts.delete_limit),
    ("GET", "/api/users", administrator, users.list_users),
    ("GET", "/api/users/without-permissions", administrator, users.list_without_permissions),
    ("POST", "/api/users/bulk-delete", administrator, users.delete_users),
    ("GET", "/api/users/{user}", administrator, users.show_user),
    ("PUT", "/api/users/{user}", administrator, users.put_user),
    ("DELETE", "/api/users/{user}", administrator, users.delete_user),
    ("GET", "/api/users/{user}/permissions", administrator, permissions.list_permissions),
    ("GET", "/api/users/{user}/topic-permissions", administrator, permissions.list_topic_permissions),
    ("GET", "/api/user-limits", management, users.list_limits),
    ("GET", "/api/user-limits/{user}", management, users.list_limits),
    ("PUT", "/api/user-limits/{user}/{name}", administrator, users.put_limit),
    ("DELETE", "/api/user-limits/{user}/{name}", administrator, users.delete_limit),
    ("GET", "/api/permissions", administrator, permissions.list_permissions),
    ("GET", "/api/permissions/{vhost}/{user}", administrator, permissions.show_permission),
    ("PUT", "/api/permissions/{vhost}/{user}", administrator, permissions.put_permission),
    ("DELETE", "/api/permissions/{vhost}/{user}", administrator, permissions.delete_permission),
    ("GET", "/api/topic-permissions", administrator, permissions.list_topic_permissions),
    ("GET", "/api/topic-permissions/{vhost}/{user}", administrator, permissions.show_topic_permissions),
    ("PUT", "/api/topic-permissions/{vhost}/{user}", administrator, permissions.put_topic_permission),
    ("DELETE", "/api/topic-permissions/{vhost}/{user}", administrator, permissions.delete_topic_permissions),
    ("DELETE", "/api/topic-permissions/{vhost}/{user}/{exchange}", administrator, permissions.delete_topic_permissions),
    ("GET", "/api/parameters", policymaker, parameters.list_parameters),
    ("GET", "/api/parameters/{component}", policymaker, parameters.list_parameters),
    ("GET", "/api/parameters/{component}/{vhost}", policymaker, parameters.list_parameters),
    ("GET", "/api/parameters/{component}/{vhost}/{name}", policymaker, parameters.show_parameter),
    ("PUT", "/api/parameters/{component}/{vhost}/{name}", policymaker, parameters.put_parameter),
    ("DELETE", "/api/parameters/{component}/{vhost}/{name}", policymaker, parameters.delete_parameter),
    ("GET", "/api/global-parameters", policymaker, parameters.list_global_parameters),
    ("GET", "/api/global-parameters/{name}", policymaker, parameters.show_global_parameter),
    ("PUT", "/api/global-parameters/{name}", policymaker, parameters.put_global_parameter),
    ("DELETE", "/api/global-parameters/{name}", policymaker, parameters.delete_global_parameter),
    ("GET", "/api/policies", management, POLICIES.list_all),
    ("GET", "/api/policies/{vhost}", member, POLICIES.list_all),
    ("GET", "/api/policies/{vhost}/{name}", policymaker, POLICIES.show_one),
    ("PUT", "/api/policies/{vhost}/{name}", policymaker, POLICIES.put),
    ("DELETE", "/api/policies/{vhost}/{name}", policymaker, POLICIES.delete),
    ("GET", "/api/operator-policies", management, OPERATOR_POLICIES.list_all),
    ("GET", "/api/operator-policies/{vhost}", member, OPERATOR_POLICIES.list_all),
    ("GET", "/api/operator-policies/{vhost}/{name}", administrator, OPERATOR_POLICIES.show_one),
    ("PUT", "/api/operator-policies/{vhost}/{name}", administrator, OPERATOR_POLICIES.put),
    ("DELETE", "/api/operator-policies/{vhost}/{name}", administrator, OPERATOR_POLICIES.delete),
    ("GET", "/api/aliveness-test/{vhost}", member, messages.aliveness),
    ("GET", "/api/healthchecks/node", management, health.node_health),
    ("GET", "/api/healthchecks/node/{node}", management, health.node_health),
    ("GET", "/api/health/checks/alarms", management, health.alarms),
    ("GET", "/api/health/checks/local-alarms", management, health.local_alarms),
    ("GET", "/api/health/checks/certificate-expiration/{within}/{unit}", management, health.certificate_expiration),
    ("GET", "/api/health/checks/port-listener/{port}", management, health.port_listener),
    ("GET", "/api/health/checks/protocol-listener/{protocol}", management, health.protocol_listener),
    ("GET", "/api/health/checks/virtual-hosts", management, health.virtual_hosts),
    ("GET", "/api/health/checks/node-is-mirror-sync-critical", management, health.mirror_critical),
    ("GET", "/api/health/checks/node-is-quorum-critical", management, health.node_critical),
)
