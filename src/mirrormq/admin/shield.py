"""What keeps strangers out: headers that tie a browser's hands."""

from __future__ import annotations

from typing import Final

HEADERS: Final = {
    "cache-control": "no-cache", "vary": "accept, accept-encoding, origin", "server": "MirrorMQ",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip
OVER_TLS: Final = {"strict-transport-security": "max-age=31536000"}
