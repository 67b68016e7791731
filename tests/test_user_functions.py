"""Column functions that users register: in aggregation tables and sequence groups, right or wrong, there or not."""

import itertools
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lsmerge
from lsmerge.field_options import FUNCTION_NAMES
from lsmerge.merge.functions import FUNCTIONS

_names = itertools.count(1)
STRING = pa.string()


def concat(older, newer):
    return f"({older}{newer})"


class Total:
    """A sum, vectorised and one by one, that can take values back."""

    types = ("BIGINT", "INT")
    associative = True

    def __call__(self, older, newer):
        return older + newer

    def retract(self, value, taken):
        return (value or 0) - taken

    def fold(self, values, offsets):
        lists = pa.ListArray.from_arrays(offsets, values)
        groups = pa.table({"g": pc.list_parent_indices(lists), "v": pc.list_flatten(lists)})
        sums = groups.group_by("g", use_threads=False).aggregate([("v", "sum")])["v_sum"]
        return sums.cast(values.type)


class Nulls:
    """Counts on seeing every value: a null is written as a dash."""

    takes_nulls = True

    def __call__(self, older, newer):
        return f"{older or '-'}{newer or '-'}"


class Folding:
    """A function that only has a fold."""

    def __init__(self, fold):
        self.fold = fold


def registered(function):
    name = f"own_{next(_names)}"
    lsmerge.register_function(name, function)
    return name


def make(name, type_=STRING, options=None):
    schema = pa.schema([pa.field("k", pa.int64(), False), ("c", type_), ("s", pa.int64())])
    base = {"merge-engine": "aggregation", "fields.c.aggregate-function": name}
    uri = f"memory://user-functions-{next(_names)}"
    return lsmerge.create_table(uri, schema, "k", options=base | (options or {}))


def answer(name, values, type_=STRING, kinds=None, options=None):
    """The value of `c`, which every placement agrees on."""
    kinds = kinds or ["+I"] * len(values)
    changes = [
        {"k": 1, "c": value, "s": number, "_row_kind": kind}
        for number, (value, kind) in enumerate(zip(values, kinds, strict=True))
    ]
    found = []
    for cut, compacts in itertools.product((1, 2, len(changes)), (False, True)):
        table = make(name, type_, options)
        for start in range(0, len(changes), cut):
            table.write(changes[start : start + cut])
            if compacts:
                table.compact(full=True)
        found += [table.get(1)["c"], table.scan(columns=["c"]).to_arrow()["c"][0].as_py()]
    assert all(value == found[0] for value in found), found
    return found[0]


def test_a_function_of_two_values_is_a_left_fold_without_nulls():
    name = registered(concat)
    assert answer(name, ["a", None, "b", "c"]) == "((ab)c)"
    assert answer(name, [None, "a"]) == "a"
    assert answer(name, [None, None]) is None


def test_nulls_reach_a_function_that_takes_them():
    assert answer(registered(Nulls), [None, "a", None, None]) == "-a--"


def test_a_function_may_give_null_and_go_on():
    name = registered(lambda older, newer: None if older == newer else newer)
    assert answer(name, ["a", "a", "b"]) == "b"
    assert answer(name, ["a", "b", "b"]) is None


def test_values_are_taken_back():
    name = registered(Total)
    assert answer(name, [5, 3, 2], pa.int64(), ["+I", "-U", "+U"]) == 4
    assert answer(name, [3, 10], pa.int32(), ["-D", "+I"]) == 7


def test_a_function_that_cannot_take_values_back_refuses_at_the_door():
    table = make(registered(concat))
    with pytest.raises(lsmerge.SchemaMismatchError, match="ignore-retract"):
        table.write([{"k": 1, "c": "a", "_row_kind": "-D"}])
    options = {"fields.c.ignore-retract": "true"}
    kinds = ["+I", "+I", "-D"]
    assert answer(registered(concat), ["a", "b", "a"], kinds=kinds, options=options) == "(ab)"


def test_a_fold_sees_many_keys_at_once_and_only_those_with_several_values():
    seen = []

    def fold(values, offsets):
        seen.append((values.to_pylist(), offsets.to_pylist()))
        return pa.array([values[stop - 1].as_py() for stop in offsets.to_pylist()[1:]], values.type)

    table = make(registered(Folding(fold)))
    table.write({"k": [1, 2, 3, 1, 3], "c": ["a", "b", "c", "d", None]})
    table.write({"k": [3, 4], "c": ["e", "f"]})
    assert table.scan(columns=["c"]).to_arrow()["c"].to_pylist() == ["d", "b", "e", "f"]
    assert seen == [(["a", "d", "c", "e"], [0, 2, 4])]


def test_rounding_happens_at_every_step():
    name = registered(lambda older, newer: older + newer)
    assert answer(name, [16777216.0, 1.0, 1.0], pa.float32()) == 16777216.0


def test_in_a_sequence_group():
    options = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "c",
    }
    name = registered(concat)
    table = make(name, options=options)
    table.upsert([{"k": 1, "c": "b", "s": 2}])
    table.upsert([{"k": 1, "c": "a", "s": 1}, {"k": 1, "c": "c", "s": 3}])
    assert table.get(1)["c"] == "((ab)c)"


def test_as_the_default_function_and_with_other_spelling():
    lsmerge.register_function("Join-Them", concat)
    schema = pa.schema([pa.field("k", pa.int64(), False), ("c", pa.string())])
    options = {"merge-engine": "aggregation", "fields.default-aggregate-function": "join_them"}
    table = lsmerge.create_table(f"memory://default-{next(_names)}", schema, "k", options=options)
    table.upsert({"k": [1, 1], "c": ["a", "b"]})
    assert table.get(1)["c"] == "(ab)"


# --------------------------------------------------------------------------------------------- wrong

WRONG = {
    "raises": (lambda _o, _n: 1 / 0, "ZeroDivisionError"),
    "other type": (lambda _o, _n: "x", "'x' is no int64"),
    "fraction": (lambda _o, _n: 1.5, "1.5 is no int64: it would be stored as 1"),
    "too large": (lambda _o, _n: 2**64, "is no int64"),
    "fold raises": (Folding(lambda _v, _o: 1 / 0), "ZeroDivisionError"),
    "fold too short": (Folding(lambda v, _o: v.slice(0, 0)), "0 values for 1 keys"),
    "fold of another type": (Folding(lambda v, _o: v.cast(pa.int32())), "cast it to int64"),
    "fold of a list": (Folding(lambda v, _o: v.to_pylist()), "returned a list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_names_function_column_and_key_and_no_row_is_lost(name):
    function, reason = WRONG[name]
    own = registered(function)
    table = make(own, pa.int64())
    table.upsert({"k": [1, 2, 3], "c": [1, 2, 3]})
    table.upsert({"k": [2], "c": [4]})
    with pytest.raises(lsmerge.MergeValueError) as caught:
        table.scan().to_arrow()
    for part in (reason, own, "column 'c'", "{'k': 2}"):
        assert part in str(caught.value)
    assert table.compact(full=True).rows_written == 4


def test_of_many_keys_the_wrong_one_is_named():
    def fold(values, offsets):
        if 177 in values.to_pylist():
            raise ValueError("no")
        return values.take(pc.subtract(offsets.slice(1), pa.scalar(1, pa.int32())))

    table = make(registered(Folding(fold)), pa.int64())
    for start in (0, 100):
        table.upsert({"k": list(range(100)), "c": list(range(start, start + 100))})
    with pytest.raises(lsmerge.MergeValueError, match=r"\{'k': 77\}"):
        table.scan().to_arrow()


@pytest.mark.parametrize(
    ("name", "function", "reason"),
    [
        ("sum", concat, "taken"),
        ("string_agg", concat, "taken"),
        ("a.b", concat, "without a dot"),
        ("", concat, "name"),
        ("x", 5, "callable of two values"),
        ("x", type("OnlyRetract", (Folding,), {"retract": lambda *_: 0})(lambda *_: 0), "__call__"),
        ("x", type("Typed", (Total,), {"types": "INT"}), "tuple"),
        ("x", type("Typed", (Total,), {"types": ("BIGINTS",)}), "did you mean 'BIGINT'"),
        ("x", type("Nulls", (Total,), {"takes_nulls": 1}), "takes_nulls"),
    ],
)
def test_what_is_no_function_is_not_registered(name, function, reason):
    with pytest.raises(lsmerge.InvalidOptionError, match=reason):
        lsmerge.register_function(name, function)


def test_types_are_checked_at_creation():
    with pytest.raises(
        lsmerge.InvalidOptionError, match="type STRING is not for it; accepted: BIGINT, INT"
    ):
        make(registered(Total))
    schema = pa.schema([pa.field("k", pa.int64(), False), lsmerge.arrow_field("c", "VARCHAR(3)")])
    options = {"merge-engine": "aggregation", "fields.c.aggregate-function": registered(concat)}
    with pytest.raises(lsmerge.InvalidOptionError, match=r"VARCHAR\(3\) is not for it"):
        lsmerge.create_table(f"memory://limited-{next(_names)}", schema, "k", options=options)


def test_decimals_come_and_go():
    name = registered(lambda older, newer: older - newer)
    values = [Decimal("9.50"), Decimal("1.25"), Decimal("3.00")]
    assert answer(name, values, pa.decimal128(5, 2)) == Decimal("5.25")


# ----------------------------------------------------------------------------------------- not there


def test_an_unknown_name_is_refused_with_the_nearest():
    registered_name = registered(concat)
    with pytest.raises(lsmerge.InvalidOptionError, match="did you mean 'sum'"):
        make("summ")
    with pytest.raises(lsmerge.InvalidOptionError, match=f"did you mean '{registered_name}'"):
        make(f"{registered_name}x")
    with pytest.raises(lsmerge.InvalidOptionError, match="register_function"):
        make("summ")


def test_a_table_without_its_function_opens_and_refuses_only_to_combine(monkeypatch):
    name = registered(concat)
    table = make(name)
    table.upsert({"k": [1, 2], "c": ["a", "b"]})
    with monkeypatch.context() as patch:
        patch.setattr("lsmerge.user_functions._registered", {})
        other = lsmerge.open_table(table.uri)
        assert other.scan().count() == 2
        other.upsert({"k": [2, 2], "c": ["c", "d"]})
        assert other.get(1)["c"] == "a"
        for refused in (lambda: other.get(2), lambda: other.compact(full=True)):
            with pytest.raises(lsmerge.NotRegisteredError, match=f"register_function\\('{name}'"):
                refused()
        with pytest.raises(lsmerge.SchemaMismatchError, match="not registered"):
            other.delete([1])
    assert lsmerge.open_table(table.uri).get(2)["c"] == "((bc)d)"


def test_names_of_functions_are_in_step():
    assert FUNCTIONS.keys() == FUNCTION_NAMES
