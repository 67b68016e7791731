"""The files of a snapshot as values: levels, runs, sizes, and the key range of each."""

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine.key_values import key_columns
from lsmerge_native.keys import encode_keys

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(18, 3): st.decimals(-(10**14), 10**14, places=3),
    pa.decimal128(38, 2): st.decimals(-(10**20), 10**20, places=2),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.binary(3): st.binary(min_size=3, max_size=3),
}


@given(data=st.data())
def test_an_encoded_key_gives_its_values_back(data):
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(*(VALUES[arrow] for arrow in types)), max_size=5))
    arrays = [pa.array([row[i] for row in rows], arrow) for i, arrow in enumerate(types)]
    encoded = encode_keys(arrays)
    found = key_columns([encoded.bytes_at(row) for row in range(len(rows))], types)
    assert [column.to_pylist() for column in found] == [array.to_pylist() for array in arrays]


def test_every_nan_is_one_key_and_so_are_the_zeros():
    encoded = encode_keys([pa.array([float("nan"), -0.0])])
    [column] = key_columns([encoded.bytes_at(0), encoded.bytes_at(1)], [pa.float64()])
    assert math.isnan(column[0].as_py())
    assert math.copysign(1, column[1].as_py()) == 1


def test_runs_are_listed_newest_first_with_levels_and_rows(memory_uri):
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    table = lsmerge.create_table(memory_uri, schema, "k", options={"write-only": "true"})
    table.upsert({"k": [1, 2, 3], "v": ["a"] * 3})
    table.compact(full=True)
    table.upsert({"k": [5], "v": ["b"]})
    table.delete([2])
    listed = [
        (file.run, file.level, file.rows, file.retracts, file.min_key, file.max_key)
        for file in table.files()
    ]
    highest = table.files()[-1].level
    assert listed == [
        (0, 0, 1, 1, {"k": 2}, {"k": 2}),
        (1, 0, 1, 0, {"k": 5}, {"k": 5}),
        (2, highest, 3, 0, {"k": 1}, {"k": 3}),
    ]
    assert highest > 0
    assert sum(file.size_bytes for file in table.files()) == table.stats().size_bytes


def test_an_older_snapshot_lists_its_own_files(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    assert table.files() == []
    table.upsert({"k": [1]})
    table.upsert({"k": [2]})
    assert [file.min_key for file in table.files(snapshot=1)] == [{"k": 1}]
    with pytest.raises(lsmerge.SnapshotNotFoundError):
        table.files(snapshot=7)


def test_partition_values_and_paths_are_told(memory_uri):
    schema = pa.schema({"day": pa.date32(), "k": pa.string(), "n": pa.decimal128(5, 2)})
    table = lsmerge.create_table(memory_uri, schema, ["day", "k", "n"], partition_by="day")
    day = datetime.date(2024, 1, 31)
    table.upsert([{"day": day, "k": "a\x00b", "n": Decimal("-1.50")}])
    [file] = table.files()
    assert file.partition == {"day": day}
    assert file.min_key == {"k": "a\x00b", "n": Decimal("-1.50")}
    assert file.path.startswith("day=2024-01-31/bucket-0/data-")


def test_the_definition_is_told_in_plain_values(memory_uri):
    schema = pa.schema([lsmerge.arrow_field("k", "VARCHAR(5)"), pa.field("v", pa.float64())])
    table = lsmerge.create_table(memory_uri, schema, "k", options={"bucket": 2})
    found = table.describe()
    assert [column["type"] for column in found["columns"]] == ["VARCHAR(5)", "DOUBLE"]
    assert (found["primary_key"], found["options"]["bucket"]) == (["k"], "2")


def test_every_option_of_a_table_is_known():
    known = lsmerge.Table.known_options()
    assert known["merge-engine"].startswith("What several rows")
    assert "scan.mode" not in known  # said by each read, not by the table
