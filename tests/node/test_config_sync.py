"""How fast mirrors are synchronised: the two settings of RabbitMQ."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrormq.node.config import ConfigError, load_config


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.conf"
    path.write_text(text + "\n")
    return path


@pytest.mark.parametrize(("text", "limit"), [("100", 100), ("100MiB", 104_857_600), ("100MB", 100_000_000), ("0", 0)])
def test_a_limit_of_full_syncs_may_have_a_unit(tmp_path: Path, text: str, limit: int) -> None:
    config = load_config(written(tmp_path, f"mirroring_sync_max_throughput = {text}"), {}, {})
    assert config.mirroring_sync_max_throughput == limit


@pytest.mark.parametrize("size", ["0", "1000001", "many"])
def test_a_batch_is_of_a_number_of_messages(tmp_path: Path, size: str) -> None:
    with pytest.raises(ConfigError):
        load_config(written(tmp_path, f"mirroring_sync_batch_size = {size}"), {}, {})
