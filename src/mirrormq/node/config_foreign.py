"""RabbitMQ's keys that set nothing here, each with the reason.

Rules:

- `NO_EFFECT`: accepted, so that a RabbitMQ file works unchanged, and said in the log.
- `REFUSED`: this broker cannot honour them, and to pass over them would be unsafe; they stop the start.
- In a pattern `a|b` stands for either word, `$` for any word, a last `*` for one or more words. Where keys with the
  same beginning do have an effect, the names are listed one by one, so that a misspelt one is still found.
"""

from __future__ import annotations

from typing import Final

_ROTATION: Final = "rotation.date|compress|size|count"
_CATEGORIES: Final = "connection|channel|queue|mirroring|federation|upgrade|ra|prelaunch|feature_flags|osiris|ldap|user"

NO_EFFECT: Final[tuple[tuple[str, str], ...]] = (
    (
        "there is no Erlang runtime",
        "erlang.* hipe_compile background_gc_enabled background_gc_target_interval sysmon_handler.* "
        "socket_writer.gc_threshold vm_memory_calculation_strategy delegate_count default_worker_pool_size "
        "mnesia_table_loading_retry_timeout mnesia_table_loading_retry_limit num_acceptors.tcp|ssl "
        "distribution.listener.port_range.max "
        "ranch_connection_max tcp_listen_options tcp_listen_options.buffer|delay_send|dontroute|exit_on_close|fd|"
        "high_msgq_watermark|high_watermark|low_msgq_watermark|low_watermark|port|priority|send_timeout|"
        "send_timeout_close|tos",
    ),
    (
        "every queue is kept in this broker's own log",
        "queue_index_embed_msgs_below message_store_shutdown_timeout classic_queue.* raft.* quorum_queue.* "
        "vm_memory_high_watermark_paging_ratio vhost_restart_strategy deprecated_features.* permit_deprecated_features.* "
        "khepri.* metadata_store.*",
    ),
    ("this protocol is not served", "mqtt.* stomp.* web_mqtt.* web_stomp.* stream.* amqp1_0.* session_max_per_connection "
     "link_max_per_session"),
    (
        "OpenSSL decides this",
        "ssl_allow_poodle_attack ssl_options "
        "ssl_options.depth|honor_ecc_order|reuse_sessions|secure_renegotiate|client_renegotiation|log_level|log_alert|"
        "bypass_pem_cache "
        "management.ssl.depth|honor_ecc_order|reuse_sessions|secure_renegotiate|client_renegotiation|log_level|"
        "log_alert|backlog",
    ),
    (
        "statistics are always collected, and in one way",
        "collect_statistics management.rates_mode management.sample_retention_policies.* management_agent.* "
        "management.db_cache_multiplier management.disable_stats management.enable_queue_totals "
        "prometheus.ssl.* prometheus.filter_aggregated_queue_metrics_pattern "
        "prometheus.tcp.compress|idle_timeout|inactivity_timeout|request_timeout|shutdown_timeout|max_keepalive",
    ),
    ("metrics are at /metrics", "prometheus.path"),
    ("there is no federation and no shovel", "federation.* shovel.*"),
    ("there are no plugins", "channel_interceptor.*"),
    (
        "nothing asks for it",
        "cluster_tags.* node_tags.* cluster_exchange_limit anonymous_login_user anonymous_login_pass",
    ),
    (
        "the management listener takes its own measures",
        "management.http_log_dir management.http.max_body_size management.login_session_timeout "
        "management.http.hide_allow_header management.credential_encryption_secret http_dispatch.access_log_dir "
        "management.definitions.require_json_extension "
        "management.tcp|ssl.compress|idle_timeout|inactivity_timeout|request_timeout|shutdown_timeout|max_keepalive "
        "management.listener.server.* management.csp.policy management.hsts.policy "
        "management.headers.content_type_options|xss_protection|frame_options|referrer_policy management.cors.max_age",
    ),
    (
        "the log goes to the console or to one file, as lines or as JSON with fixed fields",
        "log.console.stdio|use_colors log.console.color_esc_seqs.* log.console|file.formatter.* "
        "log.file.rotation.date|compress log.exchange log.exchange.* log.syslog log.syslog.* log.journald "
        "log.journald.* "
        f"log.{_CATEGORIES}.level|file log.{_CATEGORIES}|default.{_ROTATION} motd_file "
        "product.name|version",
    ),
    (
        "cluster members find each other through the coordination store",
        "cluster_keepalive_interval cluster_formation.node_type|internal_lock_retries|lock_retry_limit|"
        "lock_retry_timeout|discovery_retry_limit|discovery_retry_interval "
        "cluster_formation.randomized_startup_delay_range.min|max cluster_formation.node_cleanup.* "
        "cluster_formation.proxy.* cluster_formation.registration.enabled "
        "cluster_formation.dns.hostname cluster_formation.aws|consul|k8s.* "
        "cluster_formation.etcd.host|port|scheme|cluster_name|node_ttl|lock_timeout|lock_wait_time|ssl_options "
        "cluster_formation.etcd.ssl_options.*",
    ),
    (
        "this is always so, or never needed",
        "reverse_dns_lookups definitions.skip_if_unchanged definitions.hashing.algorithm event_exchange.* "
        "runtime_parameters.limits.$",
    ),
)

REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (
        "create users, policies and limits with mirrormqctl or 'load_definitions'",
        "default_users.* default_policies.* default_limits.*",
    ),
    (
        "only the internal user database exists",
        "auth_http.* auth_ldap.* auth_oauth2.* auth_cache.* auth_amqp.* aws.*",
    ),
    ("passwords are not checked against rules", "credential_validator.*"),
    (
        "give the certificate and its key as files: 'certfile', 'keyfile', 'cacertfile'",
        "ssl_options.cert|dh|psk_identity ssl_options.cacerts|key.$ trust_store.*",
    ),
    ("revoked certificates are not looked up", "ssl_options.crl_check"),
    (
        "give the options of the TLS listener as 'management.ssl.…'",
        "management.listener.ssl management.listener.ssl_opts management.listener.ssl_opts.*",
    ),
    ("only a local file is read: 'load_definitions = FILE'", "definitions.https|tls.*"),
    ("messages are not changed on their way in", "message_interceptors.*"),
    ("metrics at a port of their own are for everybody who reaches it", "prometheus.authentication.*"),
    (
        "the management API takes user names and passwords, and all that a user's tags allow",
        "management.enable_uaa|uaa_client_id|uaa_location|disable_basic_auth|oauth_enabled|oauth_disable_basic_auth|"
        "oauth_client_id|oauth_client_secret|oauth_provider_url|oauth_scopes|oauth_authority|oauth_metadata_url|"
        "oauth_initiated_logon_type|oauth_response_type management.restrictions.* management.oauth_resource_servers.*",
    ),
)


def is_listed(words: tuple[str, ...], patterns: str) -> bool:
    return any(_matches(pattern.split("."), words) for pattern in patterns.split())


def _matches(pattern: list[str], words: tuple[str, ...]) -> bool:
    if pattern[-1] == "*":
        pattern, words = pattern[:-1], words[: len(pattern) - 1] if len(words) >= len(pattern) else ()
    if len(pattern) != len(words):
        return False
    return all(part == "$" or word in part.split("|") for part, word in zip(pattern, words, strict=True))
