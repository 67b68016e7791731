"""What does not fit is refused with a typed error that names names, and leaves no trace."""

import datetime
import decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int32(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.decimal128(6, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("count", pa.int16(), nullable=False),
    ]
)
GOOD = {"k": 1, "name": "a", "amount": decimal.Decimal("1.50"), "at": None, "count": 7}


@pytest.fixture
def location(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(location):
    table = lsmerge.create_table(str(location), SCHEMA, ["k"])
    table.write([GOOD])
    return table


def files_of(location: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(location.rglob("*")) if p.is_file()}


def column(name: str, values: list[object], type_: pa.DataType) -> pa.Table:
    """Good rows, but for one column."""
    good = pa.Table.from_pylist([GOOD | {"k": i} for i in range(len(values))], schema=SCHEMA)
    return good.set_column(SCHEMA.names.index(name), name, pa.array(values, type_))


NAIVE = datetime.datetime(2024, 1, 1)

REFUSED_ROWS = {
    "text for a number": (column("count", ["x"], pa.string()), ["count"]),
    "number too large": (column("count", [1, 70_000], pa.int64()), ["count", "70000"]),
    "fraction for an integer": (column("count", [1.5], pa.float64()), ["count", "double"]),
    "inexact decimal": (
        column("amount", [decimal.Decimal("1.234")], pa.decimal128(8, 3)),
        ["amount", "1.234"],
    ),
    "decimal too large": (
        column("amount", [decimal.Decimal("123456.00")], pa.decimal128(10, 2)),
        ["amount", "123456"],
    ),
    "timestamp without a zone": (column("at", [NAIVE], pa.timestamp("us")), ["at"]),
    "timestamp too fine": (column("at", [1], pa.timestamp("ns", "UTC")), ["at"]),
    "list for a text": (column("name", [["a"]], pa.list_(pa.string())), ["name"]),
    "null key": (column("k", [1, None], pa.int32()), ["k", "row 1"]),
    "null where none may be": (column("count", [1, 2, None], pa.int16()), ["count", "row 2"]),
    "unknown column": ([GOOD | {"nmae": "x"}], ["nmae", "name"]),
    "missing key": ([{"name": "x", "count": 1}], ["k"]),
    "missing not-null column": ([{"k": 1, "name": "x"}], ["count"]),
    "unknown row kind": ([GOOD | {"_row_kind": "+X"}], ["_row_kind", "+X", "+I"]),
    "null row kind": ([GOOD | {"_row_kind": None}, GOOD | {"_row_kind": "+I"}], ["_row_kind"]),
    "row kind as a fraction": ([GOOD | {"_row_kind": 0.5}], ["_row_kind"]),
    "not tabular": (42, ["int"]),
    "list of numbers": ([1, 2], ["int"]),
}


@pytest.mark.parametrize("case", REFUSED_ROWS)
def test_a_refused_commit_leaves_no_trace(table, location, case):
    data, words = REFUSED_ROWS[case]
    before = files_of(location)
    with pytest.raises(lsmerge.SchemaMismatchError) as refusal:
        table.write(data)
    assert [word for word in words if word not in str(refusal.value)] == []
    assert files_of(location) == before
    assert table.scan().to_arrow().to_pylist() == [GOOD]


def test_a_batch_refused_by_a_writer_takes_the_whole_commit_along(table, location):
    def write() -> None:
        with table.writer() as writer:
            writer.write([GOOD | {"k": 2}])
            writer.write([GOOD | {"k": None}])

    with pytest.raises(lsmerge.SchemaMismatchError, match="k"):
        write()
    assert table.latest_snapshot().id == 1
    assert table.scan().to_arrow().to_pylist() == [GOOD]


def test_a_closed_writer_takes_nothing_more(table):
    with table.writer() as writer:
        writer.write([GOOD | {"k": 2}])
    with pytest.raises(lsmerge.TableClosedError):
        writer.write([GOOD | {"k": 3}])
    assert table.scan().count() == 2


def test_text_with_offsets_that_lead_outside_is_refused(table):
    """Ends where its data ends, so that only a full validation sees the excursion in between."""
    offsets = pa.py_buffer(b"".join(i.to_bytes(4, "little") for i in (0, 1000, 3)))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    good = pa.Table.from_pylist([GOOD, GOOD | {"k": 2}], schema=SCHEMA)
    with pytest.raises(lsmerge.SchemaMismatchError, match="name"):
        table.write(good.set_column(1, "name", broken))


def test_text_that_is_not_utf8_is_refused(table):
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    good = pa.Table.from_pylist([GOOD], schema=SCHEMA)
    with pytest.raises(lsmerge.SchemaMismatchError, match="name"):
        table.write(good.set_column(1, "name", broken))


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ({"k": None}, "k"),
        ({"k": "text"}, "text"),
        ({"name": "a"}, "k"),
        ({"k": 2**40}, str(2**40)),
        ({"k": 1, "other": 2}, "other"),
    ],
)
def test_a_key_that_cannot_be_is_refused(table, key, word):
    with pytest.raises(lsmerge.SchemaMismatchError, match=word):
        table.get(key)
    with pytest.raises(lsmerge.SchemaMismatchError, match=word):
        table.get_many([key])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"merge-engin": "deduplicate"}, ["merge-engin", "merge-engine"]),
        ({"merge-engine": "best"}, ["merge-engine", "best", "deduplicate"]),
        ({"bucket": "0"}, ["bucket", "0"]),
        ({"bucket": "two"}, ["bucket", "two"]),
        ({"write-buffer-size": "-1 mb"}, ["write-buffer-size", "-1 mb"]),
        ({"sequence.field": "nope"}, ["sequence.field", "nope"]),
        ({"sequence.field": "name,name"}, ["sequence.field", "name"]),
        ({"file.format": "csv"}, ["file.format", "csv", "parquet"]),
        ({"consumer-id": "me"}, ["consumer-id", "me", "changelog(consumer="]),
    ],
)
def test_an_option_that_cannot_be_is_refused(location, options, words):
    with pytest.raises(lsmerge.InvalidOptionError) as refusal:
        lsmerge.create_table(str(location), SCHEMA, ["k"], options=options)
    assert [word for word in words if word not in str(refusal.value)] == []
    assert not location.exists()


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        ([("k", pa.int64())], [], ["primary key"]),
        ([("k", pa.int64())], ["x"], ["x", "k"]),
        ([("k", pa.int64()), ("k", pa.int64())], ["k"], ["k"]),
        ([("k", pa.int64()), ("K", pa.int64())], ["k"], ["K"]),
        ([("k", pa.list_(pa.int64()))], ["k"], ["k"]),
        ([("k", pa.int64()), ("_SEQUENCE_NUMBER", pa.int64())], ["k"], ["_SEQUENCE_NUMBER"]),
        ([("k", pa.int64()), ("_row_kind", pa.string())], ["k"], ["_row_kind"]),
        ([("k", pa.int64()), ("u", pa.uint64())], ["k"], ["u", "uint64"]),
        ([("k", pa.int64()), ("d", pa.duration("s"))], ["k"], ["d", "duration"]),
    ],
)
def test_a_schema_that_cannot_be_is_refused(location, fields, key, words):
    with pytest.raises(lsmerge.SchemaMismatchError) as refusal:
        lsmerge.create_table(str(location), pa.schema(fields), key)
    assert [word for word in words if word not in str(refusal.value)] == []
    assert not location.exists()


def test_a_place_without_a_table_is_named(location):
    with pytest.raises(lsmerge.TableNotFoundError, match="table"):
        lsmerge.open_table(str(location))
    assert not location.exists()


def test_a_foreign_directory_is_not_a_table(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(lsmerge.TableNotFoundError):
        lsmerge.open_table(str(tmp_path))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_table_is_not_created_twice(table, location):
    with pytest.raises(lsmerge.TableExistsError, match="table"):
        lsmerge.create_table(str(location), SCHEMA, ["k"])
    again = lsmerge.create_table(str(location), SCHEMA, ["k"], exist_ok=True)
    assert again.scan().to_arrow().to_pylist() == [GOOD]


def test_an_existing_table_with_another_schema_is_not_taken_for_it(table, location):
    other = pa.schema([pa.field("k", pa.string(), nullable=False)])
    with pytest.raises((lsmerge.TableExistsError, lsmerge.SchemaMismatchError)):
        lsmerge.create_table(str(location), other, ["k"], exist_ok=True)


def only(location: Path, pattern: str) -> Path:
    (found,) = location.glob(pattern)
    return found


KINDS_OF_FILES = {
    "run": "bucket-0/data-*",
    "manifest": "manifest/manifest-*",
    "snapshot": "snapshot/snapshot-1.json",
    "schema": "schema/schema-0.json",
}
DAMAGES = {
    "empty": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "one byte long": lambda content: content + b"\0",
    "foreign": lambda content: b"PK\x03\x04 this is something else" * 100,
    "zeroed": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_a_damaged_file_is_named(table, location, kind, damage):
    path = only(location, KINDS_OF_FILES[kind])
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises((lsmerge.CorruptFileError, lsmerge.UnsupportedFormatError), match=path.name):
        lsmerge.open_table(str(location)).scan().to_arrow()


@pytest.mark.parametrize("kind", ["run", "manifest"])
def test_a_missing_file_is_named(table, location, kind):
    path = only(location, KINDS_OF_FILES[kind])
    path.unlink()
    with pytest.raises(lsmerge.LsmergeError, match=path.name):
        lsmerge.open_table(str(location)).scan().to_arrow()


def test_a_file_of_another_table_is_not_taken(table, location, tmp_path):
    other = tmp_path / "other"
    lsmerge.create_table(str(other), SCHEMA, ["k"]).write([GOOD])
    path = only(location, KINDS_OF_FILES["run"])
    path.write_bytes(only(other, KINDS_OF_FILES["run"]).read_bytes())
    with pytest.raises(lsmerge.CorruptFileError, match=path.name):
        lsmerge.open_table(str(location)).scan().to_arrow()


@pytest.mark.parametrize("snapshot", [0, 2, -1])
def test_an_unknown_snapshot_is_named(table, snapshot):
    with pytest.raises(lsmerge.SnapshotNotFoundError, match=str(snapshot)):
        table.scan(snapshot=snapshot).to_arrow()


@pytest.mark.parametrize(
    ("condition", "word"),
    [("nope = 1", "nope"), ("k = 'x'", "x"), ("k >", "k >"), ("k = 1 and", "and"), ("", "")],
)
def test_a_filter_that_cannot_be_is_refused(table, condition, word):
    with pytest.raises(lsmerge.InvalidFilterError) as refusal:
        table.scan(filter=condition).to_arrow()
    assert word in str(refusal.value)


def test_an_unknown_column_of_a_scan_is_named(table):
    with pytest.raises(lsmerge.SchemaMismatchError, match=r"nmae.*name"):
        table.scan(columns=["k", "nmae"]).to_arrow()
