"""TLS: contexts from real certificates, sentences about wrong ones, and names as RabbitMQ reads them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mirrormq.node.config import TlsOptions
from mirrormq.node.tls import TlsError, distinguished_name, login_name, server_context

CERTIFICATE = {
    "subject": (
        (("countryName", "DE"),),
        (("organizationName", "Example, Inc."),),
        (("organizationalUnitName", "a"), ("organizationalUnitName", "b")),
        (("commonName", "client"),),
    ),
    "issuer": ((("commonName", "ca"),),),
    "subjectAltName": (("DNS", "one.example"), ("email", "a@example"), ("DNS", "two.example"), ("IP Address", "::1")),
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name in ("server", "other"):
        issued = authority.issue_cert(f"{name}.example", common_name=name)
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
    (tmp_path / "junk.pem").write_text("not a certificate\n")
    return {path.name: path for path in tmp_path.iterdir()}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Runs both ends in memory until each is done, and returns the server's."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(up, down, server_side=True)
    here = client.wrap_bio(down, up, server_hostname="server.example")
    for _ in range(4):
        for end in (here, there):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return there


def client_context(files: dict[str, Path], name: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files["ca.pem"]))
    if name:
        context.load_cert_chain(files[f"{name}.pem"], files[f"{name}.key"])
    return context


def options(files: dict[str, Path], **more: object) -> TlsOptions:
    settings: dict[str, object] = {"certfile": files["server.pem"], "keyfile": files["server.key"]}
    return TlsOptions(**(settings | more))  # type: ignore[arg-type]


def test_a_client_connects_without_a_certificate(files: dict[str, Path]) -> None:
    session = handshake(server_context(options(files)), client_context(files))
    assert session.version() == "TLSv1.3"
    assert session.getpeercert() is None


def test_the_name_of_a_verified_client_is_read(files: dict[str, Path]) -> None:
    verifying = options(files, cacertfile=files["ca.pem"], verify="verify_peer")
    session = handshake(server_context(verifying), client_context(files, "other"))
    certificate = session.getpeercert()
    assert login_name(certificate, "common_name") == "other"
    assert login_name(certificate, "subject_alternative_name") == "other.example"
    assert (login_name(certificate, "distinguished_name") or "").startswith("CN=other,OU=")


def test_without_verification_a_certificate_has_no_name(files: dict[str, Path]) -> None:
    session = handshake(server_context(options(files)), client_context(files, "other"))
    assert login_name(session.getpeercert(), "common_name") is None


def test_a_client_must_show_a_certificate_where_that_is_asked(files: dict[str, Path]) -> None:
    strict = options(files, cacertfile=files["ca.pem"], verify="verify_peer", fail_if_no_peer_cert=True)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(server_context(strict), client_context(files))


def test_a_handshake_that_fails_is_told_with_its_reason(files: dict[str, Path]) -> None:
    strict = options(files, cacertfile=files["ca.pem"], verify="verify_peer", fail_if_no_peer_cert=True)
    told: list[str] = []
    context = server_context(strict, report=told.append)
    handshake(context, client_context(files, "other"))
    assert told == []
    with pytest.raises(ssl.SSLError):
        handshake(context, client_context(files))
    (sentence,) = told
    assert sentence.startswith("a client's TLS handshake failed ([SSL: PEER_DID_NOT_RETURN_A_CERTIFICATE]")


def test_versions_are_limited(files: dict[str, Path]) -> None:
    session = handshake(server_context(options(files, versions=("tlsv1.2",))), client_context(files))
    assert session.version() == "TLSv1.2"


def test_a_gap_between_versions_is_refused(files: dict[str, Path]) -> None:
    with pytest.raises(TlsError, match=r"ssl_options.versions: there is a gap between tlsv1.1 and tlsv1.3"):
        server_context(options(files, versions=("tlsv1.3", "tlsv1.1")))


def test_a_key_of_another_certificate_is_named(files: dict[str, Path]) -> None:
    with pytest.raises(TlsError, match=r"ssl_options.keyfile: .*other.key is not the key of the certificate"):
        server_context(options(files, keyfile=files["other.key"]))


def test_a_file_that_is_no_certificate_is_named(files: dict[str, Path]) -> None:
    with pytest.raises(TlsError, match=r"management.ssl.certfile.*junk.pem"):
        server_context(options(files, certfile=files["junk.pem"]), "management.ssl")
    with pytest.raises(TlsError, match=r"ssl_options.cacertfile: .*junk.pem cannot be used"):
        server_context(options(files, cacertfile=files["junk.pem"]))


def test_an_encrypted_key_needs_its_password(files: dict[str, Path]) -> None:
    key = load_pem_private_key(files["server.key"].read_bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame"))
    files["server.key"].write_bytes(encrypted)
    server_context(options(files, password="sesame"))
    for wrong in (None, "simsim"):
        with pytest.raises(TlsError, match=r"ssl_options.password: the key .*server.key cannot be decrypted"):
            server_context(options(files, password=wrong))


def test_unknown_ciphers_are_named(files: dict[str, Path]) -> None:
    server_context(options(files, ciphers=("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_AES_256_GCM_SHA384")))
    with pytest.raises(TlsError, match=r"ssl_options.ciphers: OpenSSL knows none of ROT13"):
        server_context(options(files, ciphers=("ROT13",)))


def test_a_distinguished_name_reads_as_in_rabbitmq() -> None:
    assert login_name(CERTIFICATE, "distinguished_name") == r"CN=client,OU=a+OU=b,O=Example\, Inc.,C=DE"
    assert distinguished_name(CERTIFICATE, "issuer") == "CN=ca"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (" lead", r"\ lead"),
        ("#lead", r"\#lead"),
        ("trail ", r"trail\ "),
        ('a"+,;<>\\', r"a\"\+\,\;\<\>\\"),
        ("tilde~", r"tilde\7E"),
        ("Zoë", r"Zo\C3\AB"),
        ("a\nb", r"a\0Ab"),
    ],
)
def test_names_are_escaped_as_rabbitmq_does(value: str, written: str) -> None:
    assert login_name({"subject": ((("commonName", value),),)}, "distinguished_name") == f"CN={written}"


def test_an_attribute_without_a_short_name_keeps_its_number() -> None:
    assert distinguished_name({"subject": ((("1.2.3.4", "x"),),)}) == "1.2.3.4=x"


def test_several_common_names_are_joined() -> None:
    subject = ((("commonName", "a"),), (("commonName", "b"),))
    assert login_name({"subject": subject}, "common_name") == "a,b"


@pytest.mark.parametrize(
    ("kind", "index", "name"),
    [
        ("dns", 0, "one.example"),
        ("dns", 1, "two.example"),
        ("dns", 2, None),
        ("email", 0, "a@example"),
        ("ip", 0, "::1"),
        ("uri", 0, None),
    ],
)
def test_alternative_names_are_chosen_by_kind_and_place(kind: str, index: int, name: str | None) -> None:
    assert login_name(CERTIFICATE, "subject_alternative_name", san_type=kind, san_index=index) == name


def test_a_certificate_without_a_subject_names_nobody() -> None:
    for how in ("distinguished_name", "common_name", "subject_alternative_name"):
        assert login_name({"subject": ()}, how) is None
        assert login_name(None, how) is None
