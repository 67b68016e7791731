"""Schema evolution: what changes, what is refused, and that no row is ever read differently for it."""

from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.evolution import SchemaChange, evolve
from lsmerge.meta import schema_store
from lsmerge.schema import TableSchema
from lsmerge.type_parser import parse
from lsmerge.widening import is_wider

SCHEMA = pa.schema(
    [
        pa.field("p", pa.string()),
        pa.field("k", pa.int64()),
        pa.field("v", pa.string(), nullable=False),
        pa.field("n", pa.int32()),
        pa.field("d", pa.decimal128(6, 2)),
    ]
)


def new_table(uri: str, **options: object) -> lsmerge.Table:
    table = lsmerge.create_table(uri, SCHEMA, ["p", "k"], partition_by="p", options=options)
    table.upsert([row(1), row(2)])
    return table


def row(k: int, **values: object) -> dict[str, object]:
    return {"p": "a", "k": k, "v": f"v{k}", "n": k, "d": None, **values}


def rows(scan: "lsmerge.engine.read.Scan") -> list[dict[str, object]]:
    return sorted(scan.to_arrow().to_pylist(), key=lambda r: r["k"])


# ------------------------------------------------------------------------------------------ what changes


def test_added_columns_are_null_in_old_rows(memory_uri):
    table = new_table(memory_uri)
    table.alter(add={"c": pa.int16(), "t": "VARCHAR(3)", "f": pa.field("x", pa.float32())})
    table.upsert([row(2, c=7, t="abc", f=1.5)])
    assert [(r["k"], r["c"], r["t"], r["f"]) for r in rows(table.scan())] == [
        (1, None, None, None),
        (2, 7, "abc", 1.5),
    ]
    assert table.schema.names == ["p", "k", "v", "n", "d", "c", "t", "f"]
    with pytest.raises(lsmerge.SchemaMismatchError, match="VARCHAR"):
        table.upsert([row(2, c=7, t="abcd", f=1.5)])


def test_a_dropped_column_does_not_come_back_under_its_name(memory_uri):
    table = new_table(memory_uri)
    table.alter(drop=["n"])
    table.alter(add={"n": pa.int32()})
    assert [r["n"] for r in rows(table.scan())] == [None, None]
    assert table.get(("a", 1))["n"] is None
    assert [r["n"] for r in rows(table.scan(snapshot=1))] == [1, 2]


def test_names_may_be_exchanged(memory_uri):
    table = new_table(memory_uri)
    assert table.get(("a", 1))["v"] == "v1"  # decoded blocks are kept by name
    table.alter(rename={"v": "n", "n": "v"})
    assert [(r["v"], r["n"]) for r in rows(table.scan())] == [(1, "v1"), (2, "v2")]
    assert (table.get(("a", 1))["v"], table.get(("a", 1))["n"]) == (1, "v1")
    assert table.get(("a", 1), snapshot=1)["v"] == "v1"


def test_widened_columns_hold_what_they_could_not(memory_uri):
    table = new_table(memory_uri)
    table.upsert([row(3, d=Decimal("1234.50"))])
    table.alter(widen={"n": pa.int64(), "d": "DECIMAL(12,4)"})
    table.upsert([row(1, n=2**40)])
    assert [r["n"] for r in rows(table.scan(filter="n > 2"))] == [2**40, 3]
    table.compact(full=True)
    assert [r["n"] for r in rows(table.scan())] == [2**40, 2, 3]
    assert table.get(("a", 3))["d"] == Decimal("1234.5000")


def test_columns_move(memory_uri):
    table = new_table(memory_uri)
    table.alter(add={"c": pa.int32()}, move={"c": "after:k", "d": "first"})
    assert table.schema.names == ["d", "p", "k", "c", "v", "n"]
    assert rows(table.scan())[0] == {"d": None, "p": "a", "k": 1, "c": None, "v": "v1", "n": 1}


def test_comments_and_nullability(memory_uri):
    table = new_table(memory_uri)
    with pytest.raises(lsmerge.SchemaMismatchError, match="'v'"):
        table.upsert([row(1, v=None)])
    table.alter(nullable=["v"], comments={"v": "what it says", "k": "the key"})
    table.upsert([row(1, v=None)])
    assert table.schema.field("v").nullable
    assert table.schema.field("v").metadata[b"comment"] == b"what it says"
    table.alter(comments={"v": None})
    assert b"comment" not in table.schema.field("v").metadata


def test_options_are_set_and_reset(memory_uri):
    table = new_table(memory_uri, **{"target-file-size": "1 mb"})
    table.alter(options={"snapshot.num-retained.max": 2}, reset=["target-file-size"])
    assert table.options == {"snapshot.num-retained.max": "2"}
    for k in range(4):
        table.upsert([row(k)])
    assert len(table.snapshots()) == 2


def test_a_new_column_may_bring_options_of_its_own(memory_uri):
    table = new_table(memory_uri, **{"merge-engine": "aggregation"})
    table.alter(
        add={"total": pa.int64()},
        options={"fields.total.aggregate-function": "sum", "fields.total.default-value": "0"},
    )
    table.upsert([row(1, total=5)])
    table.upsert([row(1, total=6)])
    assert [r["total"] for r in rows(table.scan())] == [11, 0]


def test_options_follow_a_renamed_column(memory_uri):
    table = new_table(
        memory_uri,
        **{
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "sequence.field": "d",
        },
    )
    table.alter(rename={"n": "total", "d": "seq"}, widen={"n": "BIGINT"})
    assert table.options["fields.total.aggregate-function"] == "sum"
    assert table.options["sequence.field"] == "seq"
    table.upsert([{"p": "a", "k": 1, "v": "x", "total": 2**33, "seq": None}])
    assert table.get(("a", 1))["total"] == 2**33 + 1


def test_asking_for_what_is_there_makes_no_schema(memory_uri):
    table = new_table(memory_uri)
    table.alter(widen={"n": pa.int32()}, nullable=["n"], rename={"n": "n"})
    assert table._context.schema.id == 0


# ------------------------------------------------------------------------------------------ snapshots


def test_older_snapshots_are_read_with_their_own_columns(memory_uri):
    table = new_table(memory_uri)
    table.create_tag("first")
    table.alter(add={"c": pa.int32()}, drop=["d"], rename={"v": "w"})
    table.upsert([{"p": "a", "k": 3, "w": "v3", "n": 3, "c": 9}])
    old = [row(1), row(2)]
    assert rows(table.scan(snapshot=1)) == rows(table.scan(tag="first")) == old
    assert rows(table.scan(snapshot=1, filter="v = 'v2'", columns=["k", "v"])) == [
        {"k": 2, "v": "v2"}
    ]
    with pytest.raises(lsmerge.SchemaMismatchError, match="'w'"):
        table.scan(snapshot=1, columns=["w"])
    assert table.scan(snapshot=2).schema.names == ["p", "k", "w", "n", "c"]
    table.rollback_to(1)
    assert rows(table.scan()) == [
        {"p": "a", "k": 1, "w": "v1", "n": 1, "c": None},
        {"p": "a", "k": 2, "w": "v2", "n": 2, "c": None},
    ]


def test_the_changelog_has_the_columns_of_today(memory_uri):
    table = new_table(memory_uri)
    table.alter(rename={"v": "w"}, drop=["n"])
    (batch,) = table.changelog()
    assert batch.schema.names[1:5] == ["p", "k", "w", "d"]
    assert batch["w"].to_pylist() == ["v1", "v2"]


# ------------------------------------------------------------------------------------------ several at once


def test_an_open_table_sees_the_new_schema_at_its_next_use(memory_uri):
    table = new_table(memory_uri)
    other = lsmerge.open_table(memory_uri)
    other.alter(rename={"v": "w"}, add={"c": pa.int32()})
    assert rows(table.scan())[0]["w"] == "v1"
    table.upsert([{"p": "a", "k": 1, "w": "x", "n": 0, "d": None, "c": 1}])
    assert table.schema.names == other.schema.names
    assert other.get(("a", 1))["c"] == 1


def test_rows_written_under_the_old_schema_count(memory_uri):
    table = new_table(memory_uri)
    with table.writer() as writer:
        writer.write([row(1, n=10), row(3)])
        lsmerge.open_table(memory_uri).alter(
            add={"c": pa.int32()}, rename={"n": "m"}, widen={"n": "BIGINT"}, drop=["d"]
        )
        table.upsert([{"p": "a", "k": 4, "v": "x", "m": 2**40, "c": 5}])
    assert [(r["k"], r["m"], r["c"]) for r in rows(table.scan())] == [
        (1, 10, None),
        (2, 2, None),
        (3, 3, None),
        (4, 2**40, 5),
    ]
    assert table.scan(snapshot=3).schema.names == ["p", "k", "v", "m", "c"]


def test_a_compaction_under_the_old_schema_loses_no_column(memory_uri):
    from lsmerge.engine import compact

    table = new_table(memory_uri)
    stale = lsmerge.open_table(memory_uri)._context
    table.alter(add={"c": pa.int32()})
    table.upsert([row(1, c=7)])
    with pytest.raises(lsmerge.CommitConflictError, match="altered meanwhile"):
        compact.compact(stale, full=True)
    assert table.get(("a", 1))["c"] == 7
    table.compact(full=True)
    assert table.get(("a", 1))["c"] == 7
    assert table.remove_orphan_files(older_than=10**14).files == ()


def test_changes_that_race_are_both_made(memory_uri, monkeypatch):
    table = new_table(memory_uri)
    other = lsmerge.open_table(memory_uri)
    publish = schema_store.publish_schema
    raced = []

    def racing(store, schema):
        if not raced:
            raced.append(schema.id)
            other.alter(add={"theirs": pa.int32()})
        return publish(store, schema)

    monkeypatch.setattr(schema_store, "publish_schema", racing)
    table.alter(add={"ours": pa.int32()})
    assert table.schema.names[-2:] == ["theirs", "ours"]
    ids = [column.id for column in table._context.schema.columns]
    assert len(set(ids)) == len(ids)
    assert lsmerge.open_table(memory_uri).schema == table.schema


# ------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"drop": ["k"]}, "'k' cannot be dropped: it is a primary key column"),
        ({"drop": ["p"]}, "'p' cannot be dropped: it is a partition column"),
        ({"rename": {"k": "key"}}, "'k' cannot be renamed"),
        ({"widen": {"k": "BIGINT"}}, "'k' cannot be widened"),
        ({"drop": ["s"]}, "option 'sequence.field' = 's'"),
        ({"drop": ["total"]}, "option 'fields.total.aggregate-function' = 'sum'"),
        ({"drop": ["x"]}, "unknown column 'x'"),
        ({"drop": ["v"], "rename": {"v": "w"}}, "dropped and changed at once"),
        ({"drop": "v"}, "give a list of names"),
        ({"rename": {"v": "total"}}, "appears twice"),
        ({"rename": {"v": "TOTAL"}}, "differ in more than case"),
        ({"rename": {"v": "_row_kind"}}, "reserved"),
        ({"rename": {"v": ""}}, "empty"),
        ({"rename": {"v": 5}}, "give text"),
        ({"add": {"v": pa.int32()}}, "appears twice"),
        ({"add": {"_SEQUENCE_NUMBER": pa.int32()}}, "reserved"),
        ({"add": {"c": pa.field("c", pa.int32(), nullable=False)}}, "NOT NULL"),
        ({"add": {"c": pa.uint8()}}, "column 'c'"),
        ({"add": {"c": "INTEGERS"}}, "column 'c'"),
        ({"add": {"c": 5}}, "give a pyarrow type"),
        ({"add": ["c"]}, "give a mapping"),
        ({"widen": {"total": "INT"}}, "from BIGINT to INT"),
        ({"widen": {"v": "VARCHAR(9)"}}, "from STRING to VARCHAR"),
        ({"widen": {"total": "DOUBLE"}}, "accepted: a larger integer"),
        ({"nullable": ["k"]}, "never null"),
        ({"move": {"v": "last"}}, "give 'first'"),
        ({"move": {"v": "after:x"}}, "unknown column 'x'"),
        ({"comments": {"x": "y"}}, "unknown column 'x'"),
        ({"options": {"bucket": 5}}, "'bucket' is fixed"),
        ({"options": {"fields.v.aggregate-function": "max"}}, "is fixed"),
        ({"options": {"target-file-size": "many"}}, "target-file-size"),
        ({"options": {"num-levels": 2, "file.format.per.level": "5:arrow"}}, "level 5"),
        ({"reset": ["merge-engine"]}, "is fixed"),
        ({"reset": ["target-size"]}, "did you mean"),
    ],
)
def test_what_is_refused(memory_uri, change, reason):
    schema = pa.schema(
        {"p": pa.string(), "k": pa.int32(), "v": pa.string(), "s": pa.int32(), "total": pa.int64()}
    )
    options = {
        "merge-engine": "aggregation",
        "sequence.field": "s",
        "fields.total.aggregate-function": "sum",
    }
    table = lsmerge.create_table(memory_uri, schema, ["p", "k"], partition_by="p", options=options)
    with pytest.raises((lsmerge.SchemaMismatchError, lsmerge.InvalidOptionError)) as refusal:
        table.alter(**change)
    assert reason in str(refusal.value)
    assert lsmerge.open_table(memory_uri).schema == table.schema
    assert table._context.schema.id == 0


@pytest.mark.parametrize(
    ("old", "new", "wider"),
    [
        ("INT", "BIGINT", True),
        ("TINYINT", "INT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("DECIMAL(6,2)", "DECIMAL(8,2)", True),
        ("DECIMAL(6,2)", "DECIMAL(8,4)", True),
        ("DECIMAL(6,2)", "DECIMAL(7,4)", False),
        ("DECIMAL(6,2)", "DECIMAL(8,1)", False),
        ("VARCHAR(5)", "VARCHAR(9)", True),
        ("VARCHAR(5)", "STRING", True),
        ("CHAR(5)", "VARCHAR(5)", True),
        ("VARCHAR(5)", "CHAR(9)", False),
        ("STRING", "VARCHAR(9)", False),
        ("BINARY(4)", "BYTES", True),
        ("BINARY(4)", "BINARY(8)", False),
        ("VARBINARY(4)", "VARBINARY(3)", False),
        ("TIMESTAMP(4)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False),
        ("DATE", "TIMESTAMP(3)", False),
        ("BOOLEAN", "INT", False),
        ("ARRAY<INT>", "ARRAY<BIGINT>", False),
    ],
)
def test_which_types_are_wider(old, new, wider):
    assert is_wider(parse(old), parse(new)) is wider


def test_values_survive_every_widening(memory_uri):
    schema = pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("f", pa.float32()),
            pa.field("d", pa.decimal128(6, 2)),
            lsmerge.arrow_field("c", "CHAR(2)"),
            lsmerge.arrow_field("b", "BINARY(2)"),
            lsmerge.arrow_field("t", "TIMESTAMP(4)"),
        ]
    )
    for level in ("arrow", "parquet"):
        uri = f"{memory_uri}/{level}"
        table = lsmerge.create_table(uri, schema, "k", options={"file.format": level})
        table.upsert({"k": [1], "f": [0.5], "d": [None], "c": ["ab"], "b": [b"xy"], "t": [None]})
        table.alter(
            widen={
                "f": "DOUBLE",
                "d": "DECIMAL(38,4)",
                "c": "STRING",
                "b": "BYTES",
                "t": "TIMESTAMP(6)",
            }
        )
        assert table.get(1) == {"k": 1, "f": 0.5, "d": None, "c": "ab", "b": b"xy", "t": None}
        table.upsert({"k": [2], "f": [1e300], "d": [None], "c": ["abc"], "b": [b"x"], "t": [None]})
        table.compact(full=True)
        assert table.scan(columns=["c"]).to_arrow()["c"].to_pylist() == ["ab", "abc"]


def test_ids_are_never_given_twice():
    schema = TableSchema.from_arrow(SCHEMA, ["p", "k"], ["p"])
    for _ in range(3):
        schema = evolve(schema, SchemaChange(drop=[schema.columns[-1].name], add={"x": "INT"}))
    assert schema.columns[-1].id == 8
    assert schema.id == 3
