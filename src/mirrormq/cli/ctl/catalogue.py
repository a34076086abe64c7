"""Every command: its group, how many words it takes, its own options, its usage and what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mirrormq.cli.ctl import cluster, definitions, node, objects, permissions, policies, queues, users, vhosts
from mirrormq.cli.ctl.context import Context

ANY: Final = 1000


class Command(NamedTuple):
    name: str
    group: str
    run: Callable[[Context], None]
    least: int
    most: int
    usage: str
    summary: str
    options: tuple[str, ...] = ()


_COLUMNS: Final = "[--no-table-headers] [<column> ...] [--timeout <timeout>]"
_IN_VHOST: Final = "[--vhost <vhost>] "
_HELP, _NODES, _CLUSTER, _REPLICATION, _UPGRADE = "Help", "Nodes", "Cluster", "Replication", "Upgrade"
_USERS, _ACCESS = "Users", "Access Control"
_MONITORING, _PARAMETERS, _POLICIES = "Monitoring, observability and health checks", "Parameters", "Policies"
_VHOSTS, _SETTINGS, _DEFINITIONS = "Virtual hosts", "Configuration and Environment", "Definitions"
_FLAGS, _OPERATIONS, _QUEUES = "Feature flags", "Operations", "Queues"
_POLICY: Final = "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>"
_METADATA: Final = '<vhost> [--description <description>] [--tags "<tag1>,<tag2>,<...>"]'


def _later(_: Context) -> None:
    raise AssertionError("help is answered before a node is looked for")


COMMANDS: Final = (
    Command("help", _HELP, _later, 0, 1, "[<command>] [--list-commands]", "Displays usage information for a command",
            ("list-commands",)),
    Command("version", _HELP, node.version, 0, 0, "", "Displays the version of this tool"),
    Command("await_startup", _NODES, node.await_startup, 0, 0, "[--timeout <seconds>]", "Waits for the node to serve"),
    Command("shutdown", _NODES, node.stop, 0, 0, "", "Stops a node of this machine and waits until it is gone"),
    Command("stop", _NODES, node.stop, 0, 1, "[<pidfile>]", "Stops a node of this machine and waits until it is gone"),
    Command("start_app", _NODES, cluster.start_app, 0, 0, "", "Starts the application of a node whose process runs"),
    Command("stop_app", _NODES, cluster.stop_app, 0, 0, "", "Stops the application; the process goes on, and can be told more"),
    Command("reset", _NODES, cluster.reset, 0, 0, "", "Takes a stopped node out of its cluster and removes all its data"),
    Command("force_reset", _NODES, cluster.force_reset, 0, 0, "",
            "Removes all data of a stopped node without telling its cluster"),
    Command("await_online_nodes", _CLUSTER, cluster.await_online_nodes, 1, 1, "<count> [--timeout <timeout>]",
            "Waits until so many nodes of the cluster are up"),
    Command("change_cluster_node_type", _CLUSTER, cluster.change_cluster_node_type, 1, 1, "<disc | ram>",
            "Every node is a disc node: changes nothing"),
    Command("cluster_status", _CLUSTER, cluster.cluster_status, 0, 0, "[--timeout <timeout>]",
            "Displays the nodes of the cluster"),
    Command("forget_cluster_node", _CLUSTER, cluster.forget_cluster_node, 1, 1, "[--offline] <existing_cluster_member_node>",
            "Removes a node that is down from the cluster", ("offline",)),
    Command("join_cluster", _CLUSTER, cluster.join_cluster, 1, 1, "[--disc|--ram] <existing_cluster_member>",
            "Makes a stopped node a member of the cluster that another node is in", ("disc", "ram")),
    Command("rename_cluster_node", _CLUSTER, cluster.rename_cluster_node, 2, ANY,
            "<oldnode1> <newnode1> [oldnode2] [newnode2] ...", "A node cannot be renamed: says what to do instead"),
    Command("drain", _UPGRADE, cluster.drain, 0, 0, "", "Puts the node in maintenance mode: it serves no clients"),
    Command("revive", _UPGRADE, cluster.revive, 0, 0, "", "Takes the node out of maintenance mode"),
    Command("cancel_sync_queue", _REPLICATION, queues.cancel_sync_queue, 1, 1, _IN_VHOST + "<queue>",
            "Instructs a synchronising mirrored queue to stop synchronising itself"),
    Command("sync_queue", _REPLICATION, queues.sync_queue, 1, 1, _IN_VHOST + "<queue>",
            "Instructs a mirrored queue to synchronise its mirrors"),
    Command("add_user", _USERS, users.add_user, 1, 2, "<username> [<password>]",
            "Creates a new user, who has no permissions yet"),
    Command("authenticate_user", _USERS, users.authenticate_user, 1, 2, "<username> [<password>]",
            "Attempts to authenticate a user. Exits with a non-zero code if authentication fails."),
    Command("change_password", _USERS, users.change_password, 1, 2, "<username> [<password>]",
            "Changes the user password"),
    Command("clear_password", _USERS, users.clear_password, 1, 1, "<username>",
            "Clears the password and disables password login for a user"),
    Command("clear_user_limits", _USERS, users.clear_user_limits, 2, 2, "<username> <limit_type> | all",
            "Clears user connection and channel limits"),
    Command("delete_user", _USERS, users.delete_user, 1, 1, "<username>", "Removes a user"),
    Command("hash_password", _USERS, users.hash_password_command, 0, 1, "[<password>]",
            "Hashes a password, for definitions"),
    Command("list_user_limits", _USERS, users.list_user_limits, 0, 0, "[--user <username>] [--global]",
            "Displays configured user limits", ("user", "global")),
    Command("list_users", _USERS, users.list_users, 0, 0, "[--no-table-headers] [--timeout <timeout>]",
            "Lists user names and tags"),
    Command("set_user_limits", _USERS, users.set_user_limits, 2, 2, "<username> <definition>", "Sets user limits"),
    Command("set_user_tags", _USERS, users.set_user_tags, 1, ANY, "<username> <tag> [...]", "Sets user tags"),
    Command("clear_permissions", _ACCESS, permissions.clear_permissions, 1, 1, _IN_VHOST + "<username>",
            "Revokes user permissions for a vhost"),
    Command("clear_topic_permissions", _ACCESS, permissions.clear_topic_permissions, 1, 2,
            _IN_VHOST + "<username> [<exchange>]", "Clears user topic permissions for a vhost or exchange"),
    Command("list_permissions", _ACCESS, permissions.list_permissions, 0, 0, _IN_VHOST + "[--no-table-headers]",
            "Lists user permissions in a virtual host"),
    Command("list_topic_permissions", _ACCESS, permissions.list_topic_permissions, 0, 0,
            _IN_VHOST + "[--no-table-headers]", "Lists topic permissions in a virtual host"),
    Command("list_user_permissions", _ACCESS, permissions.list_user_permissions, 1, 1,
            "[--no-table-headers] <username>", "Lists permissions of a user across all virtual hosts"),
    Command("list_user_topic_permissions", _ACCESS, permissions.list_user_topic_permissions, 1, 1,
            "[--no-table-headers] <username>", "Lists topic permissions of a user across all virtual hosts"),
    Command("list_vhosts", _ACCESS, vhosts.list_vhosts, 0, ANY, _COLUMNS, "Lists virtual hosts"),
    Command("set_permissions", _ACCESS, permissions.set_permissions, 4, 4,
            _IN_VHOST + "<username> <conf> <write> <read>", "Sets user permissions for a vhost"),
    Command("set_topic_permissions", _ACCESS, permissions.set_topic_permissions, 4, 4,
            _IN_VHOST + "<username> <exchange> <write> <read>", "Sets user topic permissions for an exchange"),
    Command("list_bindings", _MONITORING, objects.list_bindings, 0, ANY, _IN_VHOST + _COLUMNS,
            "Lists all bindings on a vhost"),
    Command("list_channels", _MONITORING, objects.list_channels, 0, ANY, "[--no-table-headers] [<column> ...]",
            "Lists all channels in the node"),
    Command("list_connections", _MONITORING, objects.list_connections, 0, ANY, _COLUMNS,
            "Lists AMQP 0-9-1 connections for the node"),
    Command("list_consumers", _MONITORING, objects.list_consumers, 0, ANY, _IN_VHOST + _COLUMNS,
            "Lists all consumers for a vhost"),
    Command("list_exchanges", _MONITORING, objects.list_exchanges, 0, ANY, _IN_VHOST + _COLUMNS, "Lists exchanges"),
    Command("list_node_auth_attempt_stats", _MONITORING, node.list_auth_attempts, 0, 0, "",
            "Lists authentication attempts on the target node"),
    Command("list_queues", _MONITORING, objects.list_queues, 0, ANY,
            _IN_VHOST + "[--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]",
            "Lists queues and their properties", ("online", "offline", "local")),
    Command("ping", _MONITORING, node.ping, 0, 0, "", "Checks that the node's process is up and answers"),
    Command("status", _MONITORING, node.status, 0, 0, "[--unit <unit>] [--timeout <timeout>]",
            "Displays status of a node", ("unit",)),
    Command("clear_global_parameter", _PARAMETERS, policies.clear_global_parameter, 1, 1, "<name>",
            "Clears a global runtime parameter"),
    Command("clear_parameter", _PARAMETERS, policies.clear_parameter, 2, 2, _IN_VHOST + "<component_name> <name>",
            "Clears a runtime parameter"),
    Command("list_global_parameters", _PARAMETERS, policies.list_global_parameters, 0, 0, "[--no-table-headers]",
            "Lists global runtime parameters"),
    Command("list_parameters", _PARAMETERS, policies.list_parameters, 0, 0, _IN_VHOST + "[--no-table-headers]",
            "Lists runtime parameters for a virtual host"),
    Command("set_global_parameter", _PARAMETERS, policies.set_global_parameter, 2, 2, "<name> <value>",
            "Sets a global runtime parameter"),
    Command("set_parameter", _PARAMETERS, policies.set_parameter, 3, 3, _IN_VHOST + "<component_name> <name> <value>",
            "Sets a runtime parameter"),
    Command("clear_operator_policy", _POLICIES, policies.clear_operator_policy, 1, 1, _IN_VHOST + "<name>",
            "Clears an operator policy"),
    Command("clear_policy", _POLICIES, policies.clear_policy, 1, 1, _IN_VHOST + "<name>", "Clears (removes) a policy"),
    Command("list_operator_policies", _POLICIES, policies.list_operator_policies, 0, 0,
            _IN_VHOST + "[--no-table-headers]", "Lists operator policy overrides for a virtual host"),
    Command("list_policies", _POLICIES, policies.list_policies, 0, 0, _IN_VHOST + "[--no-table-headers]",
            "Lists all policies in a virtual host"),
    Command("set_operator_policy", _POLICIES, policies.set_operator_policy, 3, 3, _POLICY,
            "Sets an operator policy that overrides a subset of arguments in user policies", ("priority", "apply-to")),
    Command("set_policy", _POLICIES, policies.set_policy, 3, 3, _POLICY, "Sets or updates a policy",
            ("priority", "apply-to")),
    Command("add_vhost", _VHOSTS, vhosts.add_vhost, 1, 1, _METADATA, "Creates a virtual host",
            ("description", "tags", "default-queue-type")),
    Command("clear_vhost_limits", _VHOSTS, vhosts.clear_vhost_limits, 0, 0, _IN_VHOST, "Clears virtual host limits"),
    Command("delete_vhost", _VHOSTS, vhosts.delete_vhost, 1, 1, "<vhost>", "Deletes a virtual host"),
    Command("list_vhost_limits", _VHOSTS, vhosts.list_vhost_limits, 0, 0, "[--vhost <vhost>] [--global]",
            "Displays configured virtual host limits", ("global",)),
    Command("restart_vhost", _VHOSTS, vhosts.restart_vhost, 0, 0, _IN_VHOST, "Restarts a failed virtual host"),
    Command("set_vhost_limits", _VHOSTS, vhosts.set_vhost_limits, 1, 1, _IN_VHOST + "<definition>",
            "Sets virtual host limits"),
    Command("set_vhost_tags", _VHOSTS, vhosts.set_vhost_tags, 1, ANY, "<vhost> <tag> [...]", "Sets virtual host tags"),
    Command("update_vhost_metadata", _VHOSTS, vhosts.update_vhost_metadata, 1, 1, _METADATA,
            "Updates description and tags of a virtual host", ("description", "tags", "default-queue-type")),
    Command("environment", _SETTINGS, node.environment, 0, 0, "", "Displays the settings that the node runs with"),
    Command("set_cluster_name", _SETTINGS, policies.set_cluster_name, 1, 1, "<name>", "Sets the cluster name"),
    Command("export_definitions", _DEFINITIONS, definitions.export_definitions, 1, 1,
            '<file_path | "-"> [--format json]', "Exports definitions in JSON", ("format",)),
    Command("import_definitions", _DEFINITIONS, definitions.import_definitions, 0, 1,
            '<file_path | "-"> [--format json] [--skip-if-unchanged]', "Imports definitions in JSON",
            ("format", "skip-if-unchanged")),
    Command("list_feature_flags", _FLAGS, node.list_feature_flags, 0, 0, "", "Lists feature flags"),
    Command("close_all_connections", _OPERATIONS, queues.close_all_connections, 1, 1,
            "[--vhost <vhost> --limit <limit>] [--global] [--per-connection-delay <delay>] <explanation>",
            "Closes all connections of a virtual host, or of the node",
            ("limit", "global", "per-connection-delay")),
    Command("close_all_user_connections", _OPERATIONS, queues.close_all_user_connections, 2, 2,
            "<username> <explanation>", "Closes all connections of a user"),
    Command("close_connection", _OPERATIONS, queues.close_connection, 2, 2, "<connection name or pid> <explanation>",
            "Closes one connection"),
    Command("delete_queue", _QUEUES, queues.delete_queue, 1, 1,
            _IN_VHOST + "<queue_name> [--if-empty|-e] [--if-unused|-u]", "Deletes a queue", ("if-empty", "if-unused")),
    Command("purge_queue", _QUEUES, queues.purge_queue, 1, 1, _IN_VHOST + "<queue>",
            "Purges a queue (removes all messages in it)"),
)
BY_NAME: Final = {command.name: command for command in COMMANDS}
