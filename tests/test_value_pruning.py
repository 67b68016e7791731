"""Statistics of values skip blocks where no merge can undo it, and never change an answer."""

import itertools
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import merging
from tests.searches import examples

SCHEMA = pa.schema({"k": pa.int64(), "a": pa.int32(), "b": pa.int32(), "s": pa.string()})
SMALL = {"file.block-size": "4 kb", "write-buffer-size": "1 mb", "bucket": 1}
_uris = (f"memory://value-pruning-{number}" for number in itertools.count(1))


def table_of(**options):
    names = {name.replace("_", "-"): value for name, value in options.items()}
    return lsmerge.create_table(next(_uris), SCHEMA, "k", options=SMALL | names)


def filler(key):
    return random.Random(key).randbytes(100).hex()


def rows(keys, a=None, b=None):
    return [
        {"k": k, "a": k if a is None else a, "b": k if b is None else b, "s": filler(k)}
        for k in keys
    ]


def read(table, text):
    explained = table.scan(filter=text).explain()
    return tuple(
        sum(bucket[what] for bucket in explained["buckets"]) for what in ("blocks", "blocks_read")
    )


def answer(table, text):
    return sorted(row["k"] for row in table.scan(filter=text).to_arrow().to_pylist())


def test_blocks_of_one_run_are_skipped_one_by_one():
    table = table_of()
    table.upsert(rows(range(1000)))
    blocks, left = read(table, "a = 500")
    assert blocks > 10
    assert left == 1
    assert answer(table, "a = 500") == [500]
    assert read(table, "a < 0")[1] == 0
    assert read(table, "a = 500 or b = 1")[1] == blocks
    assert read(table, "a > 100 and b < 50")[1] < blocks
    assert read(table, "a in (3, 500, 990)")[1] == 3, "what is between them is not read"
    assert answer(table, "a in (3, 500, 990)") == [3, 500, 990]
    assert read(table, "a < 5 or a > 995")[1] == 2


def test_an_overwritten_row_does_not_come_back(monkeypatch):
    """The old value lies in a block that passes, the new one in a block that does not."""
    monkeypatch.setattr(merging, "_window_rows", lambda _context, _blocks: 5)
    table = table_of()
    table.upsert(rows(range(1000)))
    table.upsert(rows([500], a=-1))
    assert answer(table, "a = 500") == []
    assert answer(table, "a = -1") == [500]
    blocks, left = read(table, "a < 0")
    assert 1 < left < blocks


def test_text_is_skipped_in_compacted_files():
    table = table_of()
    table.upsert(rows(range(1000)))
    table.compact(full=True)
    blocks, left = read(table, f"s = '{filler(7)}'")
    assert left <= blocks
    assert answer(table, f"s = '{filler(7)}'") == [7]


def test_all_nulls_satisfy_no_comparison():
    table = table_of()
    table.upsert([{"k": k, "a": None, "b": k, "s": filler(k)} for k in range(500)])
    assert read(table, "a < 5")[1] == 0
    assert read(table, "a is null")[1] > 1
    assert len(answer(table, "a is null")) == 500


def test_nulls_are_counted():
    table = table_of()
    table.upsert(
        [{"k": k, "a": k if k < 500 else None, "b": k, "s": filler(k)} for k in range(1000)]
    )
    blocks, with_null = read(table, "a is null")
    _, with_value = read(table, "a is not null")
    assert blocks > 10
    assert blocks <= with_null + with_value <= blocks + 1
    assert answer(table, "a is null") == list(range(500, 1000))
    assert answer(table, "a is not null") == list(range(500))
    assert read(table, "not a = 3")[1] == read(table, "a != 3")[1] == with_value
    assert read(table, "a is null or a < 10")[1] == with_null + 1
    assert read(table, "a is null and a = 3")[1] == 0
    assert read(table, "k is null")[1] == 0
    assert read(table, "b is null")[1] == 0


def test_files_of_a_time_before_a_column_have_nulls_only():
    table = table_of(write_only="true")
    table.upsert(rows(range(500)))
    table.alter(add={"new": pa.int64()})
    table.upsert([{"k": k, "a": k, "b": k, "s": filler(k), "new": k} for k in range(500, 1000)])
    blocks, left = read(table, "new is not null")
    assert 0 < left < blocks
    assert read(table, "new is null")[1] == blocks - left
    assert answer(table, "new >= 998") == [998, 999]


def test_an_engine_that_makes_nulls_is_read():
    """The row's sequence is null, so that its value does not count: null is shown, and was never stored."""
    table = table_of(merge_engine="partial-update", **{"fields.b.sequence-group": "a"})
    table.upsert([{"k": 1, "a": 5, "b": None, "s": None}])
    table.upsert([{"k": 1, "a": 6, "b": None, "s": None}])
    assert answer(table, "a is null") == [1]
    assert answer(table, "a is not null") == []


def test_clustered_nulls_are_together():
    table = lsmerge.create_table(next(_uris), SCHEMA, "k", options=SMALL | {"bucket": -1})
    table.upsert([{"k": k, "a": k if k % 2 else None, "b": k, "s": filler(k)} for k in range(1000)])
    before, read_before = read(table, "a is null")
    assert read_before == before
    table.sort_compact("a", buckets=4)
    after, left = read(table, "a is null")
    assert left <= after // 2 + 1
    assert read(table, "a is not null")[1] <= after // 2 + 1
    assert answer(table, "a is null") == list(range(0, 1000, 2))


def test_a_default_is_a_value():
    table = table_of(**{"fields.a.default-value": "7"})
    table.upsert([{"k": k, "a": None, "b": k, "s": filler(k)} for k in range(500)])
    assert len(answer(table, "a = 7")) == 500


def test_columns_that_are_combined_apart():
    """Each operand is excluded by another column; together they pass."""
    table = table_of(merge_engine="partial-update")
    table.upsert([{"k": 1, "a": 5, "b": None, "s": None}])
    table.upsert([{"k": 1, "a": None, "b": 6, "s": None}])
    assert answer(table, "a = 5 and b = 6") == [1]
    table.upsert([{"k": 1, "a": 9, "b": 9, "s": None}])
    assert answer(table, "a = 5 and b = 6") == []
    assert read(table, "a = 1000")[1] == 0


def test_sums_are_read_whatever_their_parts():
    table = table_of(merge_engine="aggregation", **{"fields.a.aggregate-function": "sum"})
    for _ in range(3):
        table.upsert([{"k": 1, "a": 5, "b": 1, "s": None}])
    assert answer(table, "a = 15") == [1]
    assert read(table, "b = 1000")[1] == 0


def test_statistics_of_columns_that_were_altered():
    table = table_of()
    table.upsert(rows(range(100)))
    table.alter(rename={"a": "b", "b": "a"}, widen={"a": pa.int64()}, drop=["s"])
    table.upsert([{"k": k, "a": k, "b": -k} for k in range(50, 150)])
    table.alter(add={"s": pa.int64()})
    table.upsert([{"k": 200, "a": 7, "b": 7, "s": 1}])
    assert answer(table, "b = 30") == [30]
    assert answer(table, "b = -60") == [60]
    assert answer(table, f"a = {2**40}") == []
    assert answer(table, "a = 120") == [120]
    assert answer(table, "s = 1") == [200]


ENGINES = {
    "deduplicate": {},
    "sequence": {"sequence.field": "b"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "sequence-group": {"merge-engine": "partial-update", "fields.b.sequence-group": "a"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "target-columns": {},
    "commit-time": {"record.merge.mode": "commit-time-ordering"},
    "event-time": {
        "record.merge.mode": "event-time-ordering",
        "record.merge.ordering-fields": "b",
    },
    "record-partial": {
        "record.merge.mode": "event-time-ordering",
        "record.merge.ordering-fields": "b",
        "record.merge.partial-mode": "ignore-defaults",
    },
    "custom": {"record.merge.mode": "custom", "record.merge.strategy-id": "value-pruning"},
}
DELETING = (
    *("deduplicate", "sequence", "target-columns", "commit-time", "event-time"),
    "sequence-group",
)


def orders(engine):
    """What stands in for a column that may not be null."""
    return 0 if "record.merge.ordering-fields" in ENGINES[engine] else None


class Adding:
    """Visible values that nobody stored."""

    def merge(self, older, newer):
        return newer.replace(a=(older["a"] or 0) + (newer["a"] or 0))


lsmerge.register_merger("value-pruning", Adding())
DRAFTS = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)
FILTERS = st.sampled_from(
    [
        *("a = 3", "a > 7", "a <= 2", "b in (1, 8)", "a = 3 and b > 4", "a < 2 or b > 8"),
        *("a is null", "a is not null", "b is null", "a != 3", "not a in (3, null)"),
        *("a is null or a = 3", "a is null or b > 8", "a is not null and b is null"),
        *("not (a is null or b = 1)", "a is null and a = 3"),
    ]
)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(6))
@given(
    commits=st.lists(DRAFTS, min_size=1, max_size=4),
    text=FILTERS,
    compacted=st.booleans(),
    budget=st.sampled_from(["8 kb", "256 mb"]),
)
def test_skipping_changes_no_answer(engine, commits, text, compacted, budget):
    """A pyarrow expression skips nothing, so it is the judge. A small budget merges in passes."""
    table = table_of(**ENGINES[engine], **{"scan.memory-budget": budget})
    for number, commit in enumerate(commits):
        kinds = ["-D" if gone and engine in DELETING else "+I" for *_, gone in commit]
        written = [
            {
                "k": k,
                "a": a,
                "b": orders(engine) if b is None else b,
                "s": filler(k),
                "_row_kind": kind,
            }
            for (k, a, b, _), kind in zip(commit, kinds, strict=True)
        ]
        if engine == "target-columns" and number % 3:
            other = "ab"[number % 2]
            written = [{n: row[n] for n in ("k", other, "_row_kind")} for row in written]
            table.write(written, columns=["k", other])
        else:
            table.write(written)
    if compacted:
        table.compact(full=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: 3)
        scan = table.scan(filter=text)
        expected = table.scan(filter=scan.predicate.to_arrow_expression()).to_arrow()
        assert scan.to_arrow().to_pylist() == expected.to_pylist()
