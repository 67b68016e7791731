"""lsmerge from Spark: a CDC stream in, the changelog stream out, both checked. Run it with `make demo`."""

import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lsmerge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_SCHEMA = "_row_kind string, id bigint, name string, balance double"
FILES, EVENTS_PER_FILE, ACCOUNTS = 5, 40, 25
Row = dict[str, Any]


def main() -> None:
    missing = what_is_missing()
    if missing:
        print(f"The Spark part of the tour is left out: {missing}")
        return
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    with tempfile.TemporaryDirectory(prefix="lsmerge-spark-tour-") as directory:
        spark = session(directory)
        try:
            tour(spark, Path(directory))
        finally:
            spark.stop()


def what_is_missing() -> str | None:
    """What is to be installed before Spark runs; None if all is there."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "PySpark is not installed; pip install 'lsmerge[spark]'"
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        return (
            "no Java was found; install one (Debian, Ubuntu: apt install openjdk-17-jre-headless), "
            "or set JAVA_HOME to a Java 17 or newer"
        )
    return None


def session(directory: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    # Spark's Python processes are the interpreter that runs this, and find the same lsmerge.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(lsmerge.__file__).parent.parent)
    builder = SparkSession.builder.master("local[2]").appName("lsmerge tour")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": directory,
    }
    return builder.config(map=settings).getOrCreate()


def tour(spark: "SparkSession", directory: Path) -> None:
    import lsmerge.spark

    path = str(directory / "accounts")
    title(f"1. A CDC stream in: {FILES} files of events, each a micro-batch, each one commit")
    expected = write_events(directory / "events")
    lsmerge.create_table(
        path,
        lsmerge_schema(),
        primary_key="id",
        options={"bucket": 2, "changelog-producer": "lookup", "write-only": True},
    ).close()
    stream_in(spark, directory, path)
    table = lsmerge.open_table(path)
    found = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    check(found == expected, "the table holds what the events say")
    say(
        f"{FILES * EVENTS_PER_FILE} events gave {len(found)} accounts, {len(table.snapshots())} snapshots"
    )

    title("2. The changelog stream out: replaying it gives the table")
    changes = stream_out(
        lsmerge.spark.read_stream(spark, path, "earliest", max_snapshots=2), directory
    )
    say(f"{len(changes)} changes, such as {changes[0]['_row_kind']} {changes[0]['name']}")
    check(replayed(changes) == found, "the changes add up to the table")

    title("3. Rows by SQL, as of now and as of snapshot 1")
    spark.sql(f"CREATE TEMPORARY VIEW accounts USING lsmerge OPTIONS (path '{path}')")
    spark.sql("SELECT count(*) AS accounts, round(sum(balance), 2) AS total FROM accounts").show()
    before = lsmerge.spark.read(spark, path, columns=["id"], filter="balance > 50", snapshot=1)
    say(f"rich at snapshot 1: {before.count()}")

    title("4. Upkeep as Spark jobs")
    say(f"compact -> {lsmerge.spark.compact(spark, path, full=True)}")
    check(lsmerge.spark.verify(spark, path).ok, "every byte is as it was written")


def lsmerge_schema() -> Any:
    import pyarrow as pa

    return pa.schema({"id": pa.int64(), "name": pa.string(), "balance": pa.float64()})


def write_events(directory: Path) -> dict[int, Row]:
    """Files of events, and the rows that they add up to."""
    directory.mkdir()
    draw, rows = random.Random(1), dict[int, Row]()  # noqa: S311 - the same events in every run
    for number in range(FILES):
        events = [event(draw, rows) for _ in range(EVENTS_PER_FILE)]
        text = "\n".join(json.dumps(one) for one in events)
        file = directory / f"events-{number}.json"
        file.write_text(text, encoding="utf-8")
        # Spark takes files in the order of their times, of which these would have the same.
        os.utime(file, (number, number))
    return rows


def event(draw: random.Random, rows: dict[int, Row]) -> Row:
    key = draw.randrange(ACCOUNTS)
    row = {"id": key, "name": f"account {key}", "balance": round(draw.uniform(0, 100), 2)}
    if key in rows and draw.random() < 0.2:
        return {"_row_kind": "-D", **rows.pop(key)}
    kind = "+U" if key in rows else "+I"
    rows[key] = row
    return {"_row_kind": kind, **row}


def stream_in(spark: "SparkSession", directory: Path, path: str) -> None:
    events = spark.readStream.schema(EVENTS_SCHEMA).option("maxFilesPerTrigger", 1)
    query = (
        events.json(str(directory / "events"))
        .writeStream.format("lsmerge")
        .option("checkpointLocation", str(directory / "checkpoint-in"))
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()


def stream_out(changes: "DataFrame", directory: Path) -> list[Row]:
    told: list[Row] = []

    def keep(batch: "DataFrame", _number: int) -> None:
        told.extend(row.asDict() for row in batch.collect())

    query = (
        changes.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(directory / "checkpoint-out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return told


def replayed(changes: list[Row]) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for change in changes:
        row = {name: change[name] for name in ("id", "name", "balance")}
        if change["_row_kind"] in ("+I", "+U"):
            rows[row["id"]] = row
        elif change["_row_kind"] == "-D":
            del rows[row["id"]]
    return rows


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    print(f"  {text}")


def check(is_true: bool, what: str) -> None:
    if not is_true:
        raise SystemExit(f"FAILED: {what}")
    print(f"  checked: {what}")


if __name__ == "__main__":
    main()
