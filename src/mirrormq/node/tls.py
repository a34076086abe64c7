"""TLS: from the keys of the configuration to a context, and from a client's certificate to a user's name.

Rules:

- Everything that can be wrong with the files is found at the start, in a sentence that names the key and the file.
- A name is taken only from a certificate that was verified: with `verify_none` there is none, as in RabbitMQ.
- Distinguished names read as RabbitMQ writes them, RFC 4514 with every byte outside printable ASCII escaped:
  `CN=client,O=Example,C=DE`, the last part of the certificate's subject first.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from mirrormq.node.config import TlsOptions

_VERSIONS: Final = {
    "tlsv1": ssl.TLSVersion.TLSv1,
    "tlsv1.1": ssl.TLSVersion.TLSv1_1,
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
_ORDER: Final = tuple(_VERSIONS)

_SHORT: Final = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
}
_ALTERNATIVE: Final = {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}

LoginFrom = Literal["distinguished_name", "common_name", "subject_alternative_name"]
PeerCertificate = Mapping[str, object]
"""What `getpeercert()` of an SSL socket returns."""


class TlsError(Exception):
    """The TLS options cannot be used; the text names the key and the file."""


def server_context(
    options: TlsOptions, prefix: str = "ssl_options", report: Callable[[str], None] | None = None
) -> ssl.SSLContext:
    """The context of a listener; `prefix` is what the keys begin with, for the sentences. Failed handshakes are reported."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if options.honor_cipher_order:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _set_versions(context, options, prefix)
    _set_ciphers(context, options, prefix)
    _load_chain(context, options, prefix)
    if options.dhfile is not None:
        _load(f"{prefix}.dhfile", options.dhfile, context.load_dh_params)
    if options.cacertfile is not None:
        _load(f"{prefix}.cacertfile", options.cacertfile, context.load_verify_locations)
    context.verify_mode = _verify_mode(options)
    if report is not None:
        _tell_failures(context, report)
    return context


def _tell_failures(context: ssl.SSLContext, report: Callable[[str], None]) -> None:
    """The event loop ends a client whose handshake fails without a word; the reason is what its owner has to know."""

    class Handshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError):
                raise       # it goes on, or the client has left
            except ssl.SSLError as fault:
                report(f"a client's TLS handshake failed ({fault})")
                raise

    context.sslobject_class = Handshake


def _verify_mode(options: TlsOptions) -> ssl.VerifyMode:
    if options.verify != "verify_peer":
        return ssl.CERT_NONE
    return ssl.CERT_REQUIRED if options.fail_if_no_peer_cert else ssl.CERT_OPTIONAL


def _set_versions(context: ssl.SSLContext, options: TlsOptions, prefix: str) -> None:
    positions = sorted({_ORDER.index(version) for version in options.versions})
    if positions != list(range(positions[0], positions[-1] + 1)):
        raise TlsError(f"{prefix}.versions: there is a gap between {_ORDER[positions[0]]} and {_ORDER[positions[-1]]}")
    context.minimum_version = _VERSIONS[_ORDER[positions[0]]]
    context.maximum_version = _VERSIONS[_ORDER[positions[-1]]]


def _set_ciphers(context: ssl.SSLContext, options: TlsOptions, prefix: str) -> None:
    # The suites of TLS 1.3 are all good and OpenSSL keeps them on; they cannot be chosen here.
    chosen = [name for name in options.ciphers if not name.startswith("TLS_")]
    if not chosen:
        return
    try:
        context.set_ciphers(":".join(chosen))
    except ssl.SSLError:
        raise TlsError(f"{prefix}.ciphers: OpenSSL knows none of {', '.join(chosen)}") from None


def _load_chain(context: ssl.SSLContext, options: TlsOptions, prefix: str) -> None:
    assert options.certfile is not None, "the configuration refuses a TLS listener without a certificate"
    key = options.keyfile or options.certfile
    try:
        # Without a password OpenSSL would ask for one on the terminal; an empty one makes it fail.
        context.load_cert_chain(options.certfile, key, options.password or "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(_chain_problem(error, options.certfile, key, prefix)) from None


def _chain_problem(error: Exception, certificate: Path, key: Path, prefix: str) -> str:
    reason = getattr(error, "reason", None) or str(error)
    if "KEY_VALUES_MISMATCH" in reason:
        return f"{prefix}.keyfile: {key} is not the key of the certificate {certificate}"
    if b"ENCRYPTED" in key.read_bytes():
        return f"{prefix}.password: the key {key} cannot be decrypted with it"
    return f"{prefix}.certfile, {prefix}.keyfile: {certificate} and {key} are not a certificate and its key ({reason})"


def _load(key: str, file: Path, load: object) -> None:
    assert callable(load)
    try:
        load(file)
    except (ssl.SSLError, OSError) as error:
        raise TlsError(f"{key}: {file} cannot be used ({getattr(error, 'reason', None) or error})") from None


def login_name(
    peercert: PeerCertificate | None, how: LoginFrom | str, *, san_type: str = "dns", san_index: int = 0
) -> str | None:
    """The user that a verified certificate stands for, or None if it names none."""
    if not peercert:
        return None
    match how:
        case "distinguished_name":
            return distinguished_name(peercert) or None
        case "common_name":
            return ",".join(value for name, value in _attributes(peercert) if name == "commonName") or None
        case "subject_alternative_name":
            return _alternative_name(peercert, san_type, san_index)
    raise AssertionError(f"the configuration does not allow {how!r}")


def distinguished_name(peercert: PeerCertificate, which: str = "subject") -> str:
    """The `subject` or `issuer` of a certificate, as RabbitMQ prints it."""
    parts = reversed(_parts(peercert, which))
    return ",".join("+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part) for part in parts)


def _parts(peercert: PeerCertificate, which: str) -> Sequence[Sequence[tuple[str, str]]]:
    parts = peercert.get(which, ())
    assert isinstance(parts, tuple)
    return parts


def _attributes(peercert: PeerCertificate) -> list[tuple[str, str]]:
    return [pair for part in _parts(peercert, "subject") for pair in part]


def _alternative_name(peercert: PeerCertificate, kind: str, index: int) -> str | None:
    names = peercert.get("subjectAltName", ())
    assert isinstance(names, tuple)
    matching = [value for name, value in names if name == _ALTERNATIVE[kind]]
    return matching[index] if index < len(matching) else None


def _escaped(value: str) -> str:
    text = "".join(_escaped_byte(byte) for byte in value.encode())
    if text[:1] in (" ", "#"):
        text = "\\" + text
    return text[:-1] + "\\ " if len(value) > 1 and text.endswith(" ") else text


def _escaped_byte(byte: int) -> str:
    if byte < 32 or byte >= 126:
        return f"\\{byte:02X}"
    return "\\" + chr(byte) if chr(byte) in '"+,;<>\\' else chr(byte)
