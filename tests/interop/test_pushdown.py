"""What other libraries select reaches the scan: the same rows, of fewer columns and blocks."""

import datetime as dt
import functools
import operator
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine.parallel import IN_FLIGHT
from lsmerge.errors import CorruptFileError, NotPlainError
from lsmerge.storage.run_file import RunReader
from tests.interop import tables


@pytest.fixture(scope="module")
def table():
    return tables.create("memory://interop-pushdown")


@pytest.fixture(scope="module")
def settled():
    """Nothing is left to merge, so statistics of all columns count."""
    table = tables.create("memory://interop-settled")
    table.compact(full=True)
    return table


@pytest.fixture(scope="module")
def everything(table) -> pa.Table:
    return table.scan().to_arrow()


class Reads:
    """Blocks that were decoded, and the columns that were asked for."""

    def __init__(self) -> None:
        self.blocks: set[tuple[str, int]] = set()
        self.columns: set[str] = set()


@pytest.fixture
def reads(monkeypatch) -> Reads:
    seen, read_columns = Reads(), RunReader._read_columns

    def spy(self, block, fields):
        seen.blocks.add((self.path, block))
        seen.columns.update(fields.names)
        return read_columns(self, block, fields)

    monkeypatch.setattr(RunReader, "_read_columns", spy)
    return seen


def all_blocks(table, reads) -> int:
    table.scan().to_arrow()
    count = len(reads.blocks)
    reads.blocks.clear()
    reads.columns.clear()
    return count


# ------------------------------------------------------------------------------------------- DuckDB


def query(text: str, **sources) -> list[tuple]:
    with duckdb.connect() as connection:
        for name, source in sources.items():
            connection.register(name, source)
        return connection.sql(text).fetchall()


@pytest.mark.parametrize(
    "condition",
    [
        "k < 50",
        "k between 100 and 120 and day = 'mon'",
        "k in (5, 500, 2500)",
        "day = 'tue' and k > 2990 and s is not null",
        "d = '2024-01-03'",
        "t >= '2024-01-01 00:49:00'",
        "z >= '2024-01-01 00:49:00+00'",
        "x < 5",
        "k = 3 or k = 4",
    ],
)
def test_duckdb_skips_blocks(settled, everything, reads, condition):
    whole = all_blocks(settled, reads)
    text = f"select k from source where {condition} order by k"
    found = query(text, source=settled.to_dataset())
    assert len(reads.blocks) < whole
    assert found == query(text, source=everything)
    assert len(found) > 0


def test_duckdb_reads_the_columns_it_needs(table, reads):
    query("select sum(i) from source where s = 'name 1'", source=table.to_dataset())
    assert {"i", "s", "k"} <= reads.columns
    assert reads.columns.isdisjoint({"x", "tags", "raw", "t"})


@pytest.mark.parametrize(
    "condition",
    [
        "f > 100",
        "f = 'nan'::double",
        "s like 'name 1%'",
        "k + i > 20",
        "b",
        "not b",
        "raw > '\\x00\\x00\\x05\\x00'::blob",
    ],
)
def test_duckdb_evaluates_what_cannot_be_pushed_down(table, everything, condition):
    text = f"select k from source where {condition} order by k"
    found = query(text, source=table.to_dataset())
    assert found == query(text, source=everything)
    assert len(found) > 0


def test_duckdb_counts_and_limits(table, everything):
    dataset = table.to_dataset()
    assert query("select count(*) from source", source=dataset) == [(everything.num_rows,)]
    assert len(query("select k from source limit 3", source=dataset)) == 3


def test_duckdb_finds_a_dataset_by_the_name_of_its_variable(table, everything, reads):
    whole = all_blocks(table, reads)
    dataset = table.to_dataset()
    assert dataset is not None
    assert duckdb.sql("select max(k) from dataset where k < 20").fetchall() == [(19,)]
    assert len(reads.blocks) < whole


def test_a_dataset_keeps_its_snapshot(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": [1]})
    dataset = table.to_dataset()
    table.upsert({"k": [2]})
    assert dataset.count_rows() == 1
    assert dataset.to_table()["k"].to_pylist() == [1]


# ------------------------------------------------------------------------------- the dataset itself


def test_methods_of_a_dataset(table, everything):
    dataset = table.scan(filter="k < 1000").to_dataset()
    some = dataset.filter(pc.field("k") >= 10).filter(pc.field("k") < 20)
    keys = [k for k in everything["k"].to_pylist() if 10 <= k < 20]
    assert some.to_table(columns=["k"])["k"].to_pylist() == keys
    assert some.count_rows() == len(keys)
    assert some.to_table(columns={"twice": pc.field("k") * 2})["twice"][0].as_py() == 2 * keys[0]
    assert dataset.head(2).num_rows == 2
    assert dataset.schema == table.scan().schema
    assert some.scanner(columns=["k"]).to_reader().schema.names == ["k"]
    assert some.scanner(columns=["i", "k"]).projected_schema.names == ["i", "k"]


def test_nothing_is_read_ahead_of_a_slow_reader(settled, reads):
    whole = all_blocks(settled, reads)
    batches = settled.to_dataset().scanner().to_batches()
    next(batches)
    next(batches)
    batches.close()
    # As much as any scan has under way, and no more.
    assert len(reads.blocks) <= IN_FLIGHT + 2 < whole


def test_filters_do_not_pass_below_a_limit(table):
    first = table.scan(columns=["k"], limit=5).to_arrow()["k"].to_pylist()
    dataset = table.scan(limit=5).to_dataset()
    wanted = [k for k in first if k > first[1]]
    assert dataset.to_table(filter=pc.field("k") > first[1])["k"].to_pylist() == wanted
    lazy = table.scan(limit=5).to_polars_lazy().filter(pl.col("k") > first[1])
    assert lazy.collect()["k"].to_list() == wanted


@pytest.mark.parametrize(
    "use",
    [
        lambda dataset: list(dataset.get_fragments()),
        lambda dataset: dataset.files,
        lambda dataset: dataset.sort_by("k"),
        lambda dataset: dataset.take([0]),
        lambda dataset: dataset.join(dataset, "k"),
        lambda dataset: dataset.replace_schema(dataset.schema),
    ],
)
def test_what_only_files_can_do_is_refused(table, use):
    with pytest.raises(NotPlainError):
        use(table.to_dataset())


def test_who_passes_the_methods_by_gets_an_error_not_rows(table):
    with pytest.raises(pa.ArrowInvalid):
        ds.Scanner.from_dataset(table.to_dataset()).to_table()
    with pytest.raises(TypeError):
        ds.write_dataset(table.to_dataset(), "nowhere", format="parquet")


def test_damage_is_told_through_other_libraries(tmp_path):
    table = lsmerge.create_table(str(tmp_path / "t"), pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": range(10_000)})
    (file,) = (tmp_path / "t" / "bucket-0").iterdir()
    data = bytearray(file.read_bytes())
    data[4000] ^= 1
    file.write_bytes(data)
    dataset = lsmerge.open_table(str(tmp_path / "t")).to_dataset()
    with pytest.raises(CorruptFileError):
        dataset.to_table()
    with pytest.raises(Exception, match="CORRUPT_FILE"):
        query("select sum(k) from source", source=dataset)
    lazy = lsmerge.open_table(str(tmp_path / "t")).scan().to_polars_lazy()
    with pytest.raises(Exception, match="CORRUPT_FILE"):
        lazy.collect()


# ------------------------------------------------------------------------------------------- polars

COLUMNS = {name: pl.col(name) for name in tables.SCHEMA.names}
MOMENT = tables.MOMENT


@pytest.mark.parametrize(
    "predicate",
    [
        COLUMNS["k"] < 50,
        COLUMNS["k"].is_between(100, 120) & (COLUMNS["day"] == "mon"),
        COLUMNS["k"].is_in([5, 500, 2500]) & COLUMNS["s"].str.starts_with("name"),
        (COLUMNS["day"] == "tue") & (COLUMNS["k"] > 2990) & COLUMNS["s"].is_not_null(),
        COLUMNS["d"] == dt.date(2024, 1, 3),
        COLUMNS["t"] >= dt.datetime(2024, 1, 1, 0, 49),
        COLUMNS["z"] >= dt.datetime(2024, 1, 1, 0, 49, tzinfo=dt.UTC),
        COLUMNS["x"] < Decimal("5.00"),
    ],
    ids=str,
)
def test_polars_skips_blocks(settled, reads, predicate):
    whole = all_blocks(settled, reads)
    expected = settled.scan().to_polars().filter(predicate)["k"]
    reads.blocks.clear()
    found = settled.scan().to_polars_lazy().filter(predicate).select("k").collect()["k"]
    assert len(reads.blocks) < whole
    assert found.to_list() == expected.to_list()
    assert len(found) > 0


def test_nanoseconds_are_not_rounded(memory_uri):
    schema = pa.schema({"k": pa.int64(), "t": pa.timestamp("ns")})
    table = lsmerge.create_table(memory_uri, schema, "k")
    table.upsert(pa.table({"k": [1, 2], "t": pa.array([1001, 1002], pa.timestamp("ns"))}))
    moments = pl.Series([1001, 1002], dtype=pl.Datetime("ns"))
    lazy = table.scan().to_polars_lazy()
    assert lazy.filter(pl.col("t") <= pl.lit(moments[:1]).first()).collect()["k"].to_list() == [1]
    assert lazy.filter(pl.col("t").is_in(moments.implode())).collect()["k"].to_list() == [1, 2]
    whole = pl.lit(1002, dtype=pl.Int64).cast(pl.Datetime("ns"))
    assert lazy.filter(pl.col("t") <= whole).collect()["k"].to_list() == [1, 2]


def test_polars_reads_the_columns_and_rows_it_needs(settled, reads):
    lazy = settled.scan().to_polars_lazy()
    lazy.select(pl.col("i").sum()).collect()
    assert reads.columns.isdisjoint({"s", "x", "tags"})
    reads.blocks.clear()
    assert lazy.head(3).collect().height == 3
    few = len(reads.blocks)
    assert few < all_blocks(settled, reads)


@pytest.mark.parametrize(
    "predicate",
    [
        functools.reduce(operator.or_, [COLUMNS["k"] == k for k in range(300)]),
        functools.reduce(operator.and_, [COLUMNS["k"] != k for k in range(1100)]),
        COLUMNS["k"].map_batches(lambda ks: ks < 5, return_dtype=pl.Boolean) & (COLUMNS["k"] > 1),
        COLUMNS["k"].is_in([]),
        pl.lit(True),
    ],
    ids=["many or", "many and", "python", "empty list", "no column"],
)
def test_odd_predicates(table, everything, predicate):
    found = table.scan().to_polars_lazy().filter(predicate).select("k").collect()["k"]
    assert found.to_list() == pl.DataFrame(everything).filter(predicate)["k"].to_list()


def test_a_lazy_frame_can_be_collected_again(table, everything):
    lazy = table.scan().to_polars_lazy()
    assert lazy.collect().height == lazy.collect().height == everything.num_rows
    assert lazy.collect_schema() == table.scan().to_polars().schema


numbers = st.integers(-1, 60)
atoms = st.one_of(
    st.builds(lambda v: COLUMNS["k"] > v * 50, numbers),
    st.builds(lambda v: COLUMNS["i"] == v, numbers),
    st.builds(lambda v: COLUMNS["i"] != v, numbers),
    st.builds(lambda v: COLUMNS["f"] > v * 25.0, numbers),
    st.builds(lambda v: COLUMNS["f"] <= v * 25.0, numbers),
    st.builds(lambda v: COLUMNS["s"].is_in([f"name {v}", None]), numbers),
    st.builds(lambda v: COLUMNS["i"].is_in([v, v + 1]), numbers),
    st.builds(lambda v: COLUMNS["x"] >= Decimal(v) * 10, numbers),
    st.builds(lambda v: COLUMNS["k"].is_between(v, 30 * v, closed="left"), numbers),
    st.just(COLUMNS["s"].is_null()),
    st.just(COLUMNS["b"]),
    st.just(COLUMNS["f"].is_nan()),
)
predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=5,
)


@given(predicates, st.none() | st.integers(0, 5))
def test_polars_gets_the_rows_it_asked_for(table, everything, predicate, limit):
    frame, lazy = pl.DataFrame(everything), table.scan().to_polars_lazy()
    expected, found = frame.filter(predicate), lazy.filter(predicate)
    if limit is not None:
        expected, found = expected.head(limit), found.head(limit)
    assert found.select("k").collect()["k"].to_list() == expected["k"].to_list()
