"""The handshake: both sides prove that they know the secret, without sending it; then they say who they are.

    1  dialler  → acceptor   magic, nonce
    2  dialler  ← acceptor   magic, nonce
    3  dialler  → acceptor   HMAC(secret, "dialler", 1, 2)
    4  dialler  ← acceptor   HMAC(secret, "acceptor", 1, 2)
    5  dialler  → acceptor   introduction, HMAC(session key, "introduction", it)
    6  dialler  ← acceptor   verdict,      HMAC(session key, "verdict", 5, it)      session key = HMAC(secret, "session", 1..4)

Rules:

- The dialler proves first. A stranger who dials gets a nonce for its own and then `NOT_KNOWN`, which is the same for everybody;
  the acceptor says nothing at all to who does not begin with the magic. A stranger who is dialled gets a nonce and a proof, and
  no name.
- Each proof is over both fresh nonces and the role: a recorded one is worthless, and one sent back proves the wrong role.
- The introduction names the node that was meant (`to`), so a dialler that is relayed to another node is refused there. The MACs
  of 5 and 6 cover names, ids, incarnations, versions and cluster, under a key of this connection alone.
- Proofs are compared in constant time. A wrong one is answered by `NOT_KNOWN` in place of a proof. A connection that ends without
  it says nothing about the secret: lines break and nodes stop in the middle of a handshake too.
- No side may be ahead: until the verdict, more bytes than the next message has are a fault, so nothing of a stranger is kept.
- Why a node that knows the secret is refused (version, cluster, name) is told to it in the verdict.
"""

from __future__ import annotations

import hmac
import json
from typing import Final

from mirrormq.cluster.link.errors import HandshakeFailed, LinkFault, Refused, WrongSecret
from mirrormq.cluster.link.identity import Introduction, common_version, decode_introduction, decode_object

MAGIC: Final = b"MMQLINK1"
"""The last octet is the version of the handshake itself, which is meant to stay."""

NONCE_SIZE: Final = 32
HELLO_SIZE: Final = 40
PROOF_SIZE: Final = 32
NOT_KNOWN: Final = bytes(PROOF_SIZE)
"""In place of the acceptor's proof: that of the dialler was wrong."""

LETTER_LIMIT: Final = 16384
"""The longest introduction or verdict: five names of 255 characters, however they are escaped."""

_DIALLER: Final = b"mirrormq link: dialler\0"
_ACCEPTOR: Final = b"mirrormq link: acceptor\0"
_SESSION: Final = b"mirrormq link: session\0"
_INTRODUCTION: Final = b"mirrormq link: introduction\0"
_VERDICT: Final = b"mirrormq link: verdict\0"

AWAITS_HELLO: Final = 0
AWAITS_PROOF: Final = 1
AWAITS_LETTER: Final = 2
AWAITS_JUDGEMENT: Final = 3
DONE: Final = 4

SAME_SECRET: Final = "check that both nodes have the same cookie"  # noqa: S105 - a sentence, not a password


def _mac(key: bytes, label: bytes, content: bytes) -> bytes:
    return hmac.digest(key, label + content, "sha256")


def _letter(content: bytes, mac: bytes) -> bytes:
    assert len(content) <= LETTER_LIMIT
    return len(content).to_bytes(2, "big") + content + mac


class _Inbox:
    """Collects the bytes of one expected message, and refuses any beyond it."""

    def __init__(self) -> None:
        self.held = b""

    def add(self, data: bytes, most: int) -> None:
        if len(self.held) + len(data) > most:
            raise HandshakeFailed("more bytes came than the handshake has")
        self.held += data

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or none if they are not all there."""
        if len(self.held) < size:
            return b""
        taken, self.held = self.held[:size], self.held[size:]
        return taken

    def take_letter(self) -> bytes:
        """Content and MAC of a whole letter, or nothing yet."""
        if len(self.held) < 2:
            return b""
        size = int.from_bytes(self.held[:2], "big")
        if size > LETTER_LIMIT or size == 0:
            raise HandshakeFailed("a message of the handshake has an impossible size")
        return self.take(2 + size + PROOF_SIZE)[2:]


def _check_magic(held: bytes) -> None:
    if not MAGIC.startswith(held[: len(MAGIC)]):
        raise HandshakeFailed("the other side does not speak the protocol of MirrorMQ's links")


class Dialler:
    """The side that connected. `introduction.to` is the node that it means, or nothing if any will do."""

    def __init__(self, secret: bytes, introduction: Introduction, nonce: bytes) -> None:
        assert secret
        assert len(nonce) == NONCE_SIZE
        self.introduction = introduction
        self.peer: Introduction | None = None
        self.version = 0
        self.rest = b""
        self.hello = MAGIC + nonce
        self._secret = secret
        self._state = AWAITS_HELLO
        self._inbox = _Inbox()
        self._hellos = b""
        self._key = b""
        self._mac = b""

    @property
    def is_done(self) -> bool:
        return self._state == DONE

    def receive(self, data: bytes) -> bytes:
        """What to send in answer. Once `is_done`, `rest` holds the bytes of the session that came along."""
        if self._state == AWAITS_HELLO:
            self._inbox.add(data, HELLO_SIZE)
            return self._answer_hello()
        if self._state == AWAITS_PROOF:
            self._inbox.add(data, PROOF_SIZE)
            return self._answer_proof()
        assert self._state == AWAITS_LETTER
        self._inbox.held += data
        self._read_verdict()
        return b""

    def _answer_hello(self) -> bytes:
        _check_magic(self._inbox.held)
        hello = self._inbox.take(HELLO_SIZE)
        if not hello:
            return b""
        if hello == self.hello:
            raise HandshakeFailed("the other side only repeats what it is told")
        self._hellos = self.hello + hello
        self._state = AWAITS_PROOF
        return _mac(self._secret, _DIALLER, self._hellos)

    def _answer_proof(self) -> bytes:
        proof = self._inbox.take(PROOF_SIZE)
        if not proof:
            return b""
        if not hmac.compare_digest(proof, _mac(self._secret, _ACCEPTOR, self._hellos)):
            raise WrongSecret(f"the other side does not know the secret; {SAME_SECRET}")
        own = _mac(self._secret, _DIALLER, self._hellos)
        self._key = _mac(self._secret, _SESSION, self._hellos + own + proof)
        self._state = AWAITS_LETTER
        content = self.introduction.encode()
        self._mac = _mac(self._key, _INTRODUCTION, content)
        return _letter(content, self._mac)

    def _read_verdict(self) -> None:
        letter = self._inbox.take_letter()
        if not letter:
            return
        content = letter[:-PROOF_SIZE]
        if not hmac.compare_digest(letter[-PROOF_SIZE:], _mac(self._key, _VERDICT, self._mac + content)):
            raise HandshakeFailed("the verdict was changed on its way")
        fields = decode_object(content)
        refusal = fields.get("refused")
        if refusal is not None:
            raise Refused(str(refusal))
        self._accept(content, fields)

    def _accept(self, content: bytes, fields: dict[str, object]) -> None:
        peer = decode_introduction(content)
        meant = self.introduction.to
        if meant and peer.who.name != meant:
            raise LinkFault(f"{peer.who.name} answered where {meant} was expected")
        version = fields.get("version")
        if not isinstance(version, int) or version != common_version(self.introduction, peer):
            raise LinkFault(f"{peer.who.name} chose version {version!r} of the link, which was not offered")
        self.peer = peer
        self.version = version
        self.rest = self._inbox.held
        self._inbox.held = b""
        self._state = DONE


class Acceptor:
    """The side that was connected to. When `peer` is there, its owner calls `welcome` or `refuse`."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        assert secret
        assert len(nonce) == NONCE_SIZE
        self.peer: Introduction | None = None
        self.version = 0
        self.is_authenticated = False
        self._hello = MAGIC + nonce
        self._secret = secret
        self._state = AWAITS_HELLO
        self._inbox = _Inbox()
        self._hellos = b""
        self._key = b""
        self._mac = b""

    @property
    def is_done(self) -> bool:
        return self._state == DONE

    def receive(self, data: bytes) -> bytes:
        """What to send in answer."""
        if self._state == AWAITS_HELLO:
            self._inbox.add(data, HELLO_SIZE)
            return self._answer_hello()
        if self._state == AWAITS_PROOF:
            self._inbox.add(data, PROOF_SIZE)
            return self._answer_proof()
        if self._state != AWAITS_LETTER:
            raise HandshakeFailed("more bytes came than the handshake has")
        self._inbox.add(data, 2 + LETTER_LIMIT + PROOF_SIZE)
        self._read_introduction()
        return b""

    def _answer_hello(self) -> bytes:
        _check_magic(self._inbox.held)
        hello = self._inbox.take(HELLO_SIZE)
        if not hello:
            return b""
        self._hellos = hello + self._hello
        self._state = AWAITS_PROOF
        return self._hello

    def _answer_proof(self) -> bytes:
        proof = self._inbox.take(PROOF_SIZE)
        if not proof:
            return b""
        if not hmac.compare_digest(proof, _mac(self._secret, _DIALLER, self._hellos)):
            raise WrongSecret(f"it does not know the secret; if it is a node of this cluster, {SAME_SECRET}")
        own = _mac(self._secret, _ACCEPTOR, self._hellos)
        self._key = _mac(self._secret, _SESSION, self._hellos + proof + own)
        self.is_authenticated = True
        self._state = AWAITS_LETTER
        return own

    def _read_introduction(self) -> None:
        letter = self._inbox.take_letter()
        if not letter:
            return
        if self._inbox.held:
            raise HandshakeFailed("more bytes came than the handshake has")
        content, self._mac = letter[:-PROOF_SIZE], letter[-PROOF_SIZE:]
        if not hmac.compare_digest(self._mac, _mac(self._key, _INTRODUCTION, content)):
            raise HandshakeFailed("the introduction was changed on its way")
        self._state = AWAITS_JUDGEMENT
        self.peer = decode_introduction(content)

    def welcome(self, me: Introduction) -> bytes:
        assert self._state == AWAITS_JUDGEMENT
        assert self.peer is not None
        self._state = DONE
        self.version = common_version(me, self.peer)
        fields = json.loads(me.encode())
        fields["version"] = self.version
        return self._verdict(fields)

    def refuse(self, sentence: str) -> bytes:
        assert self._state == AWAITS_JUDGEMENT
        self._state = DONE
        return self._verdict({"refused": sentence[: LETTER_LIMIT // 16]})

    def _verdict(self, fields: dict[str, object]) -> bytes:
        content = json.dumps(fields).encode()
        return _letter(content, _mac(self._key, _VERDICT, self._mac + content))
