"""One Spark session a process, local with two threads; all tests that use it run in one (tests/distribution.py).

The session is started by the first test that asks for it. Java is needed: without it these tests fail, and say what
to install.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
    # A machine that is busy with other tests answers late.
    "spark.python.authenticate.socketTimeout": "120s",
    # Checkpoints of tests survive no power loss: written as plain files they cost a tenth.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # What lives for a minute does not earn the work of a second compiler.
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
}


def has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None


def start_session(master: str, **settings: str):
    """A new session; the one before it must have been stopped."""
    from pyspark.sql import SparkSession

    if not has_java():
        pytest.fail(
            "no Java found for the Spark tests: install one (Debian, Ubuntu: apt install "
            "openjdk-17-jre-headless), or set JAVA_HOME to a Java 17 or newer",
            pytrace=False,
        )
    # Spark's Python processes import this checkout, and are the interpreter that runs the tests.
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("lsmerge tests")
    return builder.config(map={**SETTINGS, **settings}).getOrCreate()


@pytest.fixture(scope="session")
def spark():
    """The session that all tests of a process share; a task is tried twice."""
    session = start_session("local[2,2]")
    yield session
    session.stop()
