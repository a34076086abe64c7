"""Tests through real clients. They stand on the package of the compatibility tests beside them, `compat`."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = str(Path(__file__).parent.parent)
if TESTS not in sys.path:
    sys.path.append(TESTS)
