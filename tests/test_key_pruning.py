"""Filters on the key skip files and blocks value by value and range by range, and never change an answer."""

import datetime
import itertools
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge

SMALL = {"file.block-size": "4 kb", "bucket": 1, "write-only": "true"}
FILLER = "x" * 200
_uris = (f"memory://key-pruning-{number}" for number in itertools.count(1))


def table_of(schema, key, **options):
    return lsmerge.create_table(next(_uris), schema, key, options=SMALL | options)


@pytest.fixture(scope="module")
def numbers():
    """A thousand rows in many blocks of one file, and two files of a few rows beside each other."""
    table = table_of(pa.schema({"k": pa.int64(), "s": pa.string()}), "k")
    table.upsert({"k": range(1000), "s": [FILLER] * 1000})
    table.upsert({"k": range(5000, 5010), "s": [FILLER] * 10})
    table.upsert({"k": range(9000, 9010), "s": [FILLER] * 10})
    return table


def told(table, text, *what):
    [bucket] = table.scan(filter=text).explain()["buckets"]
    return tuple(bucket[name] for name in what)


def test_a_list_of_keys_reads_the_blocks_that_hold_them(numbers):
    [total] = told(numbers, "k >= 0", "blocks")
    assert total > 20
    assert told(numbers, "k in (1, 500, 998)", "files", "blocks_read") == (1, 3)
    assert told(numbers, "k in (1, 9001)", "files", "blocks_read") == (2, 2)
    assert numbers.scan(["k"], "k in (998, 1, 9001, 7777)").to_arrow()["k"].to_pylist() == [
        1,
        998,
        9001,
    ]


def test_ranges_that_lie_apart_leave_out_what_is_between(numbers):
    text = "k < 3 or k between 500 and 502 or k > 9005"
    assert told(numbers, text, "files", "blocks_read") == (2, 3)
    assert numbers.scan(filter=text).count() == 3 + 3 + 4


def test_what_no_key_can_be_reads_nothing(numbers):
    for text in ("k = 1 and k = 2", "k > 5 and k < 3", "k in (2000, 3000)"):
        assert told(numbers, text, "files") == (0,)
        assert numbers.scan(filter=text).count() == 0


def test_pieces_of_a_scan_are_cut_from_what_is_wanted(numbers):
    parts = numbers.scan(filter="k in (1, 500, 9001)").splits("1 kb")
    found = [
        k for part in parts for batch in numbers.read_split(part) for k in batch["k"].to_pylist()
    ]
    assert sorted(found) == [1, 500, 9001]


def test_parts_of_a_key():
    schema = pa.schema({"a": pa.string(), "b": pa.date32(), "s": pa.string()})
    table = table_of(schema, ["a", "b"])
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=n) for n in range(100)]
    table.upsert([{"a": a, "b": b, "s": FILLER} for a in "pqrst" for b in days])
    text = "a in ('p', 't') and b in ('2024-01-01', '2024-04-09')"
    assert told(table, text, "blocks_read") == (4,)
    assert table.scan(filter=text).count() == 4
    either = "a = 'p' and b = '2024-01-01' or a = 't' and b > '2024-04-08'"
    assert told(table, either, "blocks_read") == (2,)
    assert table.scan(filter=either).count() == 2


KEYS = st.integers(-3, 12)
CONDITION = st.recursive(
    st.builds(
        "{} {} {}".format, st.sampled_from("ab"), st.sampled_from(["=", "<", ">", "!="]), KEYS
    )
    | st.builds(
        lambda column, values: f"{column} in ({', '.join(map(str, values))})",
        st.sampled_from("ab"),
        st.lists(KEYS, min_size=1, max_size=4),
    ),
    lambda part: (
        st.builds("({} and {})".format, part, part) | st.builds("({} or {})".format, part, part)
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def pairs():
    """Two columns of a key, every pair written twice in runs that overlap."""
    schema = pa.schema({"a": pa.int8(), "b": pa.float64(), "v": pa.int64(), "s": pa.string()})
    table = table_of(schema, ["a", "b"])
    for version in (1, 2):
        table.upsert(
            [
                {"a": a, "b": float(b), "v": version, "s": FILLER}
                for a in range(10)
                for b in range(10)
                if (a + b) % 3 or version == 1
            ]
        )
    return table


@settings(max_examples=60)
@given(text=CONDITION)
def test_any_condition_finds_what_a_look_at_every_row_does(pairs, text):
    rows = [(r["a"], r["b"], r["v"]) for r in pairs.scan(["a", "b", "v"]).to_arrow().to_pylist()]
    python = re.sub(r"in \((.*?)\)", r"in [\1]", text.replace(" = ", " == "))
    wanted = [row for row in rows if eval(python, {"a": row[0], "b": row[1]})]
    found = pairs.scan(["a", "b", "v"], text).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == wanted
