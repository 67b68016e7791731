"""Mergers that users write: what reaches them, what they may return, and what happens without one.

That placement does not matter to them is in test_placement.
"""

import itertools
import sys

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.mergers import Record

_names = itertools.count(1)
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("n", pa.int32()),
        pa.field("v", pa.string()),
    ]
)


def custom(name, **more):
    options = {"record.merge.mode": "CUSTOM", "record.merge.strategy-id": name}
    return options | {f"record.merge.{key.replace('_', '-')}": value for key, value in more.items()}


def make(merger, schema=SCHEMA, options=None, register=True):
    """A table with a merger of its own."""
    name = f"merger-{next(_names)}"
    if register:
        lsmerge.register_merger(name, merger)
    uri = f"memory://custom-{name}"
    return lsmerge.create_table(uri, schema, "k", options=custom(name) | (options or {}))


class Merging:
    """A merger from a function."""

    def __init__(self, merge, **flags):
        self.merge = merge
        vars(self).update(flags)


class Batching:
    """A merger of batches from a function."""

    sees_deletes = False

    def __init__(self, merge_batch):
        self.merge_batch = merge_batch


def latest(_older, newer):
    return newer


def row(k=1, n=None, v=None):
    return {"k": k, "n": n, "v": v}


def rows(table):
    return table.scan().to_arrow().to_pylist()


# ------------------------------------------------------------------------------ what reaches a merger


def test_only_keys_of_several_rows_reach_a_merger_oldest_first():
    seen = []

    def merge(older, newer):
        seen.append((older["n"], newer["n"]))
        return newer.replace(n=older["n"] * 10 + newer["n"])

    table = make(Merging(merge))
    table.upsert([row(1, 1), row(2, 1), row(1, 2)])
    table.upsert([row(1, 3)])
    assert rows(table) == [row(1, 123), row(2, 1)]
    assert seen == [(1, 2), (12, 3)]


def test_a_record_knows_kind_ordering_and_all_columns():
    seen = []

    def merge(older, newer):
        seen.append((older.kind, newer.kind, newer.is_delete, older.ordering, newer.ordering))
        return dict(newer) if not newer.is_delete else None

    table = make(Merging(merge), options={"record.merge.ordering-fields": "n,v"})
    table.write([{**row(1, 1, "a"), "_row_kind": "+U"}])
    table.write([{**row(1, 2, "b"), "_row_kind": "-D"}])
    assert rows(table) == []
    assert seen == [("+U", "-D", True, (1, "a"), (2, "b"))]
    table.upsert([row(1, 3, "c")])
    assert rows(table) == [row(1, 3, "c")]
    assert seen[-1][:2] == ("-D", "+I")


def test_sequence_field_orders_rows_and_is_the_ordering():
    seen = []

    def merge(older, newer):
        seen.append((older.ordering, newer.ordering))
        return newer

    table = make(Merging(merge), options={"sequence.field": "n"})
    table.upsert([row(1, 5, "five")])
    table.upsert([row(1, 3, "three")])
    assert table.get(1) == row(1, 5, "five")
    assert seen == [((3,), (5,))]


def test_a_merger_that_leaves_deletes_to_the_table():
    table = make(Merging(lambda o, n: n.replace(n=o["n"] + n["n"]), sees_deletes=False))
    table.upsert([row(1, 1), row(1, 2), row(2, 5)])
    table.delete([1, 2])
    table.upsert([row(1, 10), row(1, 20)])
    assert rows(table) == [row(1, 30)]
    table.compact(full=True)
    assert rows(table) == [row(1, 30)]
    assert table.compact(full=True).rows_read == 0


def test_a_delete_that_a_merger_weighs_outlives_a_full_compaction():
    def by_event(older, newer):
        return newer if newer["n"] >= older["n"] else older

    table = make(Merging(by_event))
    table.upsert([row(1, 1, "first")])
    table.write([{**row(1, 5), "_row_kind": "-D"}])
    table.compact(full=True)
    table.upsert([row(1, 3, "late")])
    assert rows(table) == []
    table.upsert([row(1, 7, "new")])
    assert rows(table) == [row(1, 7, "new")]


def test_a_merger_may_forget_deletes():
    def merge(older, newer):
        return (
            None
            if newer.is_delete
            else newer.replace(n=older["n"])
            if not older.is_delete
            else newer
        )

    table = make(Merging(merge, forgets_deletes=True))
    table.upsert([row(1, 1), row(2, 1)])
    table.delete([1])
    assert table.compact(full=True).rows_written == 1
    table.upsert([row(1, 7), row(2, 7)])
    assert rows(table) == [row(1, 7), row(2, 1)]


def test_batches_hold_whole_groups_of_several_rows():
    seen = []

    def merge_batch(groups):
        seen.append((groups.rows["n"].to_pylist(), groups.offsets.to_pylist(), len(groups)))
        assert pa.ListArray.from_arrays(groups.offsets, groups.rows["n"]).to_pylist() == [
            [1, 2],
            [3, 4],
        ]
        assert groups.group_numbers().to_pylist() == [0, 0, 1, 1]
        assert groups.oldest()["n"].to_pylist() == [1, 3]
        assert groups.is_delete.to_pylist() == [False] * 4
        return groups.newest()

    table = make(Batching(merge_batch))
    table.upsert([row(1, 1), row(2, 9), row(3, 3)])
    table.upsert([row(1, 2), row(3, 4)])
    assert rows(table) == [row(1, 2), row(2, 9), row(3, 4)]
    assert seen == [([1, 2, 3, 4], [0, 2, 4], 2)]


def test_a_batch_may_delete_keys():
    def merge_batch(groups):
        newest = groups.newest()
        return newest, pa.array([n == 0 for n in newest["n"].to_pylist()], pa.bool_())

    table = make(Batching(merge_batch))
    table.upsert([row(1, 1), row(2, 1)])
    table.upsert([row(1, 0), row(2, 2)])
    assert rows(table) == [row(2, 2)]
    table.compact(full=True)
    assert rows(table) == [row(2, 2)]


# --------------------------------------------------------------------------------- what it may return


def test_a_row_that_is_kept_is_exact():
    """Nanoseconds, which Python's own times cannot hold."""
    schema = pa.schema(
        [pa.field("k", pa.int64(), False), pa.field("t", pa.timestamp("ns")), ("f", pa.float32())]
    )
    stamps = pa.array([1, 1_000_000_001], pa.timestamp("ns"))
    data = pa.table({"k": [1, 1], "t": stamps, "f": pa.array([0.1, 0.2], pa.float32())})
    for merge in (latest, lambda _o, n: dict(n), lambda o, n: {**n, "t": o["t"]}):
        table = make(Merging(merge), schema)
        table.upsert(data)
        found = table.scan().to_arrow()
        assert found["t"].combine_chunks() in (stamps.slice(0, 1), stamps.slice(1, 1))
        assert found["f"].combine_chunks() == pa.array([0.2], pa.float32())


def test_values_between_steps_are_those_a_file_would_hold():
    """A single-precision total is rounded at each step, wherever the step is made."""
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("f", pa.float32())])
    answers = set()
    for compacts in (False, True):
        table = make(Merging(lambda o, n: n.replace(f=o["f"] + n["f"])), schema)
        for value in (0.1, 16777216.0, 1.0, 1.0, 1.0):
            table.upsert([{"k": 1, "f": value}])
            if compacts:
                table.compact(full=True)
        answers.add(table.get(1)["f"])
    assert answers == {16777216.0}


def test_nested_values_come_and_go():
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), False),
            ("tags", pa.list_(pa.string())),
            ("at", pa.struct({"x": pa.int32(), "y": pa.int32()})),
        ]
    )

    def merge(older, newer):
        return newer.replace(
            tags=older["tags"] + newer["tags"], at={**newer["at"], "x": older["at"]["x"]}
        )

    table = make(Merging(merge), schema)
    table.upsert([{"k": 1, "tags": ["a"], "at": {"x": 1, "y": 2}}])
    table.upsert([{"k": 1, "tags": ["b"], "at": {"x": 3, "y": 4}}])
    assert table.get(1) == {"k": 1, "tags": ["a", "b"], "at": {"x": 1, "y": 4}}


def test_a_record_cannot_be_changed():
    def merge(older, _newer):
        older["n"] = 5
        return older

    table = make(Merging(merge))
    table.upsert([row(1, 1), row(1, 2)])
    with pytest.raises(lsmerge.MergeValueError, match="TypeError"):
        rows(table)


# ------------------------------------------------------------------------------------ hostile mergers

WRONG = {
    "raises": (lambda _o, _n: 1 / 0, "ZeroDivisionError"),
    "returns a text": (lambda _o, _n: "row", "returned a str"),
    "other key": (lambda _o, n: n.replace(k=2), "key column 'k' = 2"),
    "missing column": (lambda o, _n: {"k": o["k"], "n": 1}, "no column 'v'"),
    "unknown column": (lambda _o, n: n.replace(w=1), "unknown column 'w'"),
    "wrong type": (lambda _o, n: n.replace(n="many"), "column 'n'"),
    "fraction": (lambda _o, n: n.replace(n=1.5), "column 'n'"),
    "too large": (lambda _o, n: n.replace(n=2**31), "column 'n'"),
    "null key": (lambda _o, n: n.replace(k=None), "key column 'k' = None"),
    "lone surrogate": (lambda _o, n: n.replace(v="\ud800"), "column 'v'"),
    "record of another key": (lambda _o, _n: Record(row(7)), "key column 'k' = 7"),
}
WRONG_BATCHES = {
    "raises": (lambda _g: 1 / 0, "ZeroDivisionError"),
    "returns rows": (lambda g: g.rows.to_pylist(), "returned a list"),
    "all rows": (lambda g: g.rows, "2 rows for 1 keys"),
    "other keys": (
        lambda g: g.newest().set_column(0, SCHEMA.field(0), pa.array([9] * len(g))),
        "returned key {'k': 9}",
    ),
    "missing column": (lambda g: g.newest().drop_columns("v"), "no column 'v'"),
    "wrong type": (
        lambda g: g.newest().set_column(1, "n", pa.array(["x"] * len(g))),
        "column 'n'",
    ),
    "mask too short": (lambda g: (g.newest(), pa.array([], pa.bool_())), "mask"),
    "mask with nulls": (lambda g: (g.newest(), pa.array([None], pa.bool_())), "mask"),
    "mask of numbers": (lambda g: (g.newest(), pa.array([1])), "mask"),
}
HOSTILE = {
    **{f"merge {name}": (Merging(merge), reason) for name, (merge, reason) in WRONG.items()},
    **{
        f"batch {name}": (Batching(merge), reason)
        for name, (merge, reason) in WRONG_BATCHES.items()
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_wrong_outcome_names_merger_and_key_and_no_row_is_lost(name):
    merger, reason = HOSTILE[name]
    table = make(merger)
    table.upsert([row(k, k) for k in (1, 3, 4)])
    table.upsert([row(3, 5)])
    for read in (table.scan().to_arrow, lambda: table.get(3)):
        with pytest.raises(lsmerge.MergeValueError) as caught:
            read()
        assert reason in str(caught.value)
        assert "{'k': 3}" in str(caught.value)
        assert "merger-" in str(caught.value)
    assert table.compact(full=True).rows_written == 4
    lsmerge.register_merger(table.options["record.merge.strategy-id"], Merging(latest))
    assert [r["n"] for r in rows(table)] == [1, 5, 4]


def test_of_many_keys_the_wrong_one_is_named():
    def merge_batch(groups):
        if 77 in groups.rows["k"].to_pylist():
            raise ValueError("not this one")
        return groups.newest()

    table = make(Batching(merge_batch))
    for number in range(2):
        table.upsert([row(k, number) for k in range(100)])
    with pytest.raises(lsmerge.MergeValueError, match=r"\{'k': 77\}.*not this one"):
        rows(table)


def test_a_merger_that_stumbles_over_a_delete_is_told_so():
    table = make(Merging(lambda o, n: n.replace(n=o["n"] + n["n"])))
    table.upsert([row(1, 1)])
    table.delete([1])
    with pytest.raises(lsmerge.MergeValueError, match="sees_deletes = False"):
        rows(table)


def test_a_commit_that_an_associative_merger_refuses_leaves_no_trace():
    table = make(Merging(lambda _o, _n: 1 / 0, associative=True))
    table.upsert([row(1, 1)])
    with pytest.raises(lsmerge.MergeValueError, match="ZeroDivisionError"):
        table.upsert([row(2, 1), row(2, 2)])
    assert rows(table) == [row(1, 1)]


def test_an_interrupt_is_not_the_mergers_fault():
    def merge(_older, _newer):
        raise KeyboardInterrupt

    table = make(Merging(merge))
    table.upsert([row(1, 1), row(1, 2)])
    with pytest.raises(KeyboardInterrupt):
        table.get(1)


# ------------------------------------------------------------------------------------- unregistered


def test_a_table_without_its_merger_opens_and_refuses_only_to_merge():
    table = make(None, register=False)
    name = table.options["record.merge.strategy-id"]
    table.upsert([row(1, 1), row(2, 1)])
    assert len(rows(table)) == 2
    table.upsert([row(2, 2)])
    other = lsmerge.open_table(table.uri)
    assert other.get(1) == row(1, 1)
    for refused in (
        lambda: rows(other),
        lambda: other.get(2),
        lambda: other.compact(full=True),
        lambda: other.upsert([row(3, 1), row(3, 2)]),
    ):
        with pytest.raises(lsmerge.NotRegisteredError) as caught:
            refused()
        assert name in str(caught.value)
        assert "lsmerge.register_merger" in str(caught.value)
    lsmerge.register_merger(name, Merging(latest))
    assert rows(other) == [row(1, 1), row(2, 2)]


def test_rows_that_columns_order_are_compacted_without_a_merger():
    """Nothing may be merged there before it is read."""
    table = make(None, options={"sequence.field": "n"}, register=False)
    table.upsert([row(1, 1), row(1, 2)])
    assert table.compact(full=True).rows_written == 2
    with pytest.raises(lsmerge.NotRegisteredError):
        rows(table)


def test_keys_with_partitions():
    schema = pa.schema(
        [pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), ("n", pa.int64())]
    )
    lsmerge.register_merger("partitioned", Merging(lambda o, n: {**n, "n": o["n"] + n["n"]}))
    table = lsmerge.create_table(
        f"memory://partitions-{next(_names)}",
        schema,
        ["p", "k"],
        partition_by="p",
        options=custom("partitioned"),
    )
    for number in (1, 2):
        table.upsert([{"p": p, "k": 1, "n": number} for p in "ab"])
    assert [r["n"] for r in rows(table)] == [3, 3]


def test_the_first_implementation_with_the_strategy_is_used():
    names = [f"impl-{next(_names)}" for _ in range(3)]
    lsmerge.register_merger(names[0], Merging(latest, strategy_id="other"))
    lsmerge.register_merger(names[1], Merging(lambda o, _n: o, strategy_id="mine"))
    lsmerge.register_merger(names[2], Merging(latest, strategy_id="mine"))
    table = lsmerge.create_table(
        f"memory://impl-{next(_names)}",
        SCHEMA,
        "k",
        options=custom("mine", implementations=",".join(names)),
    )
    table.upsert([row(1, 1), row(1, 2)])
    assert rows(table) == [row(1, 1)]


@pytest.mark.parametrize(
    ("implementations", "reason"),
    [
        ("nowhere-to-be-found,impl-known", "'nowhere-to-be-found'"),
        ("impl-known", "'mine' among impl-known"),
    ],
)
def test_implementations_that_are_not_there_are_named(implementations, reason):
    lsmerge.register_merger("impl-known", Merging(latest, strategy_id="another"))
    table = lsmerge.create_table(
        f"memory://impl-{next(_names)}",
        SCHEMA,
        "k",
        options=custom("mine", implementations=implementations),
    )
    table.upsert([row(1, 1)])
    table.upsert([row(1, 2)])
    with pytest.raises(lsmerge.NotRegisteredError, match=reason):
        rows(table)


def test_a_strategy_id_finds_a_merger_under_another_name():
    lsmerge.register_merger(f"name-{next(_names)}", Merging(latest, strategy_id="uuid-of-mine"))
    table = lsmerge.create_table(
        f"memory://id-{next(_names)}", SCHEMA, "k", options=custom("uuid-of-mine")
    )
    table.upsert([row(1, 1), row(1, 2)])
    assert rows(table) == [row(1, 2)]


def test_nothing_is_imported_because_a_table_says_so(tmp_path, monkeypatch):
    """Neither from options given nor from those that a file holds."""
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('imported')\nclass Merger: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = "hostile_module.Merger"
    for options in (
        custom(path),
        custom(path, implementations=f"{path},hostile_module:Merger"),
    ):
        place = tmp_path / f"table-{next(_names)}"
        table = lsmerge.create_table(place, SCHEMA, "k", options=options)
        table.upsert([row(1, 1)])
        table.upsert([row(1, 2)])
        assert path in (place / "schema" / "schema-0.json").read_text()
        with pytest.raises(lsmerge.NotRegisteredError, match="hostile_module"):
            rows(lsmerge.open_table(place))
    assert "hostile_module" not in sys.modules


# --------------------------------------------------------------------------------------- registering


@pytest.mark.parametrize(
    ("name", "merger", "reason"),
    [
        ("", Merging(latest), "name"),
        (5, Merging(latest), "name"),
        ("m", object(), "without merge"),
        ("m", latest, "without merge"),
        ("m", Merging(latest, associative="yes"), "associative"),
        ("m", Merging(latest, sees_deletes=0), "sees_deletes"),
    ],
)
def test_what_is_no_merger_is_not_registered(name, merger, reason):
    with pytest.raises(lsmerge.InvalidOptionError, match=reason):
        lsmerge.register_merger(name, merger)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"record.merge.mode": "custom"}, "strategy-id"),
        (custom("m") | {"merge-engine": "aggregation"}, "merge-engine.*contradicts"),
        (custom("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"), "event-time-ordering"),
        (custom("m", ordering_fields="when"), "unknown column 'when'"),
    ],
)
def test_contradictions_are_refused_at_creation(options, reason):
    with pytest.raises(lsmerge.InvalidOptionError, match=reason):
        lsmerge.create_table(f"memory://no-{next(_names)}", SCHEMA, "k", options=options)
