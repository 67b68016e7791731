"""pyarrow expressions as predicates: equal where there is one, none where that is not sure."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmerge
from lsmerge.arrow_expression import predicate_of
from lsmerge.schema import TableSchema

ARROW = pa.schema(
    {
        "k": pa.int64(),
        "i": pa.int32(),
        "s": pa.string(),
        "d": pa.date32(),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("ms", "UTC"),
        "x": pa.decimal128(10, 2),
        "b": pa.bool_(),
        "f": pa.float64(),
        "odd(name)": pa.int64(),
    }
)
SCHEMA = TableSchema.from_arrow(ARROW, "k")
K, N, S, F = (pc.field(name) for name in "kisf")
TEXTS = ["a", "b", 'say "hi"', "back\\slash", "(k > 1)", " and ", "", "ü", "1"]
ROWS = pa.table(
    {
        "k": [1, 2, 3, 4],
        "i": [1, None, 3, 4],
        "s": ["a", 'say "hi"', None, "back\\slash"],
        "d": [dt.date(2020, 1, day) for day in range(1, 5)],
        "t": [dt.datetime(2020, 1, 1, 0, 0, second) for second in range(4)],
        "z": [dt.datetime(2020, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in range(4)],
        "x": [Decimal("0.25"), Decimal("0.50"), None, Decimal("1.00")],
        "b": [True, False, None, True],
        "f": [0.5, 1.5, None, float("nan")],
        "odd(name)": [1, 2, 3, 4],
    },
    schema=ARROW,
)


def selected(expression) -> list[int]:
    return ROWS.filter(expression)["k"].to_pylist()


@pytest.mark.parametrize(
    "expression",
    [
        K > 2,
        (K >= 2) & (K < 4),
        (K == 1) | (S == 'say "hi"'),
        ~(K == 1),
        S == "back\\slash",
        S.is_null(),
        S.is_valid(),
        ~(N < 3),
        N < 3,
        (N < 3) & (K == 1),
        pc.field("d") <= dt.date(2020, 1, 2),
        pc.field("t") > pa.scalar(dt.datetime(2020, 1, 1, 0, 0, 1), pa.timestamp("us")),
        pc.field("z")
        == pa.scalar(dt.datetime(2020, 1, 1, 0, 0, 1, tzinfo=dt.UTC), pa.timestamp("ms", "UTC")),
        pc.field("x") > pa.scalar(Decimal("0.30"), pa.decimal128(10, 2)),
        pc.field("b") == True,  # noqa: E712
        K.isin([1, 3]),
        ~K.isin([1, 3]),
        ~S.isin(["a"]),
        pc.if_else(S.is_valid(), S.isin(["a", "b"]), pa.scalar(None, pa.bool_())),
        ~pc.if_else(S.is_valid(), S.isin(["a", "b"]), pa.scalar(None, pa.bool_())),
    ],
    ids=str,
)
def test_a_comparison_with_values_is_understood(expression):
    predicate = predicate_of(expression, SCHEMA)
    assert predicate is not None
    assert selected(predicate.to_arrow_expression()) == selected(expression)


@pytest.mark.parametrize(
    "expression",
    [
        F > 0.5,
        pc.field("odd(name)") > 1,
        K > N,
        K + 1 > 2,
        pc.starts_with(S, "a"),
        S.isin(["a", None]),
        S.is_null(nan_is_null=True),
        pc.field("b"),
        K > 2.5,
        pc.scalar(True),
        K.isin(list(range(100_000))),
    ],
    ids=lambda expression: str(expression)[:40],
)
def test_anything_else_is_left_to_arrow(expression):
    assert predicate_of(expression, SCHEMA) is None


def test_deep_nesting_is_left_to_arrow():
    expression = K > 0
    for _ in range(500):
        expression = ~expression
    assert predicate_of(expression, SCHEMA) is None


atoms = st.one_of(
    st.builds(lambda v: v < K, st.integers(-5, 5)),
    st.builds(lambda v: pa.scalar(v, pa.int32()) >= N, st.integers(-5, 5)),
    st.builds(lambda v: v == S, st.sampled_from(TEXTS)),
    st.builds(lambda v: v != S, st.sampled_from(TEXTS)),
    st.builds(S.isin, st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3)),
    st.just(S.is_null()),
    st.just(N.is_valid()),
    st.just(F < 1.0),
)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=6,
)


@given(expressions)
def test_what_is_understood_selects_the_same_rows(expression):
    predicate = predicate_of(expression, SCHEMA)
    if predicate is not None:
        assert selected(predicate.to_arrow_expression()) == selected(expression)


@given(st.text(max_size=20))
def test_any_text_is_read_right_or_not_at_all(text):
    predicate = predicate_of(text == S, SCHEMA)
    if predicate is not None:
        assert predicate.condition.value.as_py() == text


def test_expressions_skip_blocks_of_a_scan(memory_uri):
    table = lsmerge.create_table(
        memory_uri, pa.schema({"k": pa.int64()}), "k", options={"file.block-size": "4 kb"}
    )
    table.upsert({"k": range(5000)})
    scan = table.scan(filter=(K >= 10) & (K < 20))
    assert scan.to_arrow()["k"].to_pylist() == list(range(10, 20))
    (bucket,) = scan.explain()["buckets"]
    assert bucket["blocks_read"] == 1
    (whole,) = table.scan(filter=K + 0 < 20).explain()["buckets"]
    assert whole["blocks_read"] > 5
