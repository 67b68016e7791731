"""Column functions beyond scalars, and default values.

Every answer is asked for in several placements of the same rows: in one commit or one each, compacted or not, by scan
and by key. They must agree before they are compared with the rule.
"""

import datetime
import itertools
import math
from decimal import Decimal

import pyarrow as pa
import pyroaring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.merge.comparable import comparable, order_of
from tests.searches import examples

_names = itertools.count(1)

ROWS = pa.list_(pa.struct([("id", pa.int32()), ("v", pa.string()), ("s", pa.int32())]))
TIMED = pa.map_(pa.string(), pa.struct([("v", pa.string()), ("ts", pa.string())]))
NUMBERS = pa.map_(pa.int32(), pa.string())
TEXTS = pa.list_(pa.string())


def make(type_, function, options=None, **columns):
    """A table of a key, a column `c` with a function, and further columns."""
    schema = pa.schema([pa.field("k", pa.int32(), False), ("c", type_), *columns.items()])
    of_column = {f"fields.c.{name}": value for name, value in (options or {}).items()}
    return lsmerge.create_table(
        f"memory://functions-{next(_names)}",
        schema,
        "k",
        options={
            "merge-engine": "aggregation",
            "fields.c.aggregate-function": function,
            **of_column,
        },
    )


def as_rows(type_, changes):
    """Rows of key 1 from pairs (kind, value), or bare values, which are added."""
    changes = [c if isinstance(c, tuple) else ("+I", c) for c in changes]
    values = pa.array([value for _, value in changes], type_)
    keys = pa.array([1] * len(changes), pa.int32())
    return pa.table({"k": keys, "c": values, "_row_kind": [kind for kind, _ in changes]})


def placed(table, rows, how):
    """Write rows of key 1 in one of several ways."""
    first, *others = range(len(rows))
    cuts = {"together": [first], "apart": [first, *others], "rest": [first, *others[:1]]}
    starts = cuts[how.split()[0]]
    for start, stop in itertools.pairwise([*starts, len(rows)]):
        piece = rows.slice(start, stop - start)
        table.write(piece)
        if how.endswith("compacted"):
            table.compact(full=True)
    return table


# "rest" merges rows in their commit that an older one, elsewhere, has yet to meet.
WAYS = ("together", "rest", "rest compacted", "apart", "apart compacted")


def shown(array):
    """The whole array as text, in which not-a-number equals itself."""
    return array.to_string(window=1000, container_window=1000)


def answer(type_, function, changes, options=None):
    """The value of `c`, which all placements agree on; the exact Arrow value, not Python's."""
    rows = as_rows(type_, changes)
    found = []
    for how in WAYS:
        table = placed(make(type_, function, options), rows, how)
        scanned = table.scan().to_arrow()["c"].combine_chunks()
        looked_up = table.get_many([1])["c"].combine_chunks()
        scanned.validate(full=True)
        assert shown(looked_up) == shown(scanned), how
        found.append(scanned)
    for how, other in zip(WAYS, found, strict=True):
        assert shown(other) == shown(found[0]), how
    assert len(found[0]) == 1
    return found[0]


def value(type_, function, changes, options=None):
    return answer(type_, function, changes, options)[0].as_py()


def refused(match, type_, function, options=None):
    with pytest.raises(lsmerge.InvalidOptionError, match=match):
        make(type_, function, options)


# ------------------------------------------------------------------------------------------- count


def test_count_counts_values_not_their_sum():
    assert value(pa.int64(), "count", [5]) == 1
    assert value(pa.int64(), "count", [5, 7, None, 9]) == 3
    assert value(pa.int64(), "count", [None]) == 0
    assert value(pa.int8(), "count", [5, ("-U", 5), ("+U", 6)]) == 1
    assert value(pa.int64(), "count", [5, ("-D", None)]) == 1


def test_count_overflows_like_a_sum():
    table = make(pa.int8(), "count")
    table.write(as_rows(pa.int8(), [1] * 127))
    assert table.get(1)["c"] == 127
    table.write(as_rows(pa.int8(), [1]))
    table.compact(full=True)
    with pytest.raises(lsmerge.MergeValueError, match="column 'c' of key"):
        table.scan().to_arrow()


def test_count_is_for_integers():
    refused("type STRING is not for it", pa.string(), "count")


def test_count_in_a_sequence_group():
    schema = pa.schema([pa.field("k", pa.int32(), False), ("g", pa.int32()), ("c", pa.int64())])
    table = lsmerge.create_table(
        f"memory://functions-{next(_names)}",
        schema,
        "k",
        options={
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "c",
            "fields.c.aggregate-function": "count",
        },
    )
    for g, c in [(2, 10), (1, 20), (None, 30), (3, None)]:
        table.write([{"k": 1, "g": g, "c": c}])
    assert table.get(1) == {"k": 1, "g": 3, "c": 2}


# ----------------------------------------------------------------------------------------- collect


def test_collect_appends():
    assert value(TEXTS, "collect", [["b", "a"], None, ["b", None], []]) == ["b", "a", "b", None]
    assert value(TEXTS, "collect", [None, None]) is None
    assert value(TEXTS, "collect", [None, []]) == []


def test_collect_takes_one_occurrence_back():
    changes = [["a", "b", "a"], ("-U", ["a", "x"]), ["c"]]
    assert value(TEXTS, "collect", changes) == ["b", "a", "c"]
    assert value(TEXTS, "collect", [["a"], ("-D", ["a"])]) == []
    assert value(TEXTS, "collect", [["a"], ("-D", None)]) == ["a"]
    assert value(TEXTS, "collect", [None, ("-U", ["a"]), None]) is None


def test_collect_distinct():
    distinct = {"distinct": "true"}
    assert value(TEXTS, "collect", [["b", "a", "b"]], distinct) == ["b", "a"]
    assert value(TEXTS, "collect", [["b", None], ["a", "b", None]], distinct) == ["b", None, "a"]
    assert value(TEXTS, "collect", [["b", "a"], ("-U", ["b"]), ["c"]], distinct) == ["a", "c"]


def test_collect_compares_content():
    distinct = {"distinct": "true"}
    nested = pa.list_(pa.list_(pa.float64()))
    found = value(nested, "collect", [[[1.0], [math.nan]], [[math.nan], [1.0], [2.0]]], distinct)
    assert repr(found) == "[[1.0], [nan], [2.0]]"
    floats = value(pa.list_(pa.float64()), "collect", [[math.nan], [math.nan, 0.5]], distinct)
    assert repr(floats) == "[nan, 0.5]"
    maps = pa.list_(NUMBERS)
    assert value(maps, "collect", [[[(1, "a")]], [[(1, "a")], [(1, "b")]]], distinct) == [
        [(1, "a")],
        [(1, "b")],
    ]


def test_collect_keeps_nanoseconds():
    stamps = pa.list_(pa.timestamp("ns", "UTC"))
    found = answer(stamps, "collect", [[1, 2], ("-U", [1]), [3]])
    assert found.values.cast(pa.int64()).to_pylist() == [2, 3]
    found = answer(stamps, "collect", [[1, 2, 1], [3, 2]], {"distinct": "true"})
    assert found.values.cast(pa.int64()).to_pylist() == [1, 2, 3]


def test_collect_of_many_keys():
    table = make(pa.list_(pa.int64()), "collect")
    for start in (0, 500):
        rows = [{"k": i % 700, "c": [i, i]} for i in range(start, start + 1000)]
        table.write(pa.Table.from_pylist(rows, table.scan().schema))
    expected = {}
    for i in [*range(1000), *range(500, 1500)]:
        expected.setdefault(i % 700, []).extend([i, i])
    assert {row["k"]: row["c"] for row in table.scan().to_arrow().to_pylist()} == expected


def test_collect_in_a_sequence_group_without_rows():
    schema = pa.schema([pa.field("k", pa.int32(), False), ("g", pa.int32()), ("c", TEXTS)])
    table = lsmerge.create_table(
        f"memory://functions-{next(_names)}",
        schema,
        "k",
        options={
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "c",
            "fields.c.aggregate-function": "collect",
        },
    )
    table.write([{"k": 1, "g": None, "c": ["lost"]}, {"k": 2, "g": None, "c": None}])
    assert [row["c"] for row in table.scan().to_arrow().to_pylist()] == [None, None]
    table.write([{"k": 1, "g": 2, "c": ["b"]}])
    table.write([{"k": 1, "g": 1, "c": ["a"]}])
    assert [row["c"] for row in table.scan().to_arrow().to_pylist()] == [["a", "b"], None]


# -------------------------------------------------------------------------------------------- maps


def test_merge_map():
    changes = [[(1, "a"), (2, "b")], None, [(2, None), (3, "c")]]
    assert value(NUMBERS, "merge_map", changes) == [(1, "a"), (2, None), (3, "c")]
    assert value(NUMBERS, "merge_map", [None]) is None


def test_merge_map_makes_keys_unique_in_a_lone_map():
    assert value(NUMBERS, "merge_map", [[(1, "a"), (2, "b"), (1, "c")]]) == [(1, "c"), (2, "b")]


def test_merge_map_takes_keys_back():
    assert value(NUMBERS, "merge_map", [[(1, "a"), (2, "b")], ("-D", [(1, "?")])]) == [(2, "b")]
    assert value(NUMBERS, "merge_map", [[(1, "a")], ("-D", [(1, "a")])]) == []
    assert value(NUMBERS, "merge_map", [[(1, "a")], ("-D", None)]) == [(1, "a")]


def timed(*entries):
    return [(key, None if v is None else {"v": v[0], "ts": v[1]}) for key, v in entries]


def test_merge_map_with_keytime():
    changes = [
        timed(("p", ("a", "100")), ("q", ("b", "100"))),
        timed(("p", ("late", "050")), ("q", ("tie", "100")), ("r", ("c", None))),
        timed(("p", ("new", "200")), ("q", None)),
    ]
    options = {"ts-field": "ts"}
    found = value(TIMED, "merge_map_with_keytime", changes, options)
    assert found == timed(("p", ("new", "200")))


def test_merge_map_with_keytime_of_a_lone_map():
    lone = timed(("p", None), ("q", ("b", None)), ("r", ("c", "1")), ("r", ("d", "2")))
    assert value(TIMED, "merge_map_with_keytime", [lone]) == timed(("r", ("d", "2")))


def test_merge_map_with_keytime_checks_its_type():
    refused("at least two fields", NUMBERS, "merge_map_with_keytime")
    refused("unknown field 'tz'", TIMED, "merge_map_with_keytime", {"ts-field": "tz"})


# ------------------------------------------------------------------------------------------ nested


def rows(*values):
    return [None if v is None else dict(zip(("id", "v", "s"), v, strict=True)) for v in values]


KEY = {"nested-key": "id"}


def test_nested_update_appends_without_a_key():
    changes = [rows((1, "a", 1), None), None, rows((1, "a", 1), (2, "b", 1))]
    expected = rows((1, "a", 1), (1, "a", 1), (2, "b", 1))
    assert value(ROWS, "nested_update", changes) == expected
    taken = [*changes, ("-U", rows((1, "a", 1), (2, "other", 1)))]
    assert value(ROWS, "nested_update", taken) == rows((2, "b", 1))


def test_nested_update_by_key():
    changes = [rows((1, "a", 1), (2, "b", 1)), rows((1, "c", 1), (3, "d", 1))]
    expected = rows((1, "c", 1), (2, "b", 1), (3, "d", 1))
    assert value(ROWS, "nested_update", changes, KEY) == expected
    taken = [*changes, ("-U", rows((1, "other", 1)))]
    assert value(ROWS, "nested_update", taken, KEY) == expected[1:]


def test_nested_update_makes_keys_unique_in_a_lone_array():
    lone = rows((1, "a", 1), None, (2, "x", 1), (1, "b", 1))
    assert value(ROWS, "nested_update", [lone], KEY) == rows((1, "b", 1), (2, "x", 1))
    assert value(ROWS, "nested_update", [rows(None)]) == []


def test_nested_update_by_sequence():
    options = {**KEY, "nested-sequence-field": "s"}
    changes = [rows((1, "a", 2)), rows((1, "late", 1), (2, "x", None)), rows((2, "y", None))]
    found = value(ROWS, "nested_update", changes, options)
    assert found == rows((1, "a", 2), (2, "y", None))
    tie = [*changes, rows((1, "same", 2))]
    assert value(ROWS, "nested_update", tie, options)[0]["v"] == "same"


def test_nested_update_up_to_a_limit():
    limit = {"count-limit": "2"}
    changes = [rows((1, "a", 1)), rows((2, "b", 1), (3, "c", 1)), rows((4, "d", 1))]
    expected = rows((1, "a", 1), (2, "b", 1))
    assert value(ROWS, "nested_update", changes, limit) == expected
    assert value(ROWS, "nested_update", [rows((1, "a", 1), (2, "b", 1), (3, "", 1))], limit) == (
        expected
    )
    known = [*changes, rows((1, "new", 1))]
    found = value(ROWS, "nested_update", known, {**KEY, **limit})
    assert found == rows((1, "new", 1), (2, "b", 1))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("merge", rows((None, "b", 1), (1, "c", 1))), ("ignore", rows((1, "c", 1)))],
)
def test_nested_update_with_null_keys(strategy, expected):
    options = {**KEY, "nested-key-null-strategy": strategy}
    changes = [rows((None, "a", 1)), rows((None, "b", 1), (1, "c", 1))]
    assert value(ROWS, "nested_update", changes, options) == expected
    assert value(ROWS, "nested_update", [[*rows((None, "b", 1), (1, "c", 1))]], options) == expected


def test_nested_update_refuses_null_keys():
    table = make(ROWS, "nested_update", {**KEY, "nested-key-null-strategy": "error"})
    table.write(as_rows(ROWS, [rows((1, "a", 1), None), None]))
    with pytest.raises(lsmerge.SchemaMismatchError, match=r"'c' at row 2, key \{'k': 1\}.*id"):
        table.write(as_rows(ROWS, [None, rows((1, "a", 1)), rows((2, "", 1), (None, "", 1))]))
    assert table.latest_snapshot().id == 1


def test_a_taken_back_null_element_takes_no_null_key():
    changes = [rows((None, "a", 1)), ("-U", rows(None))]
    assert value(ROWS, "nested_update", changes, KEY) == rows((None, "a", 1))


def test_nested_update_checks_its_options():
    refused("set fields.c.nested-key too", ROWS, "nested_update", {"nested-sequence-field": "s"})
    refused("unknown field 'x'", ROWS, "nested_update", {"nested-key": "x"})
    refused("accepted: ARRAY<ROW", TEXTS, "nested_update")
    refused("does not look at it", ROWS, "collect", KEY)
    refused("does not look at it", pa.int64(), "sum", {"distinct": "true"})
    make(pa.int64(), "sum", {"distinct": "false"})


def test_nested_partial_update():
    changes = [rows((1, "a", None), (2, None, 5)), rows((1, None, 7), None, (2, "b", None)), None]
    expected = rows((1, "a", 7), (2, "b", 5))
    assert value(ROWS, "nested_partial_update", changes, KEY) == expected
    lone = rows((1, "a", None), (1, None, 3), None)
    assert value(ROWS, "nested_partial_update", [lone], KEY) == rows((1, "a", 3))
    refused("set fields.c.nested-key", ROWS, "nested_partial_update")


# ----------------------------------------------------------------------------------------- listagg


def test_listagg_distinct():
    distinct = {"distinct": "true"}
    assert value(pa.string(), "listagg", ["a", "b", None, "a,c"], distinct) == "a,b,c"
    assert value(pa.string(), "listagg", ["a,a, ,b"], distinct) == "a,b"
    assert value(pa.string(), "listagg", ["", "a"], distinct) == "a"
    assert value(pa.string(), "listagg", [None], distinct) is None
    other = {**distinct, "list-agg-delimiter": "; "}
    assert value(pa.string(), "listagg", ["a,a; b", "b"], other) == "a,a; b"


# ----------------------------------------------------------------------------------------- bitmaps


def bitmap(name, values, *, optimize=False):
    found = getattr(pyroaring, name)(values)
    if optimize:
        found.run_optimize()
    return found.serialize()


@pytest.mark.parametrize(("function", "name"), [("rbm32", "BitMap"), ("rbm64", "BitMap64")])
def test_bitmaps(function, name):
    one, two = bitmap(name, [1, 2]), bitmap(name, [3, 4, 70000])
    union = bitmap(name, [1, 2, 3, 4, 70000], optimize=True)
    assert value(pa.binary(), function, [one, None, two]) == union
    verbatim = bitmap(name, range(1, 5))
    assert value(pa.binary(), function, [None, verbatim]) == verbatim
    assert value(pa.binary(), function, [None]) is None


def test_a_bitmap_with_two_best_encodings_does_not_depend_on_placement():
    run_of_three = bytes.fromhex("3b3000000100000200010001000200")
    changes = [bitmap("BitMap", [11]), bitmap("BitMap", [10]), run_of_three]
    found = value(pa.binary(), "rbm32", changes)
    assert set(pyroaring.BitMap.deserialize(found)) == {1, 2, 3, 10, 11}


def test_bytes_that_are_no_bitmap_are_refused():
    for function, good in (("rbm32", bitmap("BitMap", [1])), ("rbm64", bitmap("BitMap64", [1]))):
        for bad in (b"", b"garbage", good[:-1]):
            table = make(pa.binary(), function)
            with pytest.raises(lsmerge.SchemaMismatchError, match=r"'c' at row 1, key \{'k': 1\}"):
                table.write(as_rows(pa.binary(), [good, bad]))
            assert table.latest_snapshot() is None


def test_sketches():
    datasketches = pytest.importorskip("datasketches")

    def hll(numbers):
        sketch = datasketches.hll_sketch(10)
        for number in numbers:
            sketch.update(number)
        return sketch.serialize_compact()

    def theta(numbers):
        sketch = datasketches.update_theta_sketch()
        for number in numbers:
            sketch.update(number)
        return sketch.compact().serialize()

    ranges = [range(3), range(2, 900), range(500, 3000), range(10000)]
    for function, sketch, parse in (
        ("hll_sketch", hll, datasketches.hll_sketch.deserialize),
        ("theta_sketch", theta, datasketches.compact_theta_sketch.deserialize),
    ):
        found = value(pa.binary(), function, [sketch(numbers) for numbers in ranges])
        assert parse(found).get_estimate() == pytest.approx(10000, rel=0.15)
        assert value(pa.binary(), function, [sketch(range(9))]) == sketch(range(9))
        with pytest.raises(lsmerge.SchemaMismatchError, match="sketch"):
            make(pa.binary(), function).write(as_rows(pa.binary(), [b"nonsense"]))


def test_sketches_need_their_package(monkeypatch):
    monkeypatch.setattr("lsmerge.merge.bitmap_functions.find_spec", lambda name: None)
    refused(r"pip install 'lsmerge\[sketches\]'", pa.binary(), "hll_sketch")


# ---------------------------------------------------------------------------------------- retracts


@pytest.mark.parametrize(
    ("type_", "function", "options"),
    [
        (TIMED, "merge_map_with_keytime", {}),
        (ROWS, "nested_partial_update", KEY),
        (pa.string(), "listagg", {"distinct": "true"}),
        (pa.binary(), "rbm32", {}),
        (pa.binary(), "rbm64", {}),
    ],
)
def test_what_cannot_be_taken_back_is_refused(type_, function, options):
    with pytest.raises(lsmerge.SchemaMismatchError, match=f"{function}.*cannot take back"):
        make(type_, function, options).write(as_rows(type_, [("-U", None)]))
    table = make(type_, function, {**options, "ignore-retract": "true"})
    table.write(as_rows(type_, [None, ("-U", None)]))
    assert table.get(1)["c"] is None


@pytest.mark.parametrize("function", ["last_value", "last_non_null_value"])
@pytest.mark.parametrize(
    ("type_", "given_value"), [(TEXTS, ["a"]), (NUMBERS, [(1, "a")]), (ROWS, rows((1, "a", 1)))]
)
def test_last_values_of_nested_columns_are_taken_back(function, type_, given_value):
    assert value(type_, function, [given_value]) == given_value
    assert value(type_, function, [given_value, ("-U", given_value)]) is None
    assert value(type_, function, [given_value, ("-U", given_value), given_value]) == given_value


# ------------------------------------------------------------------------------ placement, at random

small = st.integers(0, 3)
texts = st.sampled_from("abc")
nested_rows = st.lists(
    st.none()
    | st.fixed_dictionaries({"id": st.none() | small, "v": texts, "s": st.none() | small}),
    max_size=3,
)
maps = st.lists(st.tuples(small, st.none() | texts), max_size=3)
timed_maps = st.lists(
    st.tuples(
        texts,
        st.none() | st.fixed_dictionaries({"v": texts, "ts": st.none() | st.sampled_from("12")}),
    ),
    max_size=3,
)
bitmap_sets = st.sets(st.integers(0, 6)).map(
    lambda s: bitmap("BitMap", s, optimize=len(s) % 2 == 0)
)
AT_RANDOM = {
    "collect": (TEXTS, st.lists(texts, max_size=3), [{}, {"distinct": "true"}], True),
    "merge_map": (NUMBERS, maps, [{}], True),
    "merge_map_with_keytime": (TIMED, timed_maps, [{}], False),
    "nested_update": (
        ROWS,
        nested_rows,
        [
            {},
            KEY,
            {"count-limit": "2"},
            {**KEY, "count-limit": "2"},
            {**KEY, "nested-sequence-field": "s"},
            {**KEY, "nested-key-null-strategy": "ignore"},
        ],
        True,
    ),
    "nested_partial_update": (ROWS, nested_rows, [KEY], False),
    "listagg": (
        pa.string(),
        st.sampled_from(["a", "b", "a,b", "", "b,,c"]),
        [{"distinct": "true"}],
        False,
    ),
    "rbm32": (pa.binary(), bitmap_sets, [{}], False),
}


@pytest.mark.parametrize("function", AT_RANDOM)
@settings(max_examples=examples(4))
@given(data=st.data())
def test_placement_does_not_matter(function, data):
    type_, values, options, retracts = AT_RANDOM[function]
    kinds = st.sampled_from(["+I", "-U"] if retracts else ["+I"])
    changes = data.draw(st.lists(st.tuples(kinds, st.none() | values), max_size=5))
    # An add at the end makes the key visible.
    answer(type_, function, [*changes, ("+U", None)], data.draw(st.sampled_from(options)))


# ---------------------------------------------------------------------------------- default values

DEFAULTS = {
    pa.int8(): ("-7", -7),
    pa.int64(): ("12", 12),
    pa.float32(): ("1.5", 1.5),
    pa.float64(): ("1e3", 1000.0),
    pa.bool_(): ("true", True),
    pa.decimal128(5, 2): ("1.50", Decimal("1.50")),
    pa.string(): (" n/a", " n/a"),
    pa.binary(): ("ab", b"ab"),
    pa.binary(2): ("ab", b"ab"),
    pa.date32(): ("2024-02-29", datetime.date(2024, 2, 29)),
    pa.time32("s"): ("12:30:00", datetime.time(12, 30)),
    pa.time64("us"): ("12:30:00.5", datetime.time(12, 30, 0, 500000)),
    pa.timestamp("ms"): (
        "2024-01-31 13:45:00.5",
        datetime.datetime(2024, 1, 31, 13, 45, 0, 500000),
    ),
    pa.timestamp("us", "UTC"): (
        "2024-01-31T13:45:00Z",
        datetime.datetime(2024, 1, 31, 13, 45, tzinfo=datetime.UTC),
    ),
}


def with_default(uri, field, text, **options):
    field = field if isinstance(field, pa.Field) else pa.field("v", field)
    schema = pa.schema([pa.field("k", pa.int32(), False), field, ("w", pa.int32())])
    return lsmerge.create_table(
        uri, schema, "k", options={f"fields.{field.name}.default-value": text, **options}
    )


@pytest.mark.parametrize("type_", DEFAULTS, ids=str)
def test_a_default_is_read_instead_of_null(type_, memory_uri):
    text, expected = DEFAULTS[type_]
    table = with_default(memory_uri, type_, text)
    table.write(pa.table({"k": [1], "v": pa.nulls(1, type_), "w": [None]}))
    row = {"k": 1, "v": expected, "w": None}
    assert table.scan().to_arrow().to_pylist() == [row]
    assert table.get(1) == row
    assert table.get_many([1]).to_pylist() == [row]
    assert next(iter(table.changelog()))["v"].to_pylist() == [expected]
    assert table.scan(columns=["w"]).to_arrow().to_pylist() == [{"w": None}]


def test_filters_see_the_default(memory_uri):
    table = with_default(memory_uri, pa.int32(), "5")
    table.write([{"k": 1, "v": None}, {"k": 2, "v": 6}, {"k": 3, "v": 5}])
    assert table.scan(columns=["k"], filter="v = 5").to_arrow()["k"].to_pylist() == [1, 3]
    assert table.scan(filter="v = 5").count() == 2
    assert table.scan(filter="v is null").count() == 0
    assert table.scan(filter="k = 1 and v = 5").count() == 1


def test_a_default_is_never_merged_or_stored(memory_uri):
    table = with_default(memory_uri, pa.int32(), "5", **{"merge-engine": "partial-update"})
    table.write([{"k": 1, "w": 1}])
    table.compact(full=True)
    assert table.get(1) == {"k": 1, "v": 5, "w": 1}
    table.write([{"k": 1, "v": 7}])
    table.write([{"k": 1, "w": 2}])
    assert table.get(1) == {"k": 1, "v": 7, "w": 2}
    table.compact(full=True)
    assert lsmerge.open_table(memory_uri).get(1) == {"k": 1, "v": 7, "w": 2}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (pa.int8(), "300"),
        (pa.int32(), "abc"),
        (pa.int32(), "1.5"),
        (pa.decimal128(5, 2), "1.555"),
        (pa.decimal128(5, 2), "1000"),
        (pa.bool_(), "maybe"),
        (pa.date32(), "yesterday"),
        (pa.timestamp("s"), "2024-01-01 00:00:00.5"),
        (pa.binary(2), "abc"),
        (TEXTS, "[]"),
        (lsmerge.arrow_field("v", "VARCHAR(2)"), "abc"),
        (lsmerge.arrow_field("v", "VARBINARY(2)"), "abc"),
    ],
    ids=str,
)
def test_a_default_must_be_a_value_of_the_column(field, text, memory_uri):
    with pytest.raises(lsmerge.InvalidOptionError, match=r"fields\.v\.default-value.*not a value"):
        with_default(memory_uri, field, text)


def test_a_default_is_for_existing_columns_outside_the_key(memory_uri):
    with pytest.raises(lsmerge.InvalidOptionError, match="key or partition column"):
        with_default(memory_uri, pa.int32(), "1", **{"fields.k.default-value": "1"})
    with pytest.raises(lsmerge.InvalidOptionError, match="unknown column 'x'"):
        with_default(memory_uri, pa.int32(), "1", **{"fields.x.default-value": "1"})


def test_elements_have_an_order_nulls_first_and_not_a_number_last():
    values = comparable(pa.array([math.nan, 1.5, None, -1e300]))
    assert sorted(range(4), key=lambda place: order_of(values[place])) == [2, 3, 1, 0]
