"""What holds for every test: which are live, and how hypothesis searches.

Tests below these folders start real server processes, so they are marked `live`; all others are unit tests, which run
compiled and uncompiled.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

LIVE = ("clients", "compat", "lake", "live", "page")
LIVE_PARTS = (("cluster", "live"), ("cluster", "coordination"), ("mirror", "live"))
os.environ.setdefault("MIRRORMQ_COOKIE", secrets.token_hex(16))     # nodes that tests start share it, and no file is made

# The machines that run the tests are shared: a slow moment is no finding. A run tries what the last one tried, so that it tells
# of the change that is tested; HYPOTHESIS_PROFILE=search looks for something new.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("search", parent=settings.get_profile("tests"), max_examples=10_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        parts = item.path.relative_to(root).parts
        if parts[0] in LIVE or parts[:2] in LIVE_PARTS or item.path.name.startswith("test_links"):
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="session", autouse=True)
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes and tools of one run of the tests meet in a directory of its own: others may run nodes of the same names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRRORMQ_RUN_DIR", str(tmp_path_factory.mktemp("run")))
        for name in ("MIRRORMQ_URL", "MIRRORMQ_NODENAME", "RABBITMQ_NODENAME"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def heard_signals() -> Iterator[None]:
    """As at a terminal, also where the tests themselves run in the background or under nohup: a process inherits that a signal is
    ignored, but no handler of it."""
    ignored = [kind for kind in (signal.SIGHUP, signal.SIGINT) if signal.getsignal(kind) is signal.SIG_IGN]
    for kind in ignored:
        signal.signal(kind, lambda *_: None)
    yield
    for kind in ignored:
        signal.signal(kind, signal.SIG_IGN)
