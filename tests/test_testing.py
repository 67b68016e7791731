"""check_merger finds what it searches for, keeps quiet otherwise, and shows few rows."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.errors import MergerLawError
from lsmerge.testing import check_merger
from tests.custom_mergers import MERGERS
from tests.test_placement import SCHEMA as WIDE

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("n", pa.int64(), False)])


class Adding:
    associative = True
    sees_deletes = False

    def merge(self, older, newer):
        return newer.replace(n=older["n"] + newer["n"])


class Broken(Adding):
    """Every variant breaks one law."""


class Subtracting(Broken):
    def merge(self, older, newer):
        return newer.replace(n=older["n"] - newer["n"])


class Counting(Broken):
    calls = 0

    def merge(self, older, newer):
        self.calls += 1
        return newer.replace(n=self.calls)


class Raising(Broken):
    def merge(self, older, newer):
        return newer.replace(n=7 // older["n"])


class Median(Broken):
    """Not a left fold: it looks at all values."""

    def merge_batch(self, groups):
        lists = pa.ListArray.from_arrays(groups.offsets, groups.rows["n"]).to_pylist()
        medians = pa.array([sorted(values)[len(values) // 2] for values in lists], pa.int64())
        return groups.newest().set_column(1, SCHEMA.field(1), medians)

    merge = None


class Disagreeing(Broken):
    def merge_batch(self, groups):
        return groups.oldest()


class Neighbours(Broken):
    """What one key gives depends on the others in the batch."""

    merge = None

    def merge_batch(self, groups):
        numbers = pa.array([len(groups)] * len(groups), pa.int64())
        return groups.newest().set_column(1, SCHEMA.field(1), numbers)


class HalfHearted(Broken):
    associative = False

    def partial_merge(self, older, newer):
        return newer


class Remembering(Broken):
    """It says that it forgets deletes, and does not."""

    associative = False
    sees_deletes = True
    forgets_deletes = True

    def merge(self, older, newer):
        return older if older.is_delete else newer


BROKEN = {
    Remembering: "without an old delete",
    Subtracting: "is not associative",
    Counting: "is not pure",
    Raising: "ZeroDivisionError",
    Median: "is not a left fold",
    Disagreeing: "by merge",
    Neighbours: "beside another key",
    HalfHearted: "partial_merge",
}


@pytest.mark.parametrize("merger", BROKEN, ids=lambda merger: merger.__name__)
def test_a_broken_law_is_found_and_few_rows_show_it(merger):
    with pytest.raises(MergerLawError, match=BROKEN[merger]) as caught:
        check_merger(merger, SCHEMA, "k")
    assert merger.__name__ in str(caught.value)
    rows = str(caught.value).count("+I ") + str(caught.value).count("-D ")
    assert 2 <= rows <= 3
    assert isinstance(caught.value, lsmerge.LsmergeError)
    assert isinstance(caught.value, AssertionError)


def test_changing_a_nested_value_is_found():
    class Appending:
        sees_deletes = False

        def merge(self, older, newer):
            older["tags"].append("x")
            return newer

    schema = pa.schema(
        [pa.field("k", pa.int64(), False), pa.field("tags", pa.list_(pa.string()), False)]
    )
    with pytest.raises(MergerLawError, match="changed the rows"):
        check_merger(Appending, schema, "k")


def test_floating_point_sums_are_not_associative():
    schema = pa.schema([SCHEMA.field("k"), pa.field("n", pa.float64(), False)])
    with pytest.raises(MergerLawError, match="is not associative"):
        check_merger(Adding, schema, "k")


def test_who_claims_nothing_gets_a_report():
    class Modest(Subtracting):
        associative = False

    report = check_merger(Modest, SCHEMA, "k", examples=30)
    assert not report.is_associative
    assert report.counterexample.count("+I ") == 3
    assert report.examples == 30


@pytest.mark.parametrize("name", MERGERS)
def test_the_mergers_of_the_placement_tests_keep_the_laws(name):
    values = {"n": [0, 1, 5, 7], "p": [1, 2]}
    check_merger(MERGERS[name], WIDE, "k", ordering_fields=["g"], values=values, examples=8)


def test_the_same_seed_finds_the_same_rows():
    found = set()
    for _ in range(2):
        with pytest.raises(MergerLawError) as caught:
            check_merger(Subtracting, SCHEMA, "k", seed=5)
        found.add(str(caught.value))
    assert len(found) == 1


def test_every_type_has_values():
    seen = {}

    class Watching:
        associative = True

        def merge(self, older, newer):
            for name, value in newer.items():
                seen.setdefault(name, set()).add(type(value))
            return newer

    types = {
        "k": pa.string(),
        "b": pa.bool_(),
        "i": pa.int8(),
        "f": pa.float32(),
        "d": pa.decimal128(9, 2),
        "y": pa.binary(),
        "x": pa.binary(4),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "on": pa.timestamp("ms", "UTC"),
        "t": pa.time64("us"),
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int32()),
        "s": pa.struct({"a": pa.int32()}),
    }
    schema = pa.schema([*types.items(), lsmerge.arrow_field("c", "CHAR(1)")])
    check_merger(Watching, schema, "k", examples=40)
    assert seen["d"] == {Decimal, type(None)}
    assert seen["t"] == {datetime.time, type(None)}
    assert seen["m"] == seen["l"] == {list, type(None)}
    assert seen["k"] == {str}
