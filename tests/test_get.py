"""Single gets: the row that a scan shows, whatever the engine, the key and the shape of the tree."""

import datetime
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.run_cache import MAX_OPEN_RUNS
from lsmerge.errors import CorruptFileError, SchemaMismatchError
from lsmerge.schema import arrow_field
from lsmerge.storage.watching import Watcher

UTC = datetime.UTC
VALUES = {"n": pa.int32(), "d": pa.float64(), "v": pa.string(), "tags": pa.list_(pa.string())}
SMALL = {"file.block-size": "4 kb", "target-file-size": "4 kb", "write-buffer-size": "4 kb"}
KEYS = 30


@dataclass(frozen=True)
class Case:
    """A table, how key number i looks, and whether rows may be deleted by key alone."""

    key: dict
    make: object = lambda i: i
    options: dict = field(default_factory=dict)
    partition_by: tuple = ()
    deletes: bool = True
    targets: tuple = ()
    numbered: bool = False  # the column n is never null

    def create(self, uri):
        schema = pa.schema(
            [
                *(
                    kind if isinstance(kind, pa.Field) else pa.field(n, kind)
                    for n, kind in self.key.items()
                ),
                *(pa.field(name, kind) for name, kind in VALUES.items()),
            ]
        )
        return lsmerge.create_table(
            uri,
            schema,
            list(self.key),
            partition_by=self.partition_by,
            options=SMALL | self.options,
        )

    def row(self, chance, i):
        key = self.make(i)
        values = key if isinstance(key, tuple) else (key,)
        return dict(zip(self.key, values, strict=True)) | {
            "n": chance.choice([5 if self.numbered else None, chance.randrange(5)]),
            "d": chance.choice([None, chance.randrange(8) / 8]),
            "v": chance.choice([None, "", "é" * chance.randrange(300)]),
            "tags": chance.choice([None, [], ["a", None]]),
        }


INT = {"k": pa.int64()}
DAY = datetime.date(2026, 1, 1)
CASES = {
    "int8": Case({"k": pa.int8()}, lambda i: i - 15),
    "int16": Case({"k": pa.int16()}, lambda i: 900 * (i - 15)),
    "int32": Case({"k": pa.int32()}, lambda i: 50_000_000 * (i - 15), {"bucket": "3"}),
    "int64": Case(INT, lambda i: (i - 15) * 2**57, {"bucket": "3"}),
    "text": Case({"k": pa.string()}, lambda i: "ключ-" * (i % 7) + str(i), {"bucket": "3"}),
    "varchar": Case({"k": arrow_field("k", "VARCHAR(5)", nullable=False)}, lambda i: f"é{i}"),
    "binary": Case({"k": pa.binary()}, lambda i: bytes([0, i] * (i % 5)), {"bucket": "3"}),
    "date": Case({"k": pa.date32()}, lambda i: DAY + datetime.timedelta(i * 99), {"bucket": "3"}),
    "two-words": Case(
        {"a": pa.int32(), "b": pa.int16()}, lambda i: (i // 3, i - 15), {"bucket": "2"}
    ),
    "text-int": Case(
        {"t": pa.string(), "k": pa.int64()}, lambda i: ("a\0b" * (i % 4), i), {"bucket": "3"}
    ),
    "bucket-key": Case(
        {"t": pa.string(), "k": pa.int64()},
        lambda i: (str(i % 9), i),
        {"bucket": "3", "bucket-key": "k"},
    ),
    "long-text": Case({"t": pa.string(), "k": pa.int8()}, lambda i: ("x" * 10 * i, i)),
    "bool-float": Case({"b": pa.bool_(), "f": pa.float64()}, lambda i: (i % 2 == 0, i / 4)),
    "decimal": Case({"k": pa.decimal128(20, 2)}, lambda i: Decimal(i) / 4, {"bucket": "2"}),
    "timestamp": Case(
        {"k": pa.timestamp("us", "UTC")},
        lambda i: datetime.datetime(2026, 1, 1, i % 24, i, tzinfo=UTC),
    ),
    "partition-text": Case(
        {"p": pa.string(), "k": pa.int64()},
        lambda i: (f"é/{i % 3}", i),
        {"bucket": "2"},
        partition_by=("p",),
    ),
    "partitions": Case(
        {"k": pa.int64(), "day": pa.date32(), "p": pa.int32()},
        lambda i: (i, DAY + datetime.timedelta(i % 2), i % 3),
        partition_by=("day", "p"),
    ),
    "dynamic": Case(INT, options={"bucket": "-1", "dynamic-bucket.target-row-num": "15"}),
    "dynamic-partitions": Case(
        {"p": pa.int8(), "k": pa.string()},
        lambda i: (i % 3, str(i)),
        {"bucket": "-1", "dynamic-bucket.target-row-num": "9"},
        partition_by=("p",),
    ),
    "cross-partition": Case(INT, options={"bucket": "-1"}, partition_by=("n",), numbered=True),
    "default": Case(INT, options={"fields.v.default-value": "none", "fields.n.default-value": "7"}),
    "sequence": Case(INT, options={"sequence.field": "n"}, deletes=False),
    "partial-update": Case(INT, options={"merge-engine": "partial-update"}, deletes=False),
    "sequence-group": Case(
        INT,
        options={"merge-engine": "partial-update", "fields.n.sequence-group": "v"},
        deletes=False,
    ),
    "aggregation": Case(
        INT,
        options={"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
        deletes=False,
    ),
    "first-row": Case(INT, options={"merge-engine": "first-row"}, deletes=False),
    "versioned": Case(
        INT,
        options={"merge-engine": "versioned", "merge-engine.versioned.ver-column": "n"},
        deletes=False,
    ),
    "event-time": Case(
        INT,
        options={"record.merge.mode": "EVENT_TIME_ORDERING", "record.merge.ordering-fields": "n"},
        targets=("k", "n", "v"),
        numbered=True,
    ),
    "commit-time": Case(INT, options={"record.merge.mode": "COMMIT_TIME_ORDERING"}),
}


def check(table, case, chance, **at):
    """Every key, and some again in another form, which has to be converted."""
    names = list(case.key)
    rows = {tuple(row[n] for n in names): row for row in table.scan(**at).to_arrow().to_pylist()}
    some = [case.make(i) for i in chance.choices(range(KEYS), k=12)]
    wanted = [key if isinstance(key, tuple) else (key,) for key in dict.fromkeys(some)]
    found = table.get_many(some, **at)
    assert found.to_pylist() == [rows[values] for values in wanted if values in rows]
    as_arrow = table.get_many([dict(zip(names, values, strict=True)) for values in wanted], **at)
    assert found.equals(as_arrow)
    assert found.schema.equals(as_arrow.schema, check_metadata=True)
    for i in range(KEYS):
        key = case.make(i)
        values = key if isinstance(key, tuple) else (key,)
        expected = rows.get(values)
        assert table.get(key, **at) == expected, key
        if chance.random() < 0.1:
            assert table.get(dict(zip(names, values, strict=True)), **at) == expected, key


def step(table, case, chance):
    some = chance.sample(range(KEYS), chance.randrange(1, 15))
    action = chance.choice(["write", "write", "write", "delete", "columns", "compact", "full"])
    if action == "delete" and case.deletes:
        keys = [case.make(i) for i in some]
        table.delete(
            [dict(zip(case.key, k if isinstance(k, tuple) else (k,), strict=True)) for k in keys]
        )
    elif action == "columns" and case.deletes and not table.partition_by:
        columns = case.targets or [*case.key, "v"]
        rows = [case.row(chance, i) for i in some]
        table.write([{n: row[n] for n in columns} for row in rows], columns=columns)
    elif action in ("compact", "full"):
        table.compact(full=action == "full")
    else:
        rows = [case.row(chance, i) for i in some]
        table.upsert(rows)


@pytest.mark.parametrize("name", CASES)
def test_a_get_is_what_a_scan_shows(memory_uri, name):
    case, chance = CASES[name], random.Random(name)
    table = case.create(memory_uri)
    for _ in range(6):
        step(table, case, chance)
        check(table, case, chance)
    check(table, case, chance, snapshot=chance.randint(1, table.latest_snapshot().id))


# ------------------------------------------------------------------------------ what is the newest


@pytest.fixture(params=["events", "times"])
def shared(tmp_path, monkeypatch, request):
    """A table on disk, open twice; after `settle` the clock has ticked since its last change."""
    monkeypatch.setattr("lsmerge.storage.watching.GUARD_MS", 0)
    if request.param == "times":  # as where the kernel tells of no changes
        monkeypatch.setattr(Watcher, "_own_events", lambda self: None)
    first = lsmerge.create_table(
        tmp_path / "t", pa.schema({"k": pa.int64(), "v": pa.string()}), "k"
    )
    first.upsert({"k": [1, 2], "v": ["a", "b"]})
    return first, lsmerge.open_table(tmp_path / "t"), lambda: settle(tmp_path / "t")


def settle(root):
    changed = max((root / name).stat().st_ctime_ns for name in ("snapshot", "schema"))
    probe = root / "bucket-0"
    while probe.stat().st_ctime_ns <= changed:
        os.utime(probe)


def is_warm(table, key=1):
    """Whether a get would do without looking for a newer snapshot."""
    reader = table._context.points.newest
    return reader is not None and reader.newest(key) is not NotImplemented


def test_a_get_that_needs_not_look_for_a_newer_snapshot(shared, monkeypatch):
    table, _, settle = shared
    settle()
    monkeypatch.setattr("lsmerge.storage.watching.GUARD_MS", 10**9)
    assert table.get(1) == {"k": 1, "v": "a"}
    watch = table._context.points.watch()
    # Changed just now, so that another change might not show in a time.
    assert is_warm(table) == (watch is not None and watch.hears)
    monkeypatch.setattr("lsmerge.storage.watching.GUARD_MS", 0)
    assert table.get(1) == {"k": 1, "v": "a"}
    assert is_warm(table)


def test_commits_of_others_are_seen_at_once(shared):
    table, other, settle = shared
    for number in range(5):
        settle()
        table.get(1)
        assert is_warm(table)
        other.upsert({"k": [1, 10 + number], "v": [f"new-{number}", "x"]})
        assert table.get(1) == {"k": 1, "v": f"new-{number}"}
        assert table.get(10 + number) == {"k": 10 + number, "v": "x"}
    settle()
    table.get(1)
    other.delete([1])
    assert table.get(1) is None


def test_many_rows_of_the_newest_snapshot(shared):
    table, other, settle = shared
    for number in range(3):
        settle()
        for keys in ([1, 10 + number], pa.table({"k": [1, 10 + number]})):
            table.get_many(keys)
            assert is_warm(table)
        other.upsert({"k": [1, 10 + number], "v": [f"new-{number}", "x"]})
        for keys in ([1, 10 + number], pa.table({"k": [1, 10 + number]})):
            assert table.get_many(keys)["v"].to_pylist() == [f"new-{number}", "x"]


def test_schemas_of_others_are_seen_at_once(shared):
    table, other, settle = shared
    settle()
    table.get(1)
    other.alter(rename={"v": "w"}, add={"v": pa.int32()})
    assert table.get(1) == {"k": 1, "w": "a", "v": None}
    settle()
    assert table.get(2) == {"k": 2, "w": "b", "v": None}
    assert is_warm(table)


def test_expiry_by_others(shared):
    table, other, settle = shared
    settle()
    table.get(1)
    for number in range(3):
        other.upsert({"k": [1], "v": [str(number)]})
    other.compact(full=True)
    other.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.timedelta(0))
    assert table.get(1) == {"k": 1, "v": "2"}
    assert table.get(2) == {"k": 2, "v": "b"}


def test_a_file_that_expired_under_a_warm_reader(shared, tmp_path):
    table, other, settle = shared
    settle()
    table.get(7)  # out of the range of keys: nothing is opened
    assert is_warm(table, 7)
    other.upsert({"k": [1], "v": ["new"]})
    other.compact(full=True)
    other.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.timedelta(0))
    # As if the reader had looked at the directories just before that.
    reader = table._context.points.newest
    with pytest.raises(lsmerge.errors.SnapshotExpiredError):
        reader.get(1)
    assert table.get(1) == {"k": 1, "v": "new"}


def test_a_table_in_the_place_of_another(shared, tmp_path, monkeypatch):
    table, _, settle = shared
    settle()
    table.get(1)
    monkeypatch.setattr("lsmerge.storage.watching.MAX_AGE_MS", 0)
    (tmp_path / "t").rename(tmp_path / "old")
    other = lsmerge.create_table(tmp_path / "t", table.schema, "k")
    other.upsert({"k": [1], "v": ["other"]})
    other.upsert({"k": [1], "v": ["another"]})
    table._points.newest.watch(None)  # as after a second
    assert table.get(1) == {"k": 1, "v": "another"}
    assert not is_warm(table)  # too old already


def test_a_closed_table_answers_no_more(shared):
    table, _, settle = shared
    settle()
    table.get(1)
    table.close()
    with pytest.raises(lsmerge.errors.TableClosedError):
        table.get(1)


def test_a_warm_reader_does_not_ask_the_store(shared):
    table, _, settle = shared
    settle()
    table.get(1)
    calls = []
    table._context.store.exists = lambda path: calls.append(path) or True
    assert table.get(1) == {"k": 1, "v": "a"}
    assert calls == []


# ----------------------------------------------------------------------------- memory and threads


def wide(uri, **options):
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    table = lsmerge.create_table(uri, schema, "k", options={"file.block-size": "4 kb"} | options)
    table.upsert({"k": list(range(2000)), "v": [f"{k:050d}" for k in range(2000)]})
    return table


def at_hand(table):
    """The blocks that gets find without asking the cache."""
    files = table._context.runs._files.values()
    return [block for file in files for block in (file.blocks or []) if block is not None]


def kept_blocks(table):
    """The blocks that the cache has, in memory and on disk."""
    cache = table._context.runs
    shelves = [cache._memory] if cache._spill is None else [cache._memory, cache._spill.blocks]
    return [kept.block for shelf in shelves for kept in shelf._kept.values()]


@pytest.mark.parametrize("disk", ["0", "60 kb"])
def test_blocks_at_hand_are_those_that_the_cache_pays_for(memory_uri, disk):
    options = {"lookup.cache-max-memory-size": "20 kb", "lookup.cache-max-disk-size": disk}
    table = wide(memory_uri, **options)
    chance = random.Random(1)
    for _ in range(300):
        k = chance.randrange(2000)
        assert table.get(k) == {"k": k, "v": f"{k:050d}"}
        assert set(map(id, at_hand(table))) <= set(map(id, kept_blocks(table)))
        assert table.cache_stats().size_bytes <= 20 * 1024
    stats = table.cache_stats()
    assert stats.evictions > 50
    assert stats.blocks == stats.misses - stats.disk_hits - stats.evictions


def test_a_block_in_use_has_another_turn(memory_uri):
    options = {"lookup.cache-max-memory-size": "40 kb", "lookup.cache-max-disk-size": "0"}
    table = wide(memory_uri, **options)
    table.get(0)
    for k in range(0, 2000, 7):
        table.get(0)
        table.get(k)
    # The block of key 0 was always wanted again before its turn came.
    before = table.cache_stats()
    assert before.evictions > 20
    table.get(0)
    assert table.cache_stats().misses == before.misses


def test_few_files_are_open_at_once(memory_uri, monkeypatch):
    monkeypatch.setattr("lsmerge.engine.run_cache.MAX_OPEN_RUNS", 3)
    table = lsmerge.create_table(
        memory_uri, pa.schema({"k": pa.int64()}), "k", options={"bucket": "8"}
    )
    table.upsert({"k": range(100)})
    for _ in range(2):
        assert [table.get(k) for k in range(101)] == [{"k": k} for k in range(100)] + [None]
        assert sum(file.is_open for file in table._context.runs._files.values()) <= 3


def test_threads_get_while_others_write(tmp_path):
    table = wide(tmp_path / "t", **{"lookup.cache-max-memory-size": "20 kb"})

    def read(seed):
        chance = random.Random(seed)
        for _ in range(150):
            k = chance.randrange(2000)
            row = table.get(k)
            assert row == {"k": k, "v": f"{k:050d}"} or row["v"].startswith("new"), row
        return True

    def write(seed):
        for number in range(5):
            table.upsert({"k": [seed, 500 + seed + number], "v": [f"new-{number}"] * 2})
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all([*pool.map(read, range(3)), *pool.map(write, range(1))])
    assert table.get(0) == {"k": 0, "v": "new-4"}


def test_damage_is_seen_when_the_block_is_read(tmp_path):
    table = wide(tmp_path / "t")
    (path,) = (tmp_path / "t").glob("bucket-0/data-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    seen = 0
    for k in range(0, 2000, 20):
        try:
            assert table.get(k) == {"k": k, "v": f"{k:050d}"}
        except CorruptFileError:
            seen += 1
    assert seen > 0


# ------------------------------------------------------------------------------------ keys refused


@pytest.mark.parametrize(
    ("type_", "key"),
    [
        (pa.int64(), True),
        (pa.int64(), 2**63),
        (pa.int64(), 1.0),
        (pa.int64(), "1"),
        (pa.int64(), None),
        (pa.int64(), (1, 2)),
        (pa.int8(), 128),
        (pa.string(), b"a"),
        (pa.string(), 1),
        (pa.string(), "x" * 70_000),
        (pa.string(), "\ud800"),
        (pa.binary(), "a"),
        (pa.date32(), datetime.datetime(2026, 1, 1)),
    ],
)
def test_keys_of_other_types_are_refused_by_name(memory_uri, type_, key):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": type_}), "k")
    with pytest.raises(SchemaMismatchError, match="k"):
        table.get(key)  # also where there is no row at all
    table.upsert([])
    with pytest.raises(SchemaMismatchError, match="k"):
        table.get(key)


class Number(int):
    """Not exactly an int, so that it takes the long way."""


def test_keys_that_are_converted_first(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64(), "v": pa.string()}), "k")
    table.upsert({"k": [1], "v": ["a"]})
    for key in (1, (1,), [1], {"k": 1}, Number(1)):
        assert table.get(key) == {"k": 1, "v": "a"}


def test_values_are_those_of_arrow(memory_uri):
    columns = {
        "bool": (pa.bool_(), True),
        "i8": (pa.int8(), -128),
        "i16": (pa.int16(), -(2**15)),
        "i32": (pa.int32(), 2**31 - 1),
        "i64": (pa.int64(), -(2**63)),
        "f32": (pa.float32(), 0.1),
        "f64": (pa.float64(), -0.0),
        "text": (pa.string(), "añ\0b🙂"),
        "bytes": (pa.binary(), b"\0\xff"),
        "fixed": (pa.binary(3), b"abc"),
        "date": (pa.date32(), datetime.date(1, 1, 1)),
        "last": (pa.date32(), datetime.date(9999, 12, 31)),
        "time": (pa.time64("us"), datetime.time(1, 2, 3, 4)),
        "local": (pa.timestamp("ms"), datetime.datetime(2026, 1, 2)),
        "instant": (pa.timestamp("us", "UTC"), datetime.datetime(2026, 1, 2, tzinfo=UTC)),
        "money": (pa.decimal128(9, 2), Decimal("1.20")),
        "list": (pa.list_(pa.int8()), [1, None]),
        "map": (pa.map_(pa.string(), pa.int8()), [("a", 1)]),
        "row": (pa.struct({"x": pa.int8()}), {"x": None}),
    }
    schema = pa.schema({"k": pa.int64()} | {name: kind for name, (kind, _) in columns.items()})
    table = lsmerge.create_table(memory_uri, schema, "k")
    table.upsert([{"k": 1} | {name: value for name, (_, value) in columns.items()}, {"k": 2}])
    found = table.scan().to_arrow().to_pylist()
    assert [table.get(1), table.get(2)] == found
    assert [type(v) for v in table.get(1).values()] == [type(v) for v in found[0].values()]
    assert list(table.get(1)) == schema.names
    assert str(table.get(1)["f64"]) == "-0.0"


def test_a_file_is_opened_again_as_often_as_need_be(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": [1]})
    for _ in range(2 * MAX_OPEN_RUNS):
        table._context.runs.close()
        assert table.get(1) == {"k": 1}
