"""Which table formats are compared on Spark, and what each needs. Standard library only."""

from dataclasses import dataclass, field
from pathlib import Path

from bench.registry import ROOT

CORES = 2
# Executors of the cluster are processes of their own, with a core each.
MASTERS = {"local": f"local[{CORES}]", "local-cluster": f"local-cluster[{CORES},1,2048]"}


@dataclass(frozen=True)
class SparkStore:
    """A format, the Spark that its jars are made for, and what a session of it needs."""

    name: str
    spark: str
    package: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()

    @property
    def environment(self) -> Path:
        return ROOT / f".venv-bench-spark{self.spark}"


OF_LSMERGE = ("numpy", "pandas", "-e", ".")
# What docs/spark.md advises: Java's Arrow does not look at the bounds of a buffer again for every value.
UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
ADVISED = {
    "spark.driver.extraJavaOptions": UNCHECKED,
    "spark.executor.extraJavaOptions": UNCHECKED,
}
STORES = (
    SparkStore("lsmerge", "4.2", settings=ADVISED, requirements=OF_LSMERGE),
    SparkStore("lsmerge.spark", "4.2", settings=ADVISED, requirements=OF_LSMERGE),
    SparkStore(
        "delta",
        "4.2",
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": str(CORES),
        },
    ),
    SparkStore(
        "hudi",
        "3.5",
        "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
        {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": ("org.apache.spark.sql.hudi.catalog.HoodieCatalog"),
        },
    ),
    SparkStore(
        "paimon",
        "3.5",
        "org.apache.paimon:paimon-spark-3.5:0.9.0",
        {
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.extensions": (
                "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
            ),
        },
    ),
)
