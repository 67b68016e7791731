"""One table format on Spark, in one process: `python -m bench.spark_stores NAME DIRECTORY [--serve]`.

Writes a base of rows, upserts into it three times, reads the snapshot, the changes of the upserts, and the snapshot
once more when the table is compacted, and prints one JSON object on the last line: seconds on the clock and of the
processors, and what the rows add up to. The first, small, round of everything warms Spark up and does not count.
With --serve it writes and upserts, says what the rows add up to, and for every line of its input reads once what the
line names, for bench.spark_turns. Needs only pyspark of the version that the format's jars are made for, and for
lsmerge itself what it needs.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.measuring import Spent, best, spent_below
from bench.registry import ROOT
from bench.spark_registry import CORES, MASTERS, STORES, SparkStore

Read = Callable[[], DataFrame]

UPSERTS = 3
# Java goes on compiling a path for some thirty reads. Of one that takes seconds fewer are made, three at least.
READS = 40
FEWEST_READS = 3
READING_SECONDS = 20.0
WARM_ROWS = 10_000

LSMERGE = {"primary-key": "k", "bucket": str(CORES), "changelog-producer": "lookup"}
HUDI = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.keygenerator.class": (
        "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    ),
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.table.cdc.enabled": "true",
    "hoodie.upsert.shuffle.parallelism": str(CORES),
}


class Store:
    """What a format can do, at its place."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path

    def compact(self) -> Read | None:
        """Leave nothing to merge, and say how the snapshot is read then; None where a format is not asked for that."""
        return None


class Lsmerge(Store):
    """`format("lsmerge")`, with a changelog that look-ups make; compacted, Spark's own reader reads the files."""

    def create(self, rows: DataFrame) -> None:
        writer = rows.write.format("lsmerge").mode("append").options(**LSMERGE)
        writer.save(self._path)

    def upsert(self, rows: DataFrame) -> None:
        rows.write.format("lsmerge").mode("append").save(self._path)

    def snapshot(self) -> DataFrame:
        return self._spark.read.format("lsmerge").load(self._path)

    def changes(self) -> DataFrame:
        start = {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}
        return self._spark.read.format("lsmerge").options(**start).load(self._path)

    def compact(self) -> Read:
        import lsmerge.spark

        with lsmerge.open_table(self._path) as table:
            table.compact(full=True)
        return lambda: lsmerge.spark.read(self._spark, self._path, mode="compacted")


class LsmergeFunctions(Lsmerge):
    """The same tables by the functions of `lsmerge.spark`: keys are sent to their tasks, reads are maps over parts."""

    def create(self, rows: DataFrame) -> None:
        import lsmerge.spark

        lsmerge.spark.upsert(rows, self._path, options=LSMERGE)

    def upsert(self, rows: DataFrame) -> None:
        import lsmerge.spark

        lsmerge.spark.upsert(rows, self._path)

    def snapshot(self) -> DataFrame:
        import lsmerge.spark

        return lsmerge.spark.read(self._spark, self._path)

    def changes(self) -> DataFrame:
        import lsmerge.spark

        return lsmerge.spark.changelog(self._spark, self._path, 2)


class Delta(Store):
    """MERGE INTO a table with a change data feed; it is always merged, and compacting joins its files."""

    def create(self, rows: DataFrame) -> None:
        feed = {"delta.enableChangeDataFeed": "true"}
        rows.write.format("delta").options(**feed).save(self._path)

    def upsert(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("upserts")
        self._spark.sql(
            f"MERGE INTO delta.`{self._path}` t USING upserts s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def snapshot(self) -> DataFrame:
        return self._spark.read.format("delta").load(self._path)

    def changes(self) -> DataFrame:
        feed = {"readChangeFeed": "true", "startingVersion": "1"}
        return self._spark.read.format("delta").options(**feed).load(self._path)

    def compact(self) -> Read:
        self._spark.sql(f"OPTIMIZE delta.`{self._path}`")
        return self.snapshot


class Hudi(Store):
    """Upserts into a merge-on-read table with change data capture."""

    def create(self, rows: DataFrame) -> None:
        self.upsert(rows)

    def upsert(self, rows: DataFrame) -> None:
        rows.write.format("hudi").options(**HUDI).mode("append").save(self._path)

    def snapshot(self) -> DataFrame:
        return self._spark.read.format("hudi").load(self._path).select("k", "a", "b", "c")

    def changes(self) -> DataFrame:
        table = self._spark.read.format("hudi").load(self._path)
        first = table.selectExpr("min(_hoodie_commit_time)").first()[0]
        query = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": first,
        }
        return self._spark.read.format("hudi").options(**query).load(self._path)


class Paimon(Store):
    """INSERT INTO a primary-key table with a changelog that look-ups make."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        super().__init__(spark, path)
        self._table = f"paimon.default.{Path(path).name.replace('-', '_')}"

    def create(self, rows: DataFrame) -> None:
        options = f"'primary-key'='k', 'bucket'='{CORES}', 'changelog-producer'='lookup'"
        columns = "k BIGINT NOT NULL, a BIGINT, b DOUBLE, c STRING"
        self._spark.sql(f"CREATE TABLE {self._table} ({columns}) TBLPROPERTIES ({options})")
        self.upsert(rows)

    def upsert(self, rows: DataFrame) -> None:
        rows.writeTo(self._table).append()

    def snapshot(self) -> DataFrame:
        return self._spark.table(self._table)

    def changes(self) -> DataFrame:
        catalog, database, name = self._table.split(".")
        snapshots = f"{catalog}.{database}.`{name}$snapshots`"
        last = self._spark.sql(f"SELECT max(snapshot_id) FROM {snapshots}")
        between = {
            "incremental-between": f"1,{last.first()[0]}",
            "incremental-between-scan-mode": "changelog",
        }
        return self._spark.read.format("paimon").options(**between).table(self._table)

    def compact(self) -> Read:
        name = self._table.removeprefix("paimon.")
        self._spark.sql(f"CALL paimon.sys.compact(table => '{name}')")
        return self.snapshot


KINDS = {
    "lsmerge": Lsmerge,
    "lsmerge.spark": LsmergeFunctions,
    "delta": Delta,
    "hudi": Hudi,
    "paimon": Paimon,
}
# Where only reads are compared, both ways of lsmerge read what a plain write has made: a shuffle leaves fewer runs.
MADE_BY = {"lsmerge.spark": "lsmerge"}


def session(store: SparkStore, master: str, directory: Path, jars: Path) -> SparkSession:
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = store.settings | {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.catalog.paimon.warehouse": f"file:{directory}/paimon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.jars.ivy": str(jars),
    }
    if store.package:
        settings["spark.jars.packages"] = store.package
    spark = SparkSession.builder.master(MASTERS[master]).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int, total: int, number: int) -> DataFrame:
    """Commit `number`: 0 is the base; of an upsert's keys a fifth is new, the others are scattered over the base."""
    key = "id"
    if number:
        known = f"pmod(id * 7919 + {number} * 104729, {total})"
        key = f"if(id % 5 = 0, {total} + {number} * {count} + id, {known})"
    columns = ["k", f"k * 31 + {number} AS a", "k / 8D AS b", "concat('note-', k * 7919) AS c"]
    return spark.range(0, count, 1, CORES).selectExpr(f"{key} AS k").selectExpr(*columns)


def consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def life(store: SparkStore, spark: SparkSession, path: str, total: int) -> dict[str, Spent]:
    """Every work, in order; reads are the best of several, and of snapshots also the first."""
    made = KINDS[store.name](spark, path)
    upserts = [rows(spark, total // 5, total, number + 1) for number in range(UPSERTS)]
    taken = {"first write": spent_below(lambda: made.create(rows(spark, total, total, 0)))}
    works = [spent_below(lambda frame=frame: made.upsert(frame)) for frame in upserts]
    taken["upsert"] = best(works)
    snapshots = reads(made.snapshot)
    taken["first snapshot read"] = snapshots[0]
    taken["snapshot read"] = best(snapshots)
    taken["changelog read"] = best(reads(made.changes))
    read_compacted = made.compact()
    if read_compacted is not None:
        taken["compacted read"] = best(reads(read_compacted))
    return taken


def reads(read: Read) -> list[Spent]:
    taken: list[Spent] = []
    while len(taken) < FEWEST_READS or (
        len(taken) < READS and sum(one.clock for one in taken) < READING_SECONDS
    ):
        taken.append(spent_below(lambda: consume(read())))
    return taken


def answer(made: Store) -> list[int]:
    """What the rows add up to."""
    total = made.snapshot().selectExpr("count(*)", "sum(a)", "sum(length(c))").first()
    return [int(value) for value in total]


def serve(store: SparkStore, spark: SparkSession, path: str, total: int) -> None:
    """Reads as they are asked for, one line of seconds on the clock and of the processors for each."""
    maker = KINDS[MADE_BY.get(store.name, store.name)](spark, path)
    maker.create(rows(spark, total, total, 0))
    for number in range(UPSERTS):
        maker.upsert(rows(spark, total // 5, total, number + 1))
    made = KINDS[store.name](spark, path)
    ways = {"snapshot": made.snapshot, "changes": made.changes}
    print("\n" + json.dumps({"ready": answer(made)}), flush=True)
    for line in sys.stdin:
        read = ways[line.strip()]
        taken = spent_below(lambda read=read: consume(read()))
        print(json.dumps([taken.clock, taken.processor]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[store.name for store in STORES])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--master", choices=MASTERS, default="local")
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    store = next(store for store in STORES if store.name == given.name)
    spark = session(store, given.master, given.directory, given.jars)
    if given.serve:
        serve(store, spark, str(given.directory / "table"), given.rows)
        spark.stop()
        return
    life(store, spark, str(given.directory / "warm"), WARM_ROWS)
    path = str(given.directory / "table")
    taken = life(store, spark, path, given.rows)
    made = KINDS[store.name](spark, path)
    document = {
        "taken": {name: [one.clock, one.processor] for name, one in taken.items()},
        "answer": answer(made),
        "changes": made.changes().count(),
        "spark": spark.version,
    }
    spark.stop()
    print("\n" + json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
