"""What can go wrong with a cluster ends in one readable sentence, in Spark and on the command line.

A stand-in for the cluster answers as one does that trims, that is of another version, or whose node goes away.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrormq.lake.command import lake
from mirrormq.lake.errors import sentence_of

LISTED = {"name": "q", "vhost": "/", "id": "a", "node": "n@h", "state": "running", "earliest": 1, "end": 11, "epoch": 1,
          "durable": True}  # fmt: skip
NEWER = "the cluster (version 9.9.9) sends its log in format '2', and this program reads format 1: use the lake tools of the"


class Cluster(BaseHTTPRequestHandler):
    """Lists one queue of ten entries; `fault` is what happens to who reads it."""

    fault = ""

    def do_GET(self) -> None:
        is_list = "first=" not in self.path
        if is_list:
            told = {"version": "9.9.9", "format": "2" if self.fault == "newer" else "1", "queues": [LISTED]}
            self.answer(200, json.dumps(told).encode(), {})
        elif self.fault == "trimmed":
            reason = "entries 1 to 5 of queue 'q' are gone from the log; it begins at 6"
            self.answer(410, json.dumps({"error": "trimmed", "reason": reason}).encode(), {"x-mirrormq-earliest": "6"})
        elif self.fault == "newer chunks":
            self.answer(200, b"chunk", {"x-mirrormq-format": "2", "x-mirrormq-version": "9.9.9"})
        else:
            self.close_connection = True        # it goes away in the middle of its work

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(204, b"", {})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"content-length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def cluster(fault: str) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Faulty", (Cluster,), {"fault": fault}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("fault", "sentence"), [
    ("trimmed", "entries 1 to 5 of queue 'q' are gone from the log; it begins at 6"),
    ("newer", NEWER),
    ("newer chunks", NEWER),
    ("gone", "no node of the cluster can answer for /api/feed/%2F/q ("),
])  # fmt: skip
def test_a_job_in_spark_ends_with_a_sentence(spark: Any, fault: str, sentence: str) -> None:
    with cluster(fault) as url:
        with pytest.raises(Exception) as problem:
            spark.read.format("mirrormq").options(url=url, queue="q", patience="1").load().count()
        assert sentence_of(problem.value).startswith(sentence)
        assert "\n" not in sentence_of(problem.value)


@pytest.mark.parametrize(("fault", "sentence"), [
    ("trimmed", "entries 1 to 5 of queue 'q' are gone from the log; it begins at 6"), ("newer", NEWER),
])  # fmt: skip
def test_the_command_ends_with_that_sentence_alone(
    spark: Any, fault: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with cluster(fault) as url:
        told = CliRunner().invoke(lake, ["mirror", "--once", "--lake", str(tmp_path / "lake"), "--url", url])
    assert told.exit_code == 1
    complaints = [line for line in told.stderr.splitlines() if line.startswith("mirrormq lake: ")]
    assert [line.startswith(f"mirrormq lake: {sentence}") for line in complaints] == [True]
    assert "Traceback" not in told.output
    assert "at java." not in told.output
