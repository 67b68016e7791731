"""Filters: parsing, binding, three-valued evaluation, bounds."""

import datetime as dt
import operator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge.bounds import MAX_INTERVALS
from lsmerge.condition import evaluate
from lsmerge.errors import InvalidFilterError
from lsmerge.predicate import And, Comparison, In, IsNull, Not, Or, Predicate, from_tuples, parse
from lsmerge.schema import TableSchema, arrow_field

COLUMNS = {
    "k": "TINYINT",
    "n": "BIGINT",
    "name": "STRING",
    "v": "VARCHAR(3)",
    "b": "BOOLEAN",
    "f": "FLOAT",
    "x": "DOUBLE",
    "d": "DECIMAL(6,2)",
    "day": "DATE",
    "t": "TIME(3)",
    "ts": "TIMESTAMP(3)",
    "tz": "TIMESTAMP_LTZ(6)",
    "ns": "TIMESTAMP(9)",
    "raw": "BYTES",
    "fix": "BINARY(2)",
    "tags": "ARRAY<INT>",
    "odd name": "INT",
}
SCHEMA = TableSchema.from_arrow(
    pa.schema([arrow_field(name, logical) for name, logical in COLUMNS.items()]), ["k", "n"]
)
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def mask_of(predicate, data):
    """The truth of a bound predicate for each row, null included."""
    return evaluate(predicate.condition, data.column)


def truth(predicate, column, values):
    """The truth of a bound predicate for each value of one column, by both ways of evaluating."""
    array = pa.array(values, SCHEMA.arrow_schema.field(column).type)
    table = pa.table({column: array})
    mask = mask_of(predicate, table.to_batches()[0]).to_pylist()
    kept = table.filter(predicate.to_arrow_expression())[column]
    assert len(kept) == mask.count(True)
    return mask


def check(text, column, values):
    return truth(parse(text).bind(SCHEMA), column, values)


# ------------------------------------------------------------------------------------------- parsing


def test_grammar():
    predicate = parse("k >= 5 and (v = 'it''s' or v is null) and name in ('x','y') and not b")
    assert predicate.condition == And(
        (
            Comparison("k", ">=", 5),
            Or((Comparison("v", "=", "it's"), IsNull("v"))),
            In("name", ("x", "y")),
            Not(Comparison("b", "=", True)),
        )
    )
    assert predicate.columns() == {"k", "v", "name", "b"}


B = Comparison("b", "=", True)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("5 < k", Comparison("k", ">", 5)),
        ("k <> -5", Comparison("k", "!=", -5)),
        ("k == +5", Comparison("k", "=", 5)),
        ("x > 1.5e3", Comparison("x", ">", Decimal("1500"))),
        ("K IS NOT NULL", Not(IsNull("K"))),
        ('"odd name" = 1', Comparison("odd name", "=", 1)),
        ("`odd name` = 1", Comparison("odd name", "=", 1)),
        ("raw = X'0aFF'", Comparison("raw", "=", b"\n\xff")),
        ("k not in (1, null)", Not(In("k", (1, None)))),
        ("k between 1 and 3", And((Comparison("k", ">=", 1), Comparison("k", "<=", 3)))),
        ("k = 1 or k = 2 and b", Or((Comparison("k", "=", 1), And((Comparison("k", "=", 2), B))))),
        ("not not b", Not(Not(Comparison("b", "=", True)))),
        ("\n k\t=1 ", Comparison("k", "=", 1)),
        ("name = '中文'", Comparison("name", "=", "中文")),
    ],
)
def test_spellings(text, condition):
    assert parse(text).condition == condition


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "k >",
        "k > 5 5",
        "k > n",
        "1 = 1",
        "k in ()",
        "k in 1",
        "k in (n)",
        "k is 5",
        "k not 5",
        "(k = 5",
        "k = 5)",
        "k = 'open",
        "k = 5x",
        "k & 5",
        "raw = X'abc'",
        "and k = 5",
        "k between 1",
        "(" * 5000,
        "not " * 5000 + "b",
        "k = 5; drop table",
    ],
)
def test_malformed_text_is_refused(text):
    with pytest.raises(InvalidFilterError, match="filter"):
        parse(text)


def test_long_filters_do_not_nest():
    text = " or ".join(f"n = {i}" for i in range(1000))
    assert check(text, "n", [0, 999, 1000, None]) == [True, True, False, None]
    values = ",".join(map(str, range(20_000)))
    assert check(f"n in ({values})", "n", [19_999, 20_000, None]) == [True, False, None]


def test_a_filter_too_large_for_arrow_is_refused():
    text = " or ".join(f"n = {i}" for i in range(20_000))
    with pytest.raises(InvalidFilterError, match=r"20000 tests.*IN"):
        parse(text).bind(SCHEMA)


def test_tuples():
    predicate = from_tuples([("k", ">=", 5), ("name", "IN", ["x"]), ("v", "is not null")])
    assert predicate.condition == And(
        (Comparison("k", ">=", 5), In("name", ("x",)), Not(IsNull("v")))
    )
    either = from_tuples([[("k", "==", 1)], [("k", "not in", {2})]])
    assert either.condition == Or((And((Comparison("k", "=", 1),)), And((Not(In("k", (2,))),))))


@pytest.mark.parametrize(
    "filters",
    [
        [],
        None,
        3,
        [3],
        [("k",)],
        [("k", "=")],
        [(1, "=", 1)],
        [("k", "in", "abc")],
        [("k", "=", 1), []],
    ],
)
def test_malformed_tuples_are_refused(filters):
    with pytest.raises(InvalidFilterError):
        from_tuples(filters)


# ------------------------------------------------------------------------------------------- binding


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nam = 'x'", "did you mean 'name'"),
        ("k = null", "IS NULL"),
        ("k = 'a'", "numbers"),
        ("k = true", "numbers"),
        ("k", "numbers"),
        ("name = 5", "text"),
        ("b = 1", "true, false"),
        ("raw = 'x'", "bytes"),
        ("d = 'abc'", "'1.50'"),
        ("d = '1e9999999'", "'1.50'"),
        ("day = '2024-13-01'", "'2024-01-31'"),
        ("day = '2024-01-01 12:00:00'", "dates"),
        ("day = 5", "dates"),
        ("t = '25:00:00'", "times"),
        ("ts = '2024-01-01T00:00:00Z'", "without time zone"),
        ("ts = 'soon'", "datetimes"),
        ("ts = 5", "datetimes"),
        ("tags = 1", "NULL"),
        ("tags in (1)", "NULL"),
    ],
)
def test_misfits_name_column_value_and_accepted(text, named):
    with pytest.raises(InvalidFilterError) as caught:
        parse(text).bind(SCHEMA)
    assert named in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), Decimal("NaN"), Decimal("sNaN"), True, "1", None])
@pytest.mark.parametrize("column", ["x", "n"])
def test_python_literals_without_meaning_are_refused(column, value):
    with pytest.raises(InvalidFilterError):
        from_tuples([(column, "=", value)]).bind(SCHEMA)


def test_unknown_operator_is_refused():
    with pytest.raises(InvalidFilterError, match="'like'"):
        from_tuples([("name", "like", "x%")]).bind(SCHEMA)


def test_literals_have_the_type_of_the_column():
    condition = parse("k >= 5").bind(SCHEMA).condition
    assert condition.value.equals(pa.scalar(5, pa.int8()))


NOON = dt.datetime(2024, 1, 31, 12)
CASES = [
    ("k >= 300", "k", [127, -128, None], [False, False, None]),
    ("k < 300", "k", [127, -128, None], [True, True, None]),
    ("not k >= 300", "k", [127, None], [True, None]),
    ("k = 300", "k", [127, None], [False, None]),
    ("k != 300", "k", [127, None], [True, None]),
    ("k > -300", "k", [-128, None], [True, None]),
    ("k <= -129", "k", [-128, None], [False, None]),
    ("k >= 4.5", "k", [4, 5], [False, True]),
    ("k = 4.5", "k", [4, None], [False, None]),
    ("k = 4.0", "k", [4, 5], [True, False]),
    ("k > 1e999", "k", [127], [False]),
    ("k > -1e999", "k", [-128], [True]),
    ("k < 1e-999", "k", [0, 1], [True, False]),
    (f"n < {'9' * 6000}", "n", [2**63 - 1], [True]),
    ("k in (1, 300, 1.5)", "k", [1, 2, None], [True, False, None]),
    ("k in (300)", "k", [1, None], [False, None]),
    ("k not in (300)", "k", [1, None], [True, None]),
    ("k in (1, null)", "k", [1, 2, None], [True, None, None]),
    ("k not in (1, null)", "k", [1, 2, None], [False, None, None]),
    ("k is null", "k", [1, None], [False, True]),
    ("k = 1 or k is null", "k", [1, 2, None], [True, False, True]),
    ("name >= 'b'", "name", ["a", "b", "ß", None], [False, True, True, None]),
    ("v = 'toolong'", "v", ["too", None], [False, None]),
    ("not b", "b", [True, False, None], [False, True, None]),
    ("b >= true", "b", [True, False], [True, False]),
    ("f = 0.1", "f", [0.1, 0.2], [True, False]),
    ("f < 1e300", "f", [1.0, float("inf")], [True, False]),
    ("f = 1e300", "f", [float("inf"), None], [False, None]),
    ("f != 1e300", "f", [float("nan"), None], [True, None]),
    ("x in (0)", "x", [0.0, -0.0, 1.0, None], [True, True, False, None]),
    ("x = 0", "x", [0.0, -0.0], [True, True]),
    ("x > -1e999", "x", [-1e308, float("-inf")], [True, False]),
    ("d = 1.5", "d", [Decimal("1.50")], [True]),
    ("d = '1.50'", "d", [Decimal("1.50")], [True]),
    ("d > 1.005", "d", [Decimal("1.00"), Decimal("1.01")], [False, True]),
    ("d < 1000000", "d", [Decimal("9999.99"), None], [True, None]),
    ("day >= '2024-01-31'", "day", [dt.date(2024, 1, 30), dt.date(2024, 1, 31)], [False, True]),
    ("t < '12:00:00.0005'", "t", [dt.time(12), dt.time(12, 0, 0, 1000)], [True, False]),
    ("ts >= '2024-01-31'", "ts", [NOON, dt.datetime(2024, 1, 30)], [True, False]),
    ("ts = '2024-01-31 12:00'", "ts", [NOON], [True]),
    ("ts > '2024-01-31T11:59:59.999999999'", "ts", [NOON], [True]),
    ("ts = '2024-01-31 12:00:00.0001'", "ts", [NOON], [False]),
    ("tz = '2024-01-31T13:00:00+01:00'", "tz", [NOON], [True]),
    ("tz = '2024-01-31 12:00:00'", "tz", [NOON], [True]),
    ("ns > '1600-01-01'", "ns", [NOON, None], [True, None]),
    ("ns < '9999-12-31'", "ns", [NOON], [True]),
    ("raw < X'02'", "raw", [b"\x01\xff", b"\x02"], [True, False]),
    ("fix > X'01'", "fix", [b"\x00\xff", b"\x01\x00"], [False, True]),
    ("fix <= X'010001'", "fix", [b"\x01\x00", b"\x01\x01"], [True, False]),
    ("fix = X'01'", "fix", [b"\x01\x00", None], [False, None]),
    ("fix in (X'0100', X'01')", "fix", [b"\x01\x00", b"\x01\x01"], [True, False]),
    ("tags is null", "tags", [[1], None], [False, True]),
]


@pytest.mark.parametrize(("text", "column", "values", "expected"), CASES)
def test_meaning(text, column, values, expected):
    assert check(text, column, values) == expected


@pytest.mark.parametrize(
    ("column", "literal", "value"),
    [
        ("ts", NOON, NOON),
        (
            "tz",
            NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
            NOON - dt.timedelta(hours=2),
        ),
        ("tz", NOON, NOON),
        ("day", dt.date(2024, 1, 31), dt.date(2024, 1, 31)),
        ("t", dt.time(1, 2, 3), dt.time(1, 2, 3)),
        ("raw", bytearray(b"ab"), b"ab"),
        ("d", Decimal("1.5"), Decimal("1.50")),
        ("d", 0.5, Decimal("0.50")),
    ],
)
def test_python_literals(column, literal, value):
    predicate = from_tuples([(column, "=", literal)]).bind(SCHEMA)
    assert truth(predicate, column, [value]) == [True]


@pytest.mark.parametrize("literal", [dt.datetime.min, dt.datetime.max])
def test_the_ends_of_the_calendar(literal):
    zone = dt.timezone(dt.timedelta(hours=-1 if literal.year > 1 else 1))
    predicate = from_tuples([("tz", "!=", literal.replace(tzinfo=zone))]).bind(SCHEMA)
    assert truth(predicate, "tz", [NOON]) == [True]


NUMBERS = st.integers(-400, 400) | st.decimals(-400, 400, places=3) | st.floats(-400, 400)


@given(st.sampled_from(sorted(OPERATORS)), NUMBERS, st.lists(st.integers(-128, 127), max_size=9))
def test_integer_comparisons_are_exact(symbol, literal, values):
    predicate = from_tuples([("k", symbol, literal)]).bind(SCHEMA)
    wanted = [OPERATORS[symbol](Fraction(value), Fraction(literal)) for value in values]
    table = pa.record_batch({"k": pa.array(values, pa.int8())})
    assert mask_of(predicate, table).to_pylist() == wanted


@given(
    st.sampled_from(sorted(OPERATORS)),
    st.binary(max_size=4),
    st.lists(st.binary(min_size=2, max_size=2), max_size=9),
)
def test_fixed_binary_comparisons_are_exact(symbol, literal, values):
    predicate = from_tuples([("fix", symbol, literal)]).bind(SCHEMA)
    table = pa.record_batch({"fix": pa.array(values, pa.binary(2))})
    assert mask_of(predicate, table).to_pylist() == [OPERATORS[symbol](v, literal) for v in values]


# -------------------------------------------------------------------------------------------- bounds


def boxes(text, *columns):
    found = parse(text).bind(SCHEMA).key_boxes(columns or ("k", "n"))
    return [
        [
            (b.low and b.low.as_py(), b.low_inclusive, b.high and b.high.as_py(), b.high_inclusive)
            for b in box
        ]
        for box in found
    ]


def point(value):
    return (value, True, value, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k = 5", [[point(5)]]),
        ("k > 5", [[(5, False, None, True)]]),
        ("k >= 5 and k < 9 and k < 12", [[(5, True, 9, False)]]),
        ("k > 5 and k >= 5", [[(5, False, None, True)]]),
        ("not k != 1 or k < 5 and k <= 5", [[], [(None, True, 5, False)]]),
        ("k < 5 and k <= 5", [[(None, True, 5, False)]]),
        ("k in (7, 3, 9)", [[point(3)], [point(7)], [point(9)]]),
        ("k in (7, 3, 9) and k > 3 and k != 1", [[point(7)], [point(9)]]),
        ("k = 1 or k = 5", [[point(1)], [point(5)]]),
        ("k = 1 or n = 5", [[point(1)], []]),
        ("k = 1 or k > 5", [[point(1)], [(5, False, None, True)]]),
        ("(k = 1 or k > 5) and k < 9", [[point(1)], [(5, False, 9, False)]]),
        ("k = 1 and n > 5", [[point(1), (5, False, None, True)]]),
        ("k in (1, 2) and n in (3, 4)", [[point(k), point(n)] for k in (1, 2) for n in (3, 4)]),
        ("k = 1 and n = 3 or k = 2 and n = 4", [[point(1), point(3)], [point(2), point(4)]]),
        ("k > 1 and n > 5", [[(1, False, None, True)]]),
        ("n > 5", [[]]),
        ("k != 5", [[]]),
        ("not k = 5", [[]]),
        ("k is null", []),
        ("k = 1 and name = 'x'", [[point(1)]]),
        ("k >= 300", [[(127, False, None, True)]]),
        ("k = 300 and k = 1", []),
        ("k = 2 and k = 1", []),
    ],
)
def test_key_boxes(text, expected):
    assert boxes(text) == expected


def test_of_a_very_long_list_neighbours_share_an_interval():
    found = parse(f"n in ({', '.join(map(str, range(0, 30_000, 2)))})").bind(SCHEMA)
    limits = found.key_boxes(["n"])
    assert len(limits) <= MAX_INTERVALS
    assert (limits[0][0].low.as_py(), limits[-1][0].high.as_py()) == (0, 29_998)


def test_restriction():
    predicate = parse("k = 1 and name = 'x' and (k = 1 or n = 2) and n > 3").bind(SCHEMA)
    restricted = predicate.restricted_to(["k", "name"])
    assert restricted.columns() == {"k", "name"}
    assert predicate.restricted_to(["day"]) is None


NAMES = st.sampled_from("kn")
SMALL = st.integers(-4, 4)
COMPARISONS = st.builds(Comparison, NAMES, st.sampled_from(sorted(OPERATORS)), SMALL)
LEAVES = COMPARISONS | st.builds(In, NAMES, st.lists(SMALL | st.none(), max_size=3))
CONDITIONS = st.recursive(
    LEAVES | st.builds(IsNull, NAMES),
    lambda part: (
        st.builds(Not, part)
        | st.builds(And, st.lists(part, min_size=1, max_size=3).map(tuple))
        | st.builds(Or, st.lists(part, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
GRID = pa.record_batch(
    {
        "k": pa.array([k for k in (*range(-5, 6), None) for _ in range(12)], pa.int8()),
        "n": pa.array([*range(-5, 6), None] * 12, pa.int64()),
    }
)


def sql(condition, row):
    """Three-valued logic in the most obvious way."""
    if isinstance(condition, Not):
        value = sql(condition.part, row)
        return None if value is None else not value
    if isinstance(condition, And | Or):
        values = [sql(part, row) for part in condition.parts]
        decisive = isinstance(condition, Or)
        return decisive if decisive in values else (None if None in values else not decisive)
    value = row[condition.column]
    if isinstance(condition, IsNull):
        return value is None
    if isinstance(condition, Comparison):
        return None if value is None else OPERATORS[condition.operator](value, condition.value)
    if value is None or (value not in condition.values and None in condition.values):
        return None
    return value in condition.values


@given(CONDITIONS)
def test_evaluation_agrees_with_sql_and_bounds_contain_what_passes(condition):
    predicate = Predicate(condition).bind(SCHEMA)
    rows = GRID.to_pylist()
    wanted = [sql(condition, row) for row in rows]
    assert mask_of(predicate, GRID).to_pylist() == wanted
    restricted = predicate.restricted_to(["k"])
    for row, passes in zip(rows, wanted, strict=True):
        if passes:
            key = [row["k"], row["n"]]
            # Columns of a key are never null, so boxes are not made for nulls.
            assert None in key or any(inside(box, key) for box in predicate.key_boxes(["k", "n"]))
            assert restricted is None or sql(restricted_source(condition), row)


def restricted_source(condition):
    parts = condition.parts if isinstance(condition, And) else (condition,)
    return And(tuple(part for part in parts if columns(part) <= {"k"}))


def columns(condition):
    if isinstance(condition, Not):
        return columns(condition.part)
    if isinstance(condition, And | Or):
        return set().union(*map(columns, condition.parts))
    return {condition.column}


def inside(ranges, values):
    for bound, value in zip(ranges, values, strict=False):
        low, high = bound.low and bound.low.as_py(), bound.high and bound.high.as_py()
        if low is not None and not (value > low or (bound.low_inclusive and value == low)):
            return False
        if high is not None and not (value < high or (bound.high_inclusive and value == high)):
            return False
    return True
