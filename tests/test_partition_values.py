"""Partition values of every type and of every hostility: found again, and never outside the table."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.partition_spec import PartitionSpec
from lsmerge.meta import manifest
from lsmerge.schema import TableSchema
from lsmerge.storage import layout

HOSTILE = [
    "..",
    ".",
    "../../etc",
    "/",
    "/abs",
    "a/b",
    "a\\b",
    "",
    " ",
    "\x00",
    "\x01",
    "%00",
    "%01",
    "%2E%2E",
    "a\nb",
    "p=1",
    "null",
    "None",
    "__HIVE_DEFAULT_PARTITION__",
    "__DEFAULT_PARTITION__",
    "bucket-0",
    "snapshot",
    "schema",
    "é",
    "e\u0301",
    "\U0001f600",
    "x" * 199,
    "x" * 5000,
    "y" + "x" * 4999,
    "A",
    "a",
    '"quoted"',
]


def test_hostile_values_stay_apart_and_inside(tmp_path):
    schema = pa.schema({"p": pa.string(), "k": pa.int64()})
    table = lsmerge.create_table(tmp_path / "t", schema, ["p", "k"], partition_by="p")
    table.upsert({"p": HOSTILE, "k": range(len(HOSTILE))})
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    entries = {path.name for path in (tmp_path / "t").iterdir()}
    partitions = entries - {"schema", "snapshot", "manifest"}
    assert len(partitions) == len(HOSTILE)
    assert all(name.startswith("p=") for name in partitions)
    assert {info.values["p"] for info in table.partitions()} == set(HOSTILE)
    table = lsmerge.open_table(tmp_path / "t")
    for number, text in enumerate(HOSTILE):
        assert table.get((text, number)) == {"p": text, "k": number}
    for text in HOSTILE[::3]:
        table.drop_partition({"p": text})
    kept = set(HOSTILE) - set(HOSTILE[::3])
    assert {row["p"] for row in table.scan().to_arrow().to_pylist()} == kept


def test_no_text_is_taken_for_null():
    null = layout.bucket_dir(["p"], [None], 0)
    assert null not in [layout.bucket_dir(["p"], [text], 0) for text in HOSTILE]
    assert manifest.partition_text((None,)) not in map(manifest.partition_text, zip(HOSTILE))


TYPED = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 0, 127]),
    "int64": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "float": (pa.float32(), [0.1, -2.5, 1e30]),
    "double": (pa.float64(), [0.1, -0.0, 1e-300]),
    "decimal": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-0.01")]),
    "text": (pa.string(), ["", "a"]),
    "bytes": (pa.binary(), [b"", b"\x00/", b"\xff"]),
    "fixed": (pa.binary(2), [b"ab", b"\x00\x00"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(13, 45, 0, 5)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(1969, 1, 1, 1, 1, 1)]),
    "instant": (pa.timestamp("ms", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
}


@pytest.mark.parametrize("name", TYPED)
def test_values_of_every_type(name, memory_uri):
    type_, values = TYPED[name]
    schema = pa.schema({"p": type_, "k": pa.int64()})
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p")
    typed = pa.array(values, type_)
    table.upsert(pa.table({"p": typed, "k": pa.array(range(len(values)), pa.int64())}))
    listed = [info.values["p"] for info in table.partitions()]
    assert sorted(map(repr, listed)) == sorted(
        map(repr, [(v or 0.0) if v == 0 and isinstance(v, float) else v for v in typed.to_pylist()])
    )
    for number, value in enumerate(typed.to_pylist()):
        table.overwrite(pa.table({"p": typed.slice(number, 1), "k": [100 + number]}), {"p": value})
    keys = sorted(row["k"] for row in table.scan().to_arrow().to_pylist())
    assert keys == [100 + number for number in range(len(values))]
    table.drop_partition({"p": typed[0]})
    assert table.scan().count() == len(values) - 1


def schema_of(**columns):
    arrow = pa.schema({**columns, "k": pa.int64()})
    return TableSchema.from_arrow(arrow, [*columns, "k"], list(columns), {})


def test_text_is_read_as_the_column_has_it():
    spec = PartitionSpec.parse(schema_of(d=pa.date32()), {"d": "2024-01-31"})
    assert spec.matches(("2024-01-31",))
    assert not spec.matches((None,))
    assert str(spec) == "d='2024-01-31'"


def test_null_names_the_partition_of_nulls():
    spec = PartitionSpec.parse(schema_of(a=pa.string(), b=pa.int8()), {"b": None})
    assert spec.matches(("x", None))
    assert not spec.matches((None, "0"))
    assert not spec.matches((None, "None"))


def test_the_nearest_partition_column_is_named():
    with pytest.raises(lsmerge.SchemaMismatchError, match="'region'"):
        PartitionSpec.parse(schema_of(region=pa.string()), {"regoin": "eu"})


# ------------------------------------------------------------------------------------------- pruning


@pytest.fixture
def days(memory_uri):
    schema = pa.schema({"day": pa.date32(), "h": pa.int8(), "k": pa.int64(), "v": pa.int64()})
    table = lsmerge.create_table(memory_uri, schema, ["day", "h", "k"], partition_by=["day", "h"])
    table.upsert(
        [
            {"day": dt.date(2024, 1, 1 + d), "h": h, "k": k, "v": k}
            for d in range(5)
            for h in range(3)
            for k in range(4)
        ]
    )
    return table


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("day = '2024-01-03'", 3),
        ("day >= '2024-01-03' and h = 1", 3),
        ("day in ('2024-01-01', '2024-01-05') and h != 0 and v > 1", 4),
        ("day > '2025-01-01'", 0),
        ("v > 1", 15),
    ],
)
def test_partitions_that_a_filter_excludes_are_not_read(days, text, left):
    explained = days.scan(filter=text).explain()
    assert (explained["partitions"], explained["partitions_total"]) == (left, 15)
    assert len(explained["buckets"]) == left


@pytest.mark.parametrize("name", TYPED)
def test_nulls_of_every_type(name, memory_uri):
    type_, values = TYPED[name]
    schema = pa.schema({"k": pa.int64(), "p": type_})
    table = lsmerge.create_table(
        memory_uri, schema, "k", partition_by="p", options={"bucket": "-1"}
    )
    table.upsert(pa.table({"k": [0, 1], "p": pa.array([values[0], None], type_)}))
    assert table.partitions()[0].values == {"p": None}
    assert table.scan(filter="p is null").to_arrow()["k"].to_pylist() == [1]
    table.upsert(pa.table({"k": [0], "p": pa.array([None], type_)}))
    table.drop_partition({"p": None})
    assert table.scan().count() == 0


def test_not_a_number_names_a_partition(memory_uri):
    schema = pa.schema({"p": pa.float64(), "k": pa.int64()})
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p")
    table.upsert({"p": [float("nan"), 0.5], "k": [1, 2]})
    table.drop_partition({"p": float("nan")})
    assert table.scan().to_arrow()["k"].to_pylist() == [2]
