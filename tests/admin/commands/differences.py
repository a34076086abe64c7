"""Where an answer differs from RabbitMQ's, and why. Each reason stands in docs/mirrormqctl.md too."""

from __future__ import annotations

from typing import Final, NamedTuple


class Difference(NamedTuple):
    """`code` is our exit code where that differs too."""

    reason: str
    code: int | None = None


DIFFERENCES: Final[dict[str, Difference]] = {
    "rabbitmqctl list_users --formatter pretty_table": Difference(
        "RabbitMQ runs the elements of a list together in a table with lines"),
    "rabbitmqctl list_vhosts name tracing tags description": Difference(
        "RabbitMQ shows tags of a virtual host as they were written, here they are always a list"),
    "rabbitmqctl trace_on -p nope": Difference("RabbitMQ traces virtual hosts that do not exist", 65),
    "rabbitmqctl list_queues -p shop name durable auto_delete arguments state --formatter json": Difference(
        "An integer of an argument is shown as a signedint or a long by its size, not by how it was sent"),
    "rabbitmqctl ping": Difference("There is no epmd to be registered with"),
    "rabbitmqctl await_online_nodes 0": Difference("RabbitMQ's tool crashes on it", 65),
    "rabbitmqctl list_queues nope": Difference(
        "RabbitMQ takes every word as a column. Here the first may be a queue, and the error also says that there is none"),
    "rabbitmqctl list_queues --formatter nope": Difference("RabbitMQ's tool crashes on a formatter that does not exist", 64),
    "rabbitmq-diagnostics listeners": Difference("The purposes are those of this broker: there is no AMQP 1.0"),
    "rabbitmq-diagnostics erlang_version": Difference("The node runs on Python, and says so"),
    "rabbitmq-diagnostics log_location": Difference("The log goes to standard error unless a file is configured"),
    "rabbitmq-diagnostics memory_breakdown": Difference("The parts of the memory are other ones; the names are RabbitMQ's"),
    "rabbitmqctl hash_password secret": Difference("A command of RabbitMQ 3.13 that 3.10 does not have", 0),
}
_RUNTIME: Final = "It is about Erlang's runtime or its data base"
_SECRETS: Final = "Values in the configuration file are not encrypted"
_MACHINE: Final = "Tools of the operating system tell it better"
NOT_HERE: Final[dict[str, str]] = {
    "rabbitmqctl list_ciphers": _SECRETS,
    "rabbitmqctl list_hashes": _SECRETS,
    "rabbitmqctl schema_info": _RUNTIME,
    "rabbitmq-diagnostics certificates": "`check_certificate_expiration` names the certificates that matter",
    "rabbitmq-diagnostics discover_peers": "There is no discovery of peers to try out: nodes meet in the coordination store",
    "rabbitmq-diagnostics list_network_interfaces": _MACHINE,
    "rabbitmq-diagnostics resolve_hostname localhost": _MACHINE,
    "rabbitmq-diagnostics os_env": _MACHINE,
    "rabbitmq-diagnostics runtime_thread_stats --sample-interval 1": _RUNTIME,
    "rabbitmq-diagnostics command_line_arguments": _MACHINE,
}
