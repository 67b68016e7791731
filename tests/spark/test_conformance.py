"""A sample of the conformance cases of every engine, written and read back through Spark.

Tables are made by the first write, of the columns that Spark has; rows come in as many tasks as the session has cores.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lsmerge
import lsmerge.spark
from tests.conformance import run

CASES = {
    case["id"]: case
    for name in ("paimon", "fluss", "hudi")
    for case in run.load_cases(Path(run.__file__).with_name(f"{name}.json"))
}
WRITTEN = [
    "dd-06-insert-delete-insert-one-commit",
    "sq-02-out-of-order-in-commit",
    "sg-02-null-overwrites",
    "ag-70-nested-update-key",
    "fr-06-ignore-delete",
    "cl-21-lookup-net-per-commit",
    "fluss-ver-tie-newer",
    "fluss-agg-partial-update",
    "hudi-event-is-deleted",
    "hudi-pay-partial-tie",
]
UPSERTED = [
    "sg-16-agg-doc-example",
    "ag-17-sum-int8-overflow",
    "cl-24-lookup-delete-reinsert",
]


class SparkRun(run.CaseRun):
    """A case whose rows and changes go through Spark; its first write makes the table."""

    refusal = PySparkException

    def __init__(self, case, spark, path):
        super().__init__(case, None, run.PLAIN)
        self.spark, self.path = spark, path
        lists = {"primary-key": case["primary_key"], "partition-by": case["partition_keys"]}
        self.definition = {name: ",".join(columns) for name, columns in lists.items()}

    def _commit(self, changes, target_columns):
        self._save(self.spark.createDataFrame(self._batch(changes, target_columns)), target_columns)
        self.table = lsmerge.open_table(self.path)

    def _save(self, df, columns):
        named = {"columns": ",".join(columns)} if columns else {}
        options = {**self.case["options"], **self.definition, **named}
        df.write.format("lsmerge").mode("append").options(**options).save(self.path)

    def _readers(self):
        return (self.spark.read.format("lsmerge").load(self.path).toArrow,)

    def _changed(self, start):
        told = lsmerge.spark.changelog(self.spark, self.path, start).toArrow()
        numbers = told["_snapshot_id"].to_pylist()
        yield told.take(pa.array(sorted(range(len(numbers)), key=numbers.__getitem__), pa.int64()))


class UpsertRun(SparkRun):
    """The same with a shuffle, so that one task has all rows of a key."""

    def _save(self, df, columns):
        options = {**self.case["options"], **self.definition}
        lsmerge.spark.upsert(df, self.path, columns=columns, options=options)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_case_through_spark(tmp_path, spark, name):
    SparkRun(CASES[name], spark, str(tmp_path / "t")).all_steps()


@pytest.mark.parametrize("name", UPSERTED)
def test_a_case_through_a_shuffle(tmp_path, spark, name):
    UpsertRun(CASES[name], spark, str(tmp_path / "t")).all_steps()
