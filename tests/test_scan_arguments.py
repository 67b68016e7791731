"""What `scan` and `changelog` are asked for is checked when they are called, not at the first row."""

import decimal
import inspect

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lsmerge

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string(), "d": pa.decimal128(5, 2)})
ROWS = [{"k": k, "v": "ab"[k % 2], "d": decimal.Decimal(k)} for k in range(4)]


@pytest.fixture
def table(memory_uri):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    table.upsert(ROWS[:2])
    table.upsert(ROWS[2:])
    return table


def keys(scan) -> list[int]:
    return sorted(scan.to_arrow()["k"].to_pylist())


# -------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    "condition",
    [
        5,
        True,
        b"k = 1",
        {"k": 1},
        pa.array([True]),
        lambda row: True,
        pc.field("nope") > 1,
        pc.field("k"),
        pc.field("k") + 1,
        pc.field("v") > 1,
        pc.field("v", "inner") == 1,
        pc.scalar(None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_filter_that_cannot_be_is_refused_at_once(table, condition):
    with pytest.raises(lsmerge.InvalidFilterError) as refusal:
        table.scan(filter=condition)
    assert "\n" not in str(refusal.value)
    named = str(condition) if isinstance(condition, pc.Expression) else repr(condition)
    assert named.splitlines()[0] in str(refusal.value)


def test_an_expression_that_fails_on_a_row_is_an_invalid_filter(table):
    scan = table.scan(filter=pc.field("k") / (pc.field("k") - 1) > 0)
    with pytest.raises(lsmerge.InvalidFilterError, match="divide by zero"):
        scan.to_arrow()


def test_expressions_select(table):
    assert keys(table.scan(filter=pc.field("k") > 1)) == [2, 3]
    assert keys(table.scan(columns=["k"], filter=pc.field("v") == "a")) == [0, 2]
    assert table.scan(filter=pc.field("d") >= decimal.Decimal(3)).count() == 1
    assert keys(table.scan(filter=pc.scalar(True))) == [0, 1, 2, 3]


# ---------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("limit", ["1", 1.0, True, -1, [1]])
def test_a_limit_is_a_whole_number(table, limit):
    with pytest.raises(lsmerge.InvalidFilterError) as refusal:
        table.scan(limit=limit)
    assert f"limit = {limit!r}" in str(refusal.value)


@pytest.mark.parametrize(("limit", "rows"), [(0, 0), (1, 1), (4, 4), (10**30, 4)])
def test_a_limit_limits(table, limit, rows):
    assert table.scan(limit=limit).to_arrow().num_rows == rows
    assert table.scan(limit=limit).count() == rows


# --------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["k", "k"], ["'k'", "twice"]),
        ("k", ["'k'", "['k']"]),
        ("kv", ["'kv'", "list"]),
        ([], ["count()"]),
        ((), ["count()"]),
        ([5], ["5"]),
        ([["k"]], ["['k']"]),
        ([None], ["None"]),
        (5, ["5", "list"]),
        (["K"], ["'K'", "did you mean 'k'?"]),
    ],
)
def test_columns_are_a_list_of_names_each_once(table, columns, words):
    with pytest.raises(lsmerge.SchemaMismatchError) as refusal:
        table.scan(columns=columns)
    assert [word for word in words if word not in str(refusal.value)] == []


@pytest.mark.parametrize("columns", [["v", "k"], ("v", "k"), (name for name in "vk")])
def test_columns_come_in_the_order_asked(table, columns):
    scan = table.scan(columns=columns)
    assert scan.schema.names == ["v", "k"]
    assert scan.to_arrow().schema.names == ["v", "k"]


def test_only_columns_and_filter_go_by_position():
    parameters = inspect.signature(lsmerge.Table.scan).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["self", "columns", "filter"]


# ------------------------------------------------------------------------------------------ repr


def test_a_scan_shows_what_was_asked_for(table):
    uri = table.uri
    assert repr(table.scan()) == f"Scan({uri!r}, snapshot=2, columns=['k', 'v', 'd'])"
    assert (
        repr(table.scan(["v"], "k > 1", limit=3, snapshot=1))
        == f"Scan({uri!r}, snapshot=1, columns=['v'], filter=(k > 1), limit=3)"
    )
    assert "filter=(k > 1)" in repr(table.scan(filter=pc.field("k") > 1))


def test_a_scan_of_a_table_without_commits_shows_so(memory_uri):
    scan = lsmerge.create_table(memory_uri, SCHEMA, "k").scan(["k"])
    assert repr(scan) == f"Scan({memory_uri!r}, snapshot=None, columns=['k'])"


def test_scans_with_expressions_can_be_compared(table):
    scan = table.scan(filter=pc.field("k") > 1)
    assert scan == scan
    assert scan != table.scan(filter=pc.field("k") > 1)


# -------------------------------------------------------------------------------------- changelog


@pytest.mark.parametrize("number", ["x", "1", 1.0, True, [1]])
@pytest.mark.parametrize("end", ["start", "end"])
def test_the_ends_of_a_changelog_are_numbers(table, end, number):
    with pytest.raises(lsmerge.SnapshotNotFoundError) as refusal:
        table.changelog(**{end: number})
    assert f"{end} = {number!r}" in str(refusal.value)


@pytest.mark.parametrize("start", [0, -1])
def test_a_changelog_that_starts_before_the_first_snapshot_is_refused_at_once(table, start):
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="numbered from 1"):
        table.changelog(start)


def test_a_changelog_that_starts_at_an_expired_snapshot_is_refused_at_once(tmp_path):
    table = lsmerge.create_table(tmp_path, SCHEMA, "k")
    table.upsert(ROWS[:2])
    table.upsert(ROWS[2:])
    (tmp_path / "snapshot/snapshot-1.json").unlink()
    with pytest.raises(lsmerge.SnapshotNotFoundError, match="the earliest one left is 2"):
        table.changelog()


def test_a_changelog_gives_the_snapshots_asked_for(table):
    def ids(*ends: int) -> list[int]:
        batches = table.changelog(*ends)
        return [id_ for batch in batches for id_ in batch["_snapshot_id"].unique().to_pylist()]

    assert ids() == [1, 2]
    assert ids(2) == [2]
    assert ids(1, 1) == [1]
    assert ids(2, 1) == []
    assert ids(3) == [], "nothing yet: the next one to come"


def test_a_changelog_of_a_table_without_commits_is_empty(memory_uri):
    assert list(lsmerge.create_table(memory_uri, SCHEMA, "k").changelog()) == []
