"""The families of metrics: RabbitMQ's names where RabbitMQ has them, and ours with `mirrormq_` before them.

A field says where the value comes from: a key of the counters that `metrics` gathers for a queue, a channel, a connection or the
node. Groups have the names by which `/metrics/detailed?family=` asks for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirrormq.admin.exposition import COUNTER, GAUGE, Family


class Field(NamedTuple):
    family: Family
    key: str


def _field(name: str, kind: str, key: str, text: str) -> Field:
    return Field(Family(name, kind, text), key)


CHURN: Final = (
    _field("connections_opened_total", COUNTER, "connection_created", "Connections that were opened"),
    _field("connections_closed_total", COUNTER, "connection_closed", "Connections that have ended"),
    _field("channels_opened_total", COUNTER, "channel_created", "Channels that were opened"),
    _field("channels_closed_total", COUNTER, "channel_closed", "Channels that have ended"),
    _field("queues_declared_total", COUNTER, "queue_declared", "Declares of queues, new or not"),
    _field("queues_created_total", COUNTER, "queue_created", "Queues that were made"),
    _field("queues_deleted_total", COUNTER, "queue_deleted", "Queues that were deleted"),
)
NODE_COARSE: Final = (
    _field("process_open_fds", GAUGE, "fd_used", "Open file descriptors"),
    _field("process_open_tcp_sockets", GAUGE, "sockets_used", "Sockets of clients"),
    _field("process_resident_memory_bytes", GAUGE, "mem_used", "Memory in use"),
    _field("disk_space_available_bytes", GAUGE, "disk_free", "Free space on the data disk"),
    _field("erlang_processes_used", GAUGE, "proc_used", "Threads"),
    _field("erlang_gc_runs_total", COUNTER, "gc_num", "Runs of the garbage collector"),
    _field("erlang_gc_reclaimed_bytes_total", COUNTER, "gc_bytes_reclaimed", "Always zero: Python does not count it"),
    _field("erlang_scheduler_context_switches_total", COUNTER, "context_switches", "Context switches of the process"),
)
NODE: Final = (
    _field("process_max_fds", GAUGE, "fd_total", "Limit of file descriptors"),
    _field("process_max_tcp_sockets", GAUGE, "sockets_total", "Limit of clients"),
    _field("resident_memory_limit_bytes", GAUGE, "mem_limit", "Memory above which publishers wait"),
    _field("disk_space_available_limit_bytes", GAUGE, "disk_free_limit", "Free space below which publishers wait"),
    _field("erlang_processes_limit", GAUGE, "proc_total", "Always one: the event loop"),
    _field("erlang_scheduler_run_queue", GAUGE, "run_queue", "Always zero: there is no scheduler"),
    _field("erlang_net_ticktime_seconds", GAUGE, "net_ticktime", "After this long a silent node is taken for dead"),
    _field("erlang_uptime_seconds", GAUGE, "uptime_seconds", "Time since the start"),
)
PERSISTER: Final = (
    _field("io_read_ops_total", COUNTER, "io_read_count", "Reads from disk"),
    _field("io_read_bytes_total", COUNTER, "io_read_bytes", "Bytes read from disk"),
    _field("io_write_ops_total", COUNTER, "io_write_count", "Batches written to the log"),
    _field("io_write_bytes_total", COUNTER, "io_write_bytes", "Bytes written to the log"),
    _field("io_sync_ops_total", COUNTER, "io_sync_count", "Batches made durable"),
    _field("io_seek_ops_total", COUNTER, "io_seek_count", "Always zero: the log is written in order"),
    _field("io_reopen_ops_total", COUNTER, "io_reopen_count", "Always zero: files stay open"),
    _field("schema_db_ram_tx_total", COUNTER, "mnesia_ram_tx_count", "Always zero: every change is agreed on disk"),
    _field("schema_db_disk_tx_total", COUNTER, "mnesia_disk_tx_count", "Changes of what exists"),
    _field("msg_store_read_total", COUNTER, "msg_store_read_count", "Always zero: there is one log"),
    _field("msg_store_write_total", COUNTER, "msg_store_write_count", "Always zero: there is one log"),
    _field("queue_index_read_ops_total", COUNTER, "queue_index_read_count", "Always zero: there is one log"),
    _field("queue_index_write_ops_total", COUNTER, "queue_index_write_count", "Always zero: there is one log"),
    _field("io_read_time_seconds_total", COUNTER, "io_read_seconds", "Always zero: reads are not timed"),
    _field("io_write_time_seconds_total", COUNTER, "io_write_seconds", "Always zero: writing is timed with the sync"),
    _field("io_sync_time_seconds_total", COUNTER, "io_sync_seconds", "Always zero: see mirrormq_log_commit_seconds"),
    _field("io_seek_time_seconds_total", COUNTER, "io_seek_seconds", "Always zero: the log is written in order"),
)
AUTH: Final = (
    _field("auth_attempts_total", COUNTER, "auth_attempts", "Logins that were tried"),
    _field("auth_attempts_succeeded_total", COUNTER, "auth_attempts_succeeded", "Logins that succeeded"),
    _field("auth_attempts_failed_total", COUNTER, "auth_attempts_failed", "Logins that failed"),
)
QUEUE_COARSE: Final = (
    _field("queue_messages_ready", GAUGE, "messages_ready", "Messages ready to be delivered"),
    _field("queue_messages_unacked", GAUGE, "messages_unacknowledged", "Messages delivered and not acknowledged"),
    _field("queue_messages", GAUGE, "messages", "Messages, ready or not acknowledged"),
    _field("queue_process_reductions_total", COUNTER, "reductions", "Always zero: a queue is no process"),
)
QUEUE_CONSUMERS: Final = (_field("queue_consumers", GAUGE, "consumers", "Consumers"),)
QUEUE: Final = (
    _field("queue_consumer_capacity", GAUGE, "consumer_capacity", "Part of the time in which consumers can take more"),
    _field("queue_consumer_utilisation", GAUGE, "consumer_utilisation", "The same under its older name"),
    _field("queue_process_memory_bytes", GAUGE, "memory", "Memory, about"),
    _field("queue_messages_ram", GAUGE, "messages_ram", "Messages in memory"),
    _field("queue_messages_ram_bytes", GAUGE, "message_bytes_ram", "Their size"),
    _field("queue_messages_ready_ram", GAUGE, "messages_ready_ram", "Ready messages in memory"),
    _field("queue_messages_unacked_ram", GAUGE, "messages_unacknowledged_ram", "Unacknowledged messages in memory"),
    _field("queue_messages_persistent", GAUGE, "messages_persistent", "Persistent messages"),
    _field("queue_messages_persistent_bytes", GAUGE, "message_bytes_persistent", "Their size"),
    _field("queue_messages_bytes", GAUGE, "message_bytes", "Size of all messages"),
    _field("queue_messages_ready_bytes", GAUGE, "message_bytes_ready", "Size of the ready messages"),
    _field("queue_messages_unacked_bytes", GAUGE, "message_bytes_unacknowledged", "Size of the unacknowledged messages"),
    _field("queue_messages_paged_out", GAUGE, "messages_paged_out", "Messages that are only in the log"),
    _field("queue_messages_paged_out_bytes", GAUGE, "message_bytes_paged_out", "Their size"),
    _field("queue_head_message_timestamp", GAUGE, "head_message_timestamp",
           "Timestamp property of the first message, if in memory"),
    _field("queue_disk_reads_total", COUNTER, "disk_reads", "Always zero: not counted by queue"),
    _field("queue_disk_writes_total", COUNTER, "disk_writes", "Always zero: not counted by queue"),
    _field("queue_messages_published_total", COUNTER, "publish", "Messages that came in"),
)
CHANNEL: Final = (
    _field("channel_consumers", GAUGE, "consumers", "Consumers"),
    _field("channel_messages_unacked", GAUGE, "unacked", "Deliveries that are not acknowledged"),
    _field("channel_messages_unconfirmed", GAUGE, "unconfirmed", "Publishes that are not confirmed"),
    _field("channel_messages_uncommitted", GAUGE, "uncommitted", "Publishes of an open transaction"),
    _field("channel_acks_uncommitted", GAUGE, "acks_uncommitted", "Acknowledgements of an open transaction"),
    _field("consumer_prefetch", GAUGE, "prefetch", "Limit of unacknowledged deliveries for each new consumer"),
    _field("channel_prefetch", GAUGE, "limit", "Limit of unacknowledged deliveries for the channel"),
)
CHANNEL_FLOWS: Final = (
    _field("channel_messages_published_total", COUNTER, "publish", "Messages published"),
    _field("channel_messages_confirmed_total", COUNTER, "confirm", "Messages confirmed"),
    _field("channel_messages_unroutable_returned_total", COUNTER, "return_unroutable", "Unroutable messages that were returned"),
    _field("channel_messages_unroutable_dropped_total", COUNTER, "drop_unroutable", "Unroutable messages that were dropped"),
    _field("channel_process_reductions_total", COUNTER, "reductions", "Always zero: a channel is no process"),
    _field("channel_get_ack_total", COUNTER, "get", "Messages got that are to be acknowledged"),
    _field("channel_get_total", COUNTER, "get_no_ack", "Messages got that are not"),
    _field("channel_messages_delivered_ack_total", COUNTER, "deliver", "Messages delivered that are to be acknowledged"),
    _field("channel_messages_delivered_total", COUNTER, "deliver_no_ack", "Messages delivered that are not"),
    _field("channel_messages_redelivered_total", COUNTER, "redeliver", "Messages delivered again"),
    _field("channel_messages_acked_total", COUNTER, "ack", "Acknowledgements"),
    _field("channel_get_empty_total", COUNTER, "get_empty", "Gets that found nothing"),
)
CONNECTION: Final = (
    _field("connection_incoming_bytes_total", COUNTER, "recv_oct", "Bytes received"),
    _field("connection_outgoing_bytes_total", COUNTER, "send_oct", "Bytes sent"),
    _field("connection_process_reductions_total", COUNTER, "reductions", "Always zero: a connection is no process"),
    _field("connection_incoming_packets_total", COUNTER, "recv_cnt", "Reads from the socket"),
    _field("connection_outgoing_packets_total", COUNTER, "send_cnt", "Writes to the socket"),
    _field("connection_pending_packets", GAUGE, "send_pend", "Bytes that wait for the socket"),
    _field("connection_channels", GAUGE, "channels", "Channels"),
)
TOTALS: Final = (
    _field("connections", GAUGE, "connections", "Open connections"), _field("channels", GAUGE, "channels", "Open channels"),
    _field("consumers", GAUGE, "consumers", "Consumers"), _field("queues", GAUGE, "queues", "Queues whose home is this node"),
)  # fmt: skip
_BY_TYPE: Final = (
    ("acknowledged", "ack", "Acknowledgements"), ("delivered", "deliver_get", "Messages delivered or got"),
    ("delivered_consume_auto_ack", "deliver_no_ack", "Messages delivered that are not acknowledged"),
    ("delivered_consume_manual_ack", "deliver", "Messages delivered that are to be acknowledged"),
    ("delivered_get_auto_ack", "get_no_ack", "Messages got that are not acknowledged"),
    ("delivered_get_manual_ack", "get", "Messages got that are to be acknowledged"),
    ("get_empty", "get_empty", "Gets that found nothing"), ("redelivered", "redeliver", "Messages delivered again"),
)  # fmt: skip
GLOBAL_BY_TYPE: Final = tuple(_field(f"global_messages_{name}_total", COUNTER, key, text) for name, key, text in _BY_TYPE)
GLOBAL: Final = (
    _field("global_messages_received_total", COUNTER, "publish", "Messages received from clients"),
    _field("global_messages_received_confirm_total", COUNTER, "received_confirm", "Those of channels with confirms"),
    _field("global_messages_routed_total", COUNTER, "routed", "Messages that went to a queue"),
    _field("global_messages_unroutable_dropped_total", COUNTER, "drop_unroutable", "Unroutable messages that were dropped"),
    _field("global_messages_unroutable_returned_total", COUNTER, "return_unroutable", "Unroutable messages that were returned"),
    _field("global_messages_confirmed_total", COUNTER, "confirm", "Messages confirmed"),
    _field("global_publishers", GAUGE, "publishers", "Channels that have published"),
    _field("global_consumers", GAUGE, "consumers", "Consumers"),
)
GLOBAL_LETTERS: Final = (
    _field("global_messages_dead_lettered_expired_total", COUNTER, "letters_expired", "Dead letters: expired"),
    _field("global_messages_dead_lettered_maxlen_total", COUNTER, "letters_maxlen", "Dead letters: the queue was full"),
    _field("global_messages_dead_lettered_rejected_total", COUNTER, "letters_rejected", "Dead letters: rejected"),
    _field("global_messages_dead_lettered_confirmed_total", COUNTER, "letters_none", "Always zero: of quorum queues"),
    _field("global_messages_dead_lettered_delivery_limit_total", COUNTER, "letters_none", "Always zero: of quorum queues"),
)
ALARMS: Final = (
    _field("alarms_file_descriptor_limit", GAUGE, "alarm_files", "Always zero: there is no such alarm"),
    _field("alarms_free_disk_space_watermark", GAUGE, "alarm_disk", "Whether the disk alarm is raised"),
    _field("alarms_memory_used_watermark", GAUGE, "alarm_memory", "Whether the memory alarm is raised"),
)
OURS_QUEUE: Final = (
    _field("mirrormq_queue_oldest_message_age_seconds", GAUGE, "oldest_age",
           "Age of the oldest ready message, as precisely as the queue was looked at"),
)
OURS_RING: Final = (
    _field("mirrormq_queue_mirrors", GAUGE, "mirrors", "Mirrors of a mirrored queue, in sync or not"),
    _field("mirrormq_queue_mirrors_in_sync", GAUGE, "in_sync", "Mirrors that are in sync"),
    _field("mirrormq_queue_mirrored_without_sync", GAUGE, "is_bare", "Mirrored, and nothing but the leader is in sync"),
    _field("mirrormq_queue_ring_lag_entries", GAUGE, "lag_entries", "Entries that the farthest mirror lacks"),
    _field("mirrormq_queue_ring_lag_bytes", GAUGE, "lag_bytes", "Their size"),
    _field("mirrormq_queue_ring_epoch", GAUGE, "epoch", "Epoch of the ring: it grows with each failover"),
)
OURS_NODE: Final = (
    _field("mirrormq_log_commits_total", COUNTER, "commits", "Batches made durable"),
    _field("mirrormq_log_commit_seconds", GAUGE, "commit_seconds", "How long the last batch took"),
    _field("mirrormq_nodes", GAUGE, "nodes", "Members of the cluster"),
    _field("mirrormq_nodes_running", GAUGE, "nodes_running", "Members that are up"),
    _field("mirrormq_link_received_bytes_total", COUNTER, "link_received", "Bytes from other nodes"),
    _field("mirrormq_link_sent_bytes_total", COUNTER, "link_sent", "Bytes to other nodes"),
)
