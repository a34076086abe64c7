from __future__ import annotations

import pytest

from mirrormq.broker.auth import (
    Authority,
    LoginRefused,
    Permission,
    TopicPermission,
    User,
    is_loopback,
)
from mirrormq.broker.limits import (
    LimitFault,
    check_queue_count,
    check_user_channels,
    check_user_connections,
    check_vhost_connections,
    validate_user_limits,
    validate_vhost_limits,
)
from mirrormq.broker.passwords import ALGORITHMS, MD5, SHA256, check_password, hash_password, is_password_hash
from mirrormq.broker.policy import PatternError, compile_pattern
from mirrormq.wire.errors import AccessRefused, NotAllowed, PreconditionFailed

SALT = b"\x90\x8d\xc6\x0a"


@pytest.fixture
def authority() -> Authority:
    made = Authority()
    made.put_user(User("u", hash_password("secret", SALT)))
    made.put_user(User("guest", hash_password("guest", SALT), tags=("administrator",)))
    made.set_permission("u", "/", Permission("^c", "^w|amq\\.default", "^r"))
    return made


# Passwords


def test_hashes_are_those_of_rabbitmq() -> None:
    # The example of RabbitMQ's password guide.
    assert hash_password("test12", SALT) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert check_password("guest", "EKv5hJW10hmsERecLg4ZDj4cV/rhS4kbpWB91VIJ3n8mEGDT")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_knows_its_own_passwords(algorithm: str) -> None:
    stored = hash_password("pässword", SALT, algorithm)
    assert check_password("pässword", stored, algorithm)
    assert not check_password("passwort", stored, algorithm)


@pytest.mark.parametrize("stored", ["", "x", "!!!!", "kI3GCg==", "kI3GCqW5"])
def test_an_unreadable_or_blank_hash_matches_nothing(stored: str) -> None:
    assert not check_password("", stored)
    assert not check_password("test12", stored)


def test_an_unknown_algorithm_matches_nothing() -> None:
    assert not check_password("test12", hash_password("test12", SALT), "rabbit_password_hashing_rot13")
    assert not check_password("test12", hash_password("test12", SALT, SHA256), MD5)


def test_a_hash_in_definitions_must_be_base64() -> None:
    assert is_password_hash("")
    assert is_password_hash(hash_password("x", SALT))
    assert not is_password_hash("x")


# Logging in


def test_the_right_password_lets_in(authority: Authority) -> None:
    assert authority.authenticate("u", "secret").name == "u"
    assert authority.authenticate("guest", "guest").tags == ("administrator",)


@pytest.mark.parametrize(("name", "password"), [("u", "wrong"), ("nobody", "secret"), ("u", "Secret")])
def test_wrong_credentials_are_refused_in_one_sentence(authority: Authority, name: str, password: str) -> None:
    with pytest.raises(LoginRefused, match=f"^user '{name}' - invalid credentials$"):
        authority.authenticate(name, password)


def test_a_blank_password_never_lets_in(authority: Authority) -> None:
    authority.put_user(User("blank", hash_password("", SALT)))
    authority.put_user(User("none", ""))
    for name in ("blank", "none", "u"):
        with pytest.raises(LoginRefused, match="blank password"):
            authority.authenticate(name, "")


def test_a_certificate_needs_no_password(authority: Authority) -> None:
    authority.put_user(User("cert"))
    assert authority.authenticate_external("cert").name == "cert"
    with pytest.raises(LoginRefused, match="invalid credentials"):
        authority.authenticate_external("nobody")


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False), ("", False), ("host", False),
    ],
)  # fmt: skip
def test_guest_comes_only_from_loopback(authority: Authority, address: str, local: bool) -> None:
    assert is_loopback(address) is local
    authority.check_origin("u", address)
    if local:
        authority.check_origin("guest", address)
    else:
        with pytest.raises(LoginRefused, match="user 'guest' can only connect via localhost"):
            authority.check_origin("guest", address)


def test_loopback_users_are_configured() -> None:
    Authority(loopback_users=()).check_origin("guest", "10.0.0.1")


# Permissions


def test_patterns_are_searched_in_names(authority: Authority) -> None:
    authority.check("u", "/", "queue", "c1", "configure")
    authority.check("u", "/", "exchange", "w1", "write")
    authority.check("u", "/", "exchange", "", "write")
    authority.set_permission("u", "/", Permission("oo", "", ""))
    authority.check("u", "/", "queue", "a foo", "configure")


@pytest.mark.parametrize(
    ("kind", "name", "operation", "text"),
    [
        ("queue", "q", "configure", "configure access to queue 'q' in vhost '/' refused for user 'u'"),
        ("exchange", "x", "write", "write access to exchange 'x' in vhost '/' refused for user 'u'"),
        ("exchange", "", "read", "read access to exchange 'amq.default' in vhost '/' refused for user 'u'"),
    ],
)
def test_a_refusal_names_all_that_matters(
    authority: Authority, kind: str, name: str, operation: str, text: str
) -> None:
    for _ in range(2):
        with pytest.raises(AccessRefused) as refusal:
            authority.check("u", "/", kind, name, operation)
        assert refusal.value.text == text


def test_an_empty_pattern_matches_nothing_but_the_empty_name(authority: Authority) -> None:
    authority.set_permission("u", "/", Permission("", "", ""))
    assert not authority.allowed("u", "/", "queue", "q", "read")
    assert not authority.allowed("u", "/", "exchange", "", "write")


def test_without_permissions_the_virtual_host_is_closed(authority: Authority) -> None:
    authority.check_vhost("u", "/")
    assert not authority.vhost_allowed("u", "other")
    with pytest.raises(NotAllowed) as refusal:
        authority.check_vhost("u", "other")
    assert refusal.value.text == "access to vhost 'other' refused for user 'u'"
    assert not authority.allowed("u", "other", "queue", "c", "configure")


def test_a_change_is_seen_at_once(authority: Authority) -> None:
    assert not authority.allowed("u", "/", "queue", "q", "read")
    authority.set_permission("u", "/", Permission(".*", ".*", ".*"))
    assert authority.allowed("u", "/", "queue", "q", "read")
    assert authority.clear_permission("u", "/")
    assert not authority.allowed("u", "/", "queue", "q", "read")
    assert not authority.clear_permission("u", "/")


def test_what_a_user_or_virtual_host_had_goes_with_it(authority: Authority) -> None:
    authority.set_permission("u", "v", Permission(".*", ".*", ".*"))
    authority.set_topic_permission("u", "v", "amq.topic", TopicPermission("^a", "^a"))
    authority.delete_vhost("v")
    assert not authority.vhost_allowed("u", "v")
    assert not authority.topic_permissions
    assert authority.delete_user("u")
    assert not authority.vhost_allowed("u", "/")
    assert not authority.delete_user("u")


def test_remembered_answers_are_bounded(authority: Authority) -> None:
    for number in range(20_000):
        authority.allowed("u", "/", "queue", f"c{number}", "configure")
    assert len(authority._answers) <= 16_384


# Topic permissions


def test_without_a_topic_permission_every_key_is_allowed(authority: Authority) -> None:
    authority.check_topic("u", "/", "amq.topic", "any.key", "write")


def test_a_topic_permission_holds_for_one_exchange(authority: Authority) -> None:
    authority.set_topic_permission("u", "/", "amq.topic", TopicPermission("^{username}-{vhost}", "^r"))
    authority.check_topic("u", "/", "amq.topic", "u-/.key", "write")
    authority.check_topic("u", "/", "amq.topic", "r.key", "read")
    authority.check_topic("u", "/", "other", "key", "write")
    for _ in range(2):
        with pytest.raises(AccessRefused) as refusal:
            authority.check_topic("u", "/", "amq.topic", "k.z", "write")
        assert refusal.value.text == (
            "write access to topic 'k.z' in exchange 'amq.topic' in vhost '/' refused for user 'u'"
        )
    assert authority.clear_topic_permissions("u", "/", "amq.topic") == 1
    authority.check_topic("u", "/", "amq.topic", "k.z", "write")


def test_variables_stand_for_their_values_letter_by_letter(authority: Authority) -> None:
    authority.set_topic_permission("u", "/", "t", TopicPermission("^{client_id}$", ""))
    authority.check_topic("u", "/", "t", "a.b", "write", {"client_id": "a.b"})
    with pytest.raises(AccessRefused):
        authority.check_topic("u", "/", "t", "axb", "write", {"client_id": "a.b"})
    with pytest.raises(AccessRefused):
        authority.check_topic("u", "/", "t", "a.b", "read", {"client_id": "a.b"})


# Patterns


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^amq\.", ["amq.x"], ["amqx"]),
        (r"\Aab\z", ["ab"], ["ab\n", "xab"]),
        (r"ab\Z", ["ab", "ab\n"], ["abc"]),
        (r"^[[:alpha:]]+[[:digit:]]$", ["abc1"], ["abc", "1"]),
        (r"^[^[:space:]]+$", ["abc"], ["a b"]),
        (r"^[]a]+$", ["]a"], ["b"]),
        (r"^[a[b]+$", ["a[b"], ["c"]),
        (r"^\Qa.b\E+$", ["a.b", "a.bb"], ["axb"]),
        (r"^(?<name>a)\1$", ["aa"], ["ab"]),
        (r"^(?'name'a)+$", ["aa"], ["b"]),
        (r"(?<!x)y", ["ay"], ["xy"]),
        (r"^\x{e9}$", ["é"], ["e"]),
        (r"^\h+$", [" \t"], ["a"]),
        (r"^(?!amq\.).*", ["orders"], ["amq.x"]),
        (r"(?i)^ORDERS", ["orders.1"], ["x"]),
        (r"^\w+$", ["abc"], ["é"]),
        (r"^(?>a+)b$", ["aab"], ["aa"]),
        (r"^a++b$", ["aab"], ["aa"]),
        (r"^[\w\-.]+$", ["a-b.c"], ["a/b"]),
        (r"^[&&|~~]+$", ["&|~"], ["a"]),
        ("", ["", "anything"], []),
    ],
)
def test_pcre_means_the_same_here(pattern: str, yes: list[str], no: list[str]) -> None:
    matcher = compile_pattern(pattern)
    assert [text for text in yes if not matcher.search(text)] == []
    assert [text for text in no if matcher.search(text)] == []


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?<n", "\\", "a(?i)b", "\\p{L}", "[[:alpha:]", "a" + "(" * 5000])
def test_a_wrong_pattern_is_an_error_with_a_sentence(pattern: str) -> None:
    with pytest.raises(PatternError) as error:
        compile_pattern(pattern)
    assert str(error.value).startswith(f"'{pattern}' is not a regular expression: ")


def test_a_permission_with_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(PatternError, match=r"missing \) at position 1"):
        Permission("(", ".*", ".*")
    with pytest.raises(PatternError):
        TopicPermission(".*", "(")


# Limits


def test_each_limit_is_refused_in_rabbitmqs_words() -> None:
    with pytest.raises(NotAllowed) as refusal:
        check_vhost_connections({"max-connections": 1}, "v", "u", 1)
    assert refusal.value.text == "access to vhost 'v' refused for user 'u': connection limit (1) is reached"
    with pytest.raises(PreconditionFailed) as failure:
        check_queue_count({"max-queues": 0}, "v", "b", 0)
    assert failure.value.text == "cannot declare queue 'b': queue limit in vhost 'v' (0) is reached"
    with pytest.raises(NotAllowed) as refusal:
        check_user_connections({"max-connections": 2}, "u", 2)
    assert refusal.value.text == "connection refused for user 'u': user connection limit (2) is reached"
    with pytest.raises(NotAllowed) as refusal:
        check_user_channels({"max-channels": 2}, "u", 3)
    assert refusal.value.text == (
        "number of channels opened for user 'u' has reached the maximum allowed user limit of (2)"
    )


def test_below_a_limit_and_without_one_all_pass() -> None:
    check_vhost_connections({"max-connections": 2}, "v", "u", 1)
    check_vhost_connections({}, "v", "u", 10_000)
    check_queue_count({"max-queues": -1}, "v", "q", 10_000)
    check_user_connections({"max-channels": 0}, "u", 1)
    check_user_channels({"max-connections": 0}, "u", 1)


def test_limits_are_numbers_under_known_names() -> None:
    assert validate_vhost_limits({"max-connections": 5, "max-queues": -1}) == {"max-connections": 5, "max-queues": -1}
    assert validate_user_limits({"max-channels": 1}) == {"max-channels": 1}
    with pytest.raises(LimitFault, match='max-connections should be a number, actually was <<"x">>'):
        validate_vhost_limits({"max-connections": "x"})
    with pytest.raises(LimitFault, match=r'^Unrecognised terms \[{<<"foo">>,1}\] in limits$'):
        validate_vhost_limits({"foo": 1})
    with pytest.raises(LimitFault, match=r'^Unrecognised terms \[{<<"max-queues">>,1}\] in user-limits$'):
        validate_user_limits({"max-queues": 1})
