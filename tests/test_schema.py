"""Table schema: columns, keys, their rules, and the three Arrow views."""

import json

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN
from lsmerge.schema import TableSchema, arrow_field

FIELDS = pa.schema(
    [
        pa.field("p", pa.string()),
        pa.field("k", pa.int64()),
        pa.field("v", pa.float64(), False),
        arrow_field("name", "VARCHAR(5)", comment="who"),
        pa.field("tags", pa.large_list(pa.large_string())),
    ]
)


def make(schema=FIELDS, primary_key=("p", "k"), partition_by=("p",), options=None):
    return TableSchema.from_arrow(schema, primary_key, partition_by, options)


def test_columns_get_ids_in_order_and_key_columns_become_not_null():
    schema = make()
    assert [column.id for column in schema.columns] == [1, 2, 3, 4, 5]
    assert schema.next_column_id == 6
    assert [column.nullable for column in schema.columns] == [False, False, False, True, True]
    assert schema.trimmed_key == ("k",)
    assert schema.trimmed_key == ("k",)


def test_arrow_views_differ_only_in_nulls_and_system_columns():
    schema = make()
    assert schema.arrow_schema.field("tags").type == pa.list_(pa.string())
    assert not schema.arrow_schema.field("v").nullable
    assert schema.row_schema.field("v").nullable
    assert not schema.row_schema.field("k").nullable
    assert schema.file_schema.names == [SEQUENCE_COLUMN, KIND_COLUMN, *schema.column_names]
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema.file_schema]
    assert ids == [2147483646, 2147483645, 1, 2, 3, 4, 5]


def test_type_and_comment_travel_in_metadata():
    again = make(make().arrow_schema)
    assert str(again.column("name").type) == "VARCHAR(5)"
    assert again.column("name").comment == "who"


def test_metadata_of_a_column_cast_since_is_not_believed():
    field = make().arrow_schema.field("name").with_type(pa.binary())
    schema = TableSchema.from_arrow(pa.schema([("k", pa.int8()), field]), "k")
    assert str(schema.column("name").type) == "BYTES"


def test_json_round_trip():
    schema = make(options={"bucket": "4"})
    assert TableSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


@pytest.mark.parametrize("broken", [{}, {"columns": 3}, None, {"columns": [{}]}])
def test_malformed_json_is_refused(broken):
    plain = broken and {**make().to_json(), **broken}
    with pytest.raises(SchemaMismatchError):
        TableSchema.from_json(plain if broken else {})


def test_any_object_with_an_arrow_schema_will_do():
    class Foreign:
        def __arrow_c_schema__(self):
            return FIELDS.__arrow_c_schema__()

    assert make(Foreign()) == make()


@pytest.mark.parametrize(
    ("fields", "primary_key", "partition_by", "named"),
    [
        ([("k", pa.int8())], [], [], "primary key"),
        ([("k", pa.int8())], ["kk"], [], "did you mean 'k'"),
        ([("k", pa.int8())], ["k", "k"], [], "twice"),
        ([("k", pa.int8()), ("K", pa.int8())], ["k"], [], "'K'"),
        ([("k", pa.int8()), ("k", pa.int8())], ["k"], [], "'k'"),
        ([("k", pa.int8()), ("_ROW_KIND", pa.int8())], ["k"], [], "reserved"),
        ([("k", pa.int8()), ("_sequence_number", pa.int8())], ["k"], [], "reserved"),
        ([("k", pa.int8()), ("", pa.int8())], ["k"], [], "empty"),
        ([("k", pa.list_(pa.int32()))], ["k"], [], "ARRAY<INT>"),
        ([("k", pa.int8()), ("p", pa.struct({"a": pa.int8()}))], ["k"], ["p"], "ROW<a TINYINT>"),
        ([("k", pa.int8())], ["k"], ["q"], "'q'"),
        ([("k", pa.int8())], ["k"], ["k"], "partition columns only"),
        ([("k", pa.int8()), ("u", pa.uint8())], ["k"], [], "'u'"),
        ([], ["k"], [], "'k'"),
    ],
)
def test_rules_name_the_culprit(fields, primary_key, partition_by, named):
    with pytest.raises(SchemaMismatchError) as caught:
        TableSchema.from_arrow(pa.schema(fields), primary_key, partition_by)
    assert named in str(caught.value)


@pytest.mark.parametrize("schema", [None, {"k": "int"}, 3])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(SchemaMismatchError, match=r"pyarrow\.Schema"):
        TableSchema.from_arrow(schema, "k")


def nested(depth):
    type_ = pa.int32()
    for _ in range(depth):
        type_ = pa.map_(pa.string(), type_)
    return type_


def test_types_nested_deeper_than_files_hold_are_refused_before_anything_is_written(memory_uri):
    with pytest.raises(SchemaMismatchError, match=r"column 'v': .* nested 31 deep"):
        TableSchema.from_arrow(pa.schema({"k": pa.int64(), "v": nested(31)}), "k")
    value = 1
    for _ in range(30):
        value = [("a", value)]
    for file_format in ("arrow", "parquet"):
        schema = pa.schema({"k": pa.int64(), "v": nested(30)})
        uri = f"{memory_uri}-{file_format}"
        table = lsmerge.create_table(uri, schema, "k", options={"file.format": file_format})
        table.upsert(pa.table({"k": [1], "v": pa.array([value], nested(30))}))
        table.compact(full=True)
        assert table.get_many([1])["v"].to_pylist() == [value]


def test_unknown_column_names_the_nearest():
    with pytest.raises(SchemaMismatchError, match="did you mean 'name'"):
        make().column("nam")
