"""Ingest: everything that is taken, in normal form; everything else refused by name."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge.engine.ingest import normalise
from lsmerge.errors import SchemaMismatchError
from lsmerge.rowkind import RowKind
from lsmerge.schema import TableSchema, arrow_field

UTC = dt.UTC


def table(*types, not_null=()):
    """A schema of an INT key `k` and columns `a`, `b`, ... of the given types."""
    fields = [
        arrow_field(name, logical, name not in not_null)
        for name, logical in zip("kabcdef", ("INT", *types), strict=False)
    ]
    return TableSchema.from_arrow(pa.schema(fields), "k")


def take(data, schema, *args, **kwargs):
    """All rows that ingest gives, as dicts, and all kinds."""
    batches = list(normalise(data, schema, *args, **kwargs))
    rows, kinds = [], []
    for batch, codes in batches:
        assert batch.schema.equals(schema.row_schema, check_metadata=True)
        batch.validate(full=True)
        rows += batch.to_pylist()
        kinds += codes.to_pylist() if codes is not None else [0] * batch.num_rows
    return rows, kinds


def take_column(logical, array):
    """The values of a column `a` given as an Arrow array."""
    data = pa.table({"k": pa.array(range(len(array)), pa.int32()), "a": array})
    return [row["a"] for row in take(data, table(logical))[0]]


def refused(data, schema, *named, **kwargs):
    with pytest.raises(SchemaMismatchError) as caught:
        take(data, schema, **kwargs)
    for part in named:
        assert part in str(caught.value), str(caught.value)


def refused_column(logical, array, *named):
    data = pa.table({"k": pa.array(range(len(array)), pa.int32()), "a": array})
    refused(data, table(logical), "'a", *named)


# ----------------------------------------------------------------------------------- forms of input

ROWS = [{"k": 1, "a": "x"}, {"k": 2, "a": None}]


class Stream:
    def __init__(self, data):
        self._data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self._data.__arrow_c_stream__(requested_schema)


class OneArray:
    def __init__(self, data):
        self._data = data

    def __arrow_c_array__(self, requested_schema=None):
        return self._data.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "form",
    [
        lambda t: t,
        lambda t: t.to_batches()[0],
        lambda t: t.to_reader(),
        Stream,
        lambda t: OneArray(t.to_batches()[0]),
        lambda t: t.to_struct_array().combine_chunks(),
        lambda t: t.to_pylist(),
        lambda t: tuple(t.to_pylist()),
        lambda t: t.to_pydict(),
        lambda t: {"k": [1, 2], "a": t["a"]},
        lambda t: t.select(["a", "k"]),
        lambda t: pa.concat_tables([t.slice(0, 1), t.slice(1, 1)]),
    ],
)
def test_every_form_of_input_gives_the_same_rows(form):
    data = pa.table({"k": pa.array([1, 2], pa.int32()), "a": ["x", None]})
    assert take(form(data), table("STRING")) == (ROWS, [0, 0])


def test_pandas_index_is_not_a_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": [0, 1, 2], "a": ["z", "x", None]})[1:]
    assert take(frame, table("STRING"))[0] == ROWS


@pytest.mark.parametrize(
    "data",
    [None, 3, "text", object(), pa.array([1]), pa.chunked_array([[1]]), [1], [[1, 2]], {"k": 3}],
)
def test_what_is_no_table_is_refused(data):
    refused(data, table("STRING"))


def test_null_row_in_a_struct_array_is_refused():
    refused(pa.array([{"k": 1, "a": "x"}, None]), table("STRING"), "null")


def test_no_rows_give_no_batches_but_names_are_checked():
    schema = table("STRING")
    empty = schema.arrow_schema.empty_table()
    assert list(normalise(empty, schema)) == []
    assert list(normalise([], schema)) == []
    refused(empty.rename_columns(["k", "z"]), schema, "'z'")
    refused(pa.table({}), schema, "'k' is missing")


def test_normal_form_is_handed_on_without_a_copy():
    schema = table("STRING", "ARRAY<INT>", "DECIMAL(10,2)")
    data = pa.record_batch(
        {
            "k": pa.array([1, 2], pa.int32()),
            "a": ["x", "y"],
            "b": pa.array([[1], None], pa.list_(pa.int32())),
            "c": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        }
    )
    ((batch, kinds),) = normalise(data, schema)
    assert kinds is None
    for name in ("k", "a", "b", "c"):
        before, after = data.column(name).buffers(), batch.column(name).buffers()
        assert [b and b.address for b in before] == [b and b.address for b in after]


def test_refusal_comes_before_the_first_batch_is_asked_for():
    def batches():
        raise AssertionError("asked for data")
        yield

    reader = pa.RecordBatchReader.from_batches(pa.schema([("zzz", pa.int32())]), batches())
    refused(reader, table(), "'zzz'")


def test_an_error_of_the_producer_passes_through():
    def batches():
        yield pa.record_batch({"k": pa.array([1], pa.int32())})
        raise LookupError("lost")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("k", pa.int32())]), batches())
    with pytest.raises(LookupError, match="lost"):
        take(reader, table())


def test_an_error_of_a_foreign_stream_is_told_in_one_line():
    def batches():
        raise LookupError("lost")
        yield

    reader = pa.RecordBatchReader.from_batches(pa.schema([("k", pa.int32())]), batches())
    with pytest.raises(SchemaMismatchError, match=r"lost[^\n]*$"):
        take(Stream(reader), table())


# ------------------------------------------------------------------------------------- column names


def test_unknown_column_names_the_nearest():
    refused({"k": [1], "aa": ["x"]}, table("STRING"), "'aa'", "did you mean 'a'")


def test_duplicate_column_is_refused():
    data = pa.record_batch([pa.array([1]), pa.array([2])], names=["k", "k"])
    refused(data, table(), "'k' appears twice")


def test_missing_column_is_null_or_refused():
    assert take({"k": [1]}, table("STRING"))[0] == [{"k": 1, "a": None}]
    refused({"k": [1]}, table("STRING", not_null="a"), "'a'", "missing")
    refused({"a": ["x"]}, table("STRING"), "'k'", "missing")


def test_target_columns():
    schema = table("STRING", "INT")
    assert take([{"k": 1, "b": 2}], schema, ["k", "b"])[0] == [{"k": 1, "a": None, "b": 2}]
    refused([{"k": 1, "a": "x"}], schema, "'a'", columns=["k", "b"])
    refused([{"k": 1}], schema, "'b' is missing", columns=["k", "b"])
    refused([{"k": 1}], schema, "leave out", columns=["a"])
    refused([{"k": 1}], schema, "twice", columns=["k", "k"])
    refused([{"k": 1}], schema, "'zz'", columns=["k", "zz"])


# ---------------------------------------------------------------------------------------- row kinds


@pytest.mark.parametrize(
    "kinds",
    [
        pa.array(["+I", "-U", "+U", "-D"]),
        pa.array(["+I", "-U", "+U", "-D"]).dictionary_encode(),
        pa.array(["+I", "-U", "+U", "-D"], pa.large_string()),
        pa.array(["+I", "-U", "+U", "-D"], pa.string_view()),
        pa.array([0, 1, 2, 3], pa.int8()),
        pa.array([0, 1, 2, 3], pa.int64()),
        ["+I", "-U", "+U", "-D"],
    ],
)
def test_row_kind_column_is_taken_out(kinds):
    rows, codes = take({"k": [1, 2, 3, 4], "_row_kind": kinds}, table())
    assert codes == [0, 1, 2, 3]
    assert rows == [{"k": key} for key in (1, 2, 3, 4)]


def test_all_inserts_need_no_kinds():
    ((_, kinds),) = normalise({"k": [1, 2], "_row_kind": ["+I", "+I"]}, table())
    assert kinds is None


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (pa.array(["+I", "+X"]), "'+X' at row 1"),
        (pa.array(["+I", "+i"]), "'+i' at row 1"),
        (pa.array(["+I", None]), "None at row 1"),
        (pa.array([0, 4], pa.int8()), "4 at row 1"),
        (pa.array([0, 256], pa.int64()), "256 at row 1"),
        (pa.array([0, -1], pa.int8()), "-1 at row 1"),
        (pa.nulls(2), "None at row 0"),
        (pa.array([0.0, 1.0]), "double"),
        (pa.array([[1], [2]]), "list"),
        (pa.array([b"+I", b"+U"]), "binary"),
    ],
)
def test_bad_kinds_name_value_and_accepted_ones(kinds, found):
    data = pa.table({"k": pa.array([1, 2], pa.int32()), "_row_kind": kinds})
    refused(data, table(), "'_row_kind'", found, "+I (0), -U (1), +U (2), -D (3)")


def test_kind_from_a_data_column_overrides_and_stays():
    schema = table("STRING")
    data = {"k": [1, 2], "a": ["-D", "+I"], "_row_kind": ["+I", "-D"]}
    assert take(data, schema, rowkind_field="a") == (
        [{"k": 1, "a": "-D"}, {"k": 2, "a": "+I"}],
        [3, 0],
    )
    refused({"k": [1], "a": [None]}, schema, "'a'", "row 0", rowkind_field="a")
    refused({"k": [1], "a": ["D"]}, schema, "'a'", "'D'", rowkind_field="a")


def test_default_kind():
    assert take({"k": [1, 2]}, table(), default_kind=RowKind.DELETE)[1] == [3, 3]
    schema = table("STRING", not_null="a")
    assert take({"k": [1]}, schema, default_kind=RowKind.DELETE)[0] == [{"k": 1, "a": None}]


# -------------------------------------------------------------------------------------------- nulls


def test_null_key_names_column_and_row_across_batches():
    parts = [pa.table({"k": pa.array(keys, pa.int32())}) for keys in ([1, 2], [3, None])]
    refused(pa.concat_tables(parts), table(), "primary key column 'k'", "row 3")


def test_retracts_need_only_their_key():
    schema = table("STRING", not_null="a")
    data = {"k": [1, 2], "a": ["x", None], "_row_kind": ["+I", "-D"]}
    assert take(data, schema)[1] == [0, 3]
    refused({**data, "_row_kind": ["-D", "+U"]}, schema, "'a'", "row 1", "NOT NULL")
    refused({"k": [None], "_row_kind": ["-D"]}, schema, "primary key column 'k'")
    refused({"k": [1, 2], "_row_kind": ["-D", "+I"]}, schema, "'a'", "row 1")


# -------------------------------------------------------------------------------- casts that are taken

DECIMALS = pa.array([Decimal("1.50"), None], pa.decimal256(50, 2))
NOON = dt.datetime(2024, 1, 31, 12, 0, 0, 250_000)
TAKEN = [
    ("TINYINT", pa.array([127, -128, None], pa.int64()), [127, -128, None]),
    ("BIGINT", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
    ("INT", pa.array([7, 7, None]).dictionary_encode(), [7, 7, None]),
    ("INT", pc.run_end_encode(pa.array([7, 7, None], pa.int32())), [7, 7, None]),
    ("INT", pc.run_end_encode(pa.array([7, 7, 8], pa.int64())).slice(1), [7, 8]),
    ("INT", pa.array([1, 2, 300, 4], pa.int64()).slice(1, 2), [2, 300]),
    ("TINYINT", pa.array([1, 999, 3], pa.int64()).slice(2), [3]),
    ("FLOAT", pa.array([0.5, float("inf"), None]), [0.5, float("inf"), None]),
    ("FLOAT", pa.array([1.5], pa.float16()), [1.5]),
    ("DOUBLE", pa.array([2**53]), [2.0**53]),
    ("DECIMAL(10,2)", DECIMALS, [Decimal("1.50"), None]),
    ("DECIMAL(10,2)", pa.array([Decimal("1.500")], pa.decimal128(20, 3)), [Decimal("1.50")]),
    ("DECIMAL(4,2)", pa.array([99, None]), [Decimal("99.00"), None]),
    ("DECIMAL(20,0)", pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
    ("STRING", pa.array(["é", None], pa.large_string()), ["é", None]),
    ("STRING", pa.array(["a" * 50, None], pa.string_view()), ["a" * 50, None]),
    ("STRING", pa.array(["a", "b", None]).dictionary_encode().slice(1), ["b", None]),
    ("STRING", pa.nulls(2), [None, None]),
    ("VARCHAR(2)", pa.array(["éé", "", None]), ["éé", "", None]),
    ("BYTES", pa.array([b"ab"], pa.binary_view()), [b"ab"]),
    ("BYTES", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("BINARY(2)", pa.array([b"ab", None]), [b"ab", None]),
    ("DATE", pa.array([dt.date(2024, 1, 31)], pa.date64()), [dt.date(2024, 1, 31)]),
    ("TIME(0)", pa.array([dt.time(1, 2, 3)], pa.time64("us")), [dt.time(1, 2, 3)]),
    ("TIMESTAMP(3)", pa.array([NOON], pa.timestamp("us")), [NOON]),
    ("TIMESTAMP(2)", pa.array([NOON], pa.timestamp("us")), [NOON]),
    (
        "TIMESTAMP_LTZ(6)",
        pa.array([NOON.replace(tzinfo=UTC)], pa.timestamp("ms", "Europe/Berlin")),
        [NOON.replace(tzinfo=UTC)],
    ),
    ("ARRAY<INT>", pa.array([[1, None], None, []], pa.large_list(pa.int64())), [[1, None], None, []]),
    ("ARRAY<INT>", pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    ("ARRAY<TINYINT>", pa.array([[999], [1], [999]]).slice(1, 1), [[1]]),
    ("ARRAY<STRING>", pa.array([["a"], ["b"]], pa.list_(pa.large_string())), [["a"], ["b"]]),
    ("ARRAY<ARRAY<INT>>", pa.array([[[1], None], []]), [[[1], None], []]),
    ("ROW<x TINYINT, y STRING>", pa.array([{"x": 1}, None]), [{"x": 1, "y": None}, None]),
    ("MAP<STRING, INT>", pa.array([[("a", 1)], None], pa.map_(pa.large_string(), pa.int64())), [[("a", 1)], None]),
]  # fmt: skip


@pytest.mark.parametrize(("logical", "array", "values"), TAKEN)
def test_lossless_casts_are_taken(logical, array, values):
    assert take_column(logical, array) == values


def test_list_views_keep_their_lists():
    offsets, sizes = pa.array([2, 0, 0], pa.int32()), pa.array([1, 2, 3], pa.int32())
    views = pa.ListViewArray.from_arrays(offsets, sizes, pa.array([1, 2, 3], pa.int32()))
    assert take_column("ARRAY<INT>", views) == [[3], [1, 2], [1, 2, 3]]
    assert take_column("ARRAY<INT>", views.slice(1)) == [[1, 2], [1, 2, 3]]


def test_sliced_maps_keep_their_entries():
    maps = pa.array(
        [[("a", 999)], None, [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int64())
    )
    assert take_column("MAP<STRING, TINYINT>", maps.slice(1)) == [None, [("b", 2), ("c", None)], []]


def test_values_below_a_null_struct_are_not_looked_at():
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, 999])], names=["x"], mask=pa.array([False, True])
    )
    assert take_column("ROW<x TINYINT NOT NULL>", hidden) == [{"x": 1}, None]


# ------------------------------------------------------------------------------- casts that are refused

REFUSED = [
    ("TINYINT", pa.array([1, 128]), ["128 at row 1", "integers in range"]),
    ("BIGINT", pa.array([2**63], pa.uint64()), [str(2**63)]),
    ("INT", pa.array([1.0]), ["double", "integers"]),
    ("INT", pa.array(["1"]), ["string", "integers"]),
    ("INT", pa.array([True]), ["bool"]),
    ("BOOLEAN", pa.array([1]), ["int64", "booleans"]),
    ("FLOAT", pa.array([0.5, 0.1]), ["0.1 at row 1"]),
    ("FLOAT", pa.array([1e300]), ["1e+300 at row 0"]),
    ("FLOAT", pa.array([2**24 + 1]), ["16777217"]),
    ("DOUBLE", pa.array([2**53 + 1]), [str(2**53 + 1)]),
    ("DECIMAL(10,2)", pa.array([1.5]), ["double", "decimals and integers"]),
    ("DECIMAL(10,2)", pa.array(["1.5"]), ["string"]),
    ("DECIMAL(10,2)", pa.array([Decimal("1.005")]), ["1.005", "row 0"]),
    ("DECIMAL(4,2)", pa.array([99, 100]), ["100 at row 1"]),
    ("DECIMAL(38,38)", pa.array([1]), ["1 at row 0"]),
    ("DECIMAL(38,0)", pa.array([Decimal(10) ** 38], pa.decimal256(50, 0)), ["row 0"]),
    ("STRING", pa.array([b"x"]), ["binary", "text"]),
    ("BYTES", pa.array(["x"]), ["string", "binary"]),
    ("CHAR(2)", pa.array(["é", "abc"]), ["'abc' at row 1", "2 characters"]),
    ("VARBINARY(2)", pa.array([b"ab", b"abc"]), ["row 1", "2 bytes"]),
    ("BINARY(2)", pa.array([b"ab", b"a"]), ["b'a' at row 1"]),
    ("BINARY(2)", pa.array([b"abc"], pa.binary(3)), ["b'abc'"]),
    ("DATE", pa.array([NOON]), ["timestamp", "dates"]),
    ("DATE", pa.array(["2024-01-31"]), ["string"]),
    ("TIME(0)", pa.array([1500], pa.time32("ms")), ["00:00:01.500 at row 0"]),
    ("TIMESTAMP(0)", pa.array([NOON]), ["2024-01-31 12:00:00.250000"]),
    ("TIMESTAMP(1)", pa.array([NOON]), ["fractional digits"]),
    ("TIMESTAMP(9)", pa.array([0, 2**62], pa.timestamp("s")), [str(2**62), "row 1", "range"]),
    ("TIMESTAMP(6)", pa.array([NOON.replace(tzinfo=UTC)]), ["without time zone"]),
    ("TIMESTAMP_LTZ(6)", pa.array([NOON]), ["with a time zone"]),
    ("TIMESTAMP_LTZ(0)", pa.array([1], pa.timestamp("ms", "Mars/Base")), ["1970-01-01 00:00:00.001Z"]),
    ("ARRAY<TINYINT>", pa.array([[1], [999]]), ["'a[]'", "999"]),
    ("ARRAY<INT NOT NULL>", pa.array([[1], [None]]), ["'a[]'", "null"]),
    ("ARRAY<VARCHAR(1)>", pa.array([["a", "bc"]]), ["'a[]'", "'bc'"]),
    ("ARRAY<INT>", pa.array([1]), ["int64", "lists"]),
    ("INT", pa.array([[1]]), ["list"]),
    ("ROW<x INT>", pa.array([{"y": 1}]), ["'y'"]),
    ("ROW<x INT, y INT NOT NULL>", pa.array([{"x": 1}]), ["'y' is NOT NULL"]),
    ("ROW<x INT NOT NULL>", pa.array([{"x": 1}, {"x": None}]), ["'a.x'", "null"]),
    ("MAP<STRING, INT>", pa.array([{"a": 1}]), ["struct", "maps"]),
    ("MAP<STRING, TINYINT>", pa.array([[("a", 999)]], pa.map_(pa.string(), pa.int64())), ["'a.value'", "999"]),
    ("BINARY(16)", pa.array([b"0" * 16], pa.uuid()), ["arrow.uuid"]),
    ("BIGINT", pa.array([1], pa.duration("s")), ["duration"]),
    ("STRING", pa.array(["x" * 50 + "y"] * 2).cast(pa.large_binary()), ["large_binary"]),
]  # fmt: skip


@pytest.mark.parametrize(("logical", "array", "named"), REFUSED)
def test_lossy_casts_are_refused_by_name(logical, array, named):
    refused_column(logical, array, *named)


def test_first_bad_row_is_found_in_a_long_column():
    values = [1] * 100_000
    values[70_001] = values[90_000] = 999
    refused_column("TINYINT", pa.array(values), "999 at row 70001")


@given(st.lists(st.integers(-300, 300) | st.none(), max_size=30), st.integers(0, 30))
def test_narrowing_agrees_with_python(values, start):
    array = pa.array(values, pa.int64()).slice(min(start, len(values)))
    bad = [row for row, v in enumerate(array.to_pylist()) if v is not None and not -128 <= v < 128]
    if bad:
        refused_column("TINYINT", array, f"{array[bad[0]]} at row {bad[0]}")
    else:
        assert take_column("TINYINT", array) == array.to_pylist()


# ------------------------------------------------------------------------------------ hostile buffers


def offsets(*values):
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


FORMS = {
    "batch": lambda batch: batch,
    "table": lambda batch: pa.Table.from_batches([batch]),
    "reader": lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
    "struct": lambda batch: batch.to_struct_array(),
    "structs": lambda batch: pa.Table.from_batches([batch]).to_struct_array(),
    "dict": lambda batch: dict(zip(batch.schema.names, batch.columns, strict=True)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("arrow", "data", "damaged"),
    [
        (pa.string(), b"\xff\xfe", offsets(0, 1, 2)),
        (pa.string(), b"ab", offsets(0, 1, 999)),
        (pa.string(), b"ab", offsets(0, -5, 2)),
        (pa.string(), b"ab", offsets(0, 2, 1)),
        (pa.binary(), b"ab", offsets(0, 1, 999)),
        (pa.binary(), b"ab", offsets(0, 2, 1)),
    ],
)
def test_malformed_offsets_and_text_are_refused_not_followed(arrow, data, damaged, form):
    """Damage done behind Arrow's back: it checks what it builds, not what it is handed.

    Binary tells whether sizes were kept: no UTF-8 check hides an offset that points too far.
    """
    memory = bytearray(offsets(0, 1, 2))
    array = pa.Array.from_buffers(arrow, 2, [None, pa.py_buffer(memory), pa.py_buffer(data)])
    batch = pa.record_batch({"k": pa.array([1, 2], pa.int32()), "a": array})
    handed = FORMS[form](batch)
    memory[:] = damaged
    refused(handed, table("STRING" if arrow == pa.string() else "BYTES"))


@pytest.mark.parametrize(
    ("logical", "array"),
    [
        ("STRING", pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False)),
        ("TIME(0)", pa.array([1, 90_000], pa.int32()).view(pa.time32("s"))),
        ("DATE", pa.array([0, 1], pa.int64()).view(pa.date64())),
    ],
)
def test_values_outside_their_type_are_refused(logical, array):
    refused_column(logical, array, "malformed")


def test_decimals_beyond_their_precision_are_refused():
    cell = (99_999).to_bytes(16, "little")
    array = pa.Array.from_buffers(pa.decimal128(3, 0), 1, [None, pa.py_buffer(cell)])
    refused_column("DECIMAL(3,0)", array, "malformed")


# -------------------------------------------------------------------------------------- Python values

PYTHON_TAKEN = [
    ("FLOAT", 0.1, pytest.approx(0.1)),
    ("FLOAT", 3.4028235e38, 3.4028234663852886e38),
    ("DOUBLE", 3, 3.0),
    ("DECIMAL(10,2)", Decimal("1.5"), Decimal("1.50")),
    ("DECIMAL(38,0)", 10**37, Decimal(10**37)),
    ("BYTES", bytearray(b"x"), b"x"),
    ("BINARY(2)", b"ab", b"ab"),
    ("DATE", dt.date(2024, 1, 31), dt.date(2024, 1, 31)),
    ("TIME(3)", dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4000)),
    ("TIMESTAMP(3)", NOON, NOON),
    (
        "TIMESTAMP_LTZ(3)",
        NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=1))),
        (NOON - dt.timedelta(hours=1)).replace(tzinfo=UTC),
    ),
    ("ARRAY<DECIMAL(4,2)>", [Decimal(1), None], [Decimal("1.00"), None]),
    ("MAP<STRING, TIMESTAMP(3)>", {"a": NOON}, [("a", NOON)]),
    ("MAP<STRING, INT>", [("a", None)], [("a", None)]),
    ("ROW<x INT, y STRING>", {"x": 1}, {"x": 1, "y": None}),
]


@pytest.mark.parametrize(("logical", "value", "stored"), PYTHON_TAKEN)
def test_python_values_are_taken(logical, value, stored):
    rows, _ = take([{"k": 1, "a": value}, {"k": 2}], table(logical))
    assert [row["a"] for row in rows] == [stored, None]


@pytest.mark.parametrize(
    ("logical", "value"),
    [
        ("INT", 1.0),
        ("INT", True),
        ("INT", "1"),
        ("INT", 2**31),
        ("BIGINT", 2**70),
        ("BOOLEAN", 1),
        ("FLOAT", 1e300),
        ("FLOAT", 3.4028236e38),
        ("FLOAT", True),
        ("FLOAT", 10**400),
        ("DOUBLE", 2**53 + 1),
        ("DOUBLE", Decimal("0.1")),
        ("DECIMAL(10,2)", 1.5),
        ("DECIMAL(10,2)", Decimal("1.005")),
        ("DECIMAL(10,2)", Decimal("NaN")),
        ("DECIMAL(10,2)", 10**9),
        ("STRING", b"x"),
        ("STRING", "\ud800"),
        ("BYTES", "x"),
        ("BINARY(2)", b"abc"),
        ("VARCHAR(1)", "ab"),
        ("DATE", NOON),
        ("TIME(3)", dt.time(1, 2, 3, 4)),
        ("TIMESTAMP(0)", NOON),
        ("TIMESTAMP(6)", NOON.replace(tzinfo=UTC)),
        ("TIMESTAMP_LTZ(6)", NOON),
        ("ARRAY<INT>", "ab"),
        ("ARRAY<INT>", [1.5]),
        ("ARRAY<INT NOT NULL>", [None]),
        ("MAP<STRING, INT>", [("a",)]),
        ("MAP<STRING, INT>", {None: 1}),
        ("ROW<x INT>", {"y": 1}),
        ("ROW<x INT>", [1]),
    ],
)
def test_other_python_values_are_refused(logical, value):
    refused([{"k": 1}, {"k": 2, "a": value}], table(logical), "'a")


def test_columns_of_different_length_are_refused():
    refused({"k": [1, 2], "a": ["x"]}, table("STRING"), "length", "'a': 1")
