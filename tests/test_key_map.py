"""The map of where keys may be: exactly what the index files of a version say, whichever came before."""

import tempfile
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import hash_layers, index_renewal, opening
from lsmerge.engine.hash_index import BucketSet, HashIndex, buffer_of, key_hashes
from lsmerge.engine.hash_layers import LivingLayers, Piece, followed
from lsmerge.engine.opening import store_at
from lsmerge.env import Env
from lsmerge.meta.data_file import BucketId
from lsmerge.storage.local_store import LocalStore
from lsmerge.table import Table
from lsmerge_native.hash_set import hash_set

SCHEMA = pa.schema(
    [("p", pa.string()), pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]
)


def array(values):
    return pa.array(list(values), pa.uint32())


def index_of(*buckets):
    return HashIndex(
        BucketSet(number, hash_set(buffer_of(array(sorted(hashes)))))
        for number, hashes in enumerate(buckets)
    )


def found(layers, living, hashes):
    """What is found, as the positions of hashes in each place."""
    places = LivingLayers(layers, living).find(array(hashes))
    return {
        (place.partition[0], place.bucket): sorted(n for some in rows for n in some.to_pylist())
        for place, rows in places.items()
    }


HASHES = st.sets(st.integers(0, 30), min_size=1, max_size=8)
COMMITS = st.lists(
    st.tuples(st.lists(st.lists(HASHES, min_size=1, max_size=3), max_size=3), st.integers(0, 3)),
    max_size=8,
)


@settings(max_examples=50)
@given(COMMITS, st.sampled_from([3, 10, 1000]))
def test_layers_follow_the_pieces(commits, limit):
    """Each commit brings some pieces of some buckets each, and takes the oldest away."""
    pieces, layers, asked = {}, [], list(range(31))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hash_layers, "LAYER_HASHES", limit)
        for number, (brought, gone) in enumerate(commits):
            come = [
                Piece(f"{number}-{i}", (f"p{i}",), sum(map(len, buckets)))
                for i, buckets in enumerate(brought)
            ]
            pieces |= {
                piece.key: (piece, buckets) for piece, buckets in zip(come, brought, strict=True)
            }
            for key in list(pieces)[:gone]:
                del pieces[key]
            come = [piece for piece in come if piece.key in pieces]

            def load(piece, pieces=pieces):
                return index_of(*pieces[piece.key][1])

            layers = list(followed(layers, pieces.keys(), come, load))
            expected = {}
            for piece, buckets in pieces.values():
                for bucket, hashes in enumerate(buckets):
                    expected.setdefault((piece.partition[0], bucket), []).extend(hashes)
            assert found(layers, pieces.keys(), asked) == {
                place: sorted(hashes) for place, hashes in expected.items()
            }


def test_small_pieces_end_in_few_layers():
    layers, sets = [], {}
    for number in range(200):
        piece = Piece(number, ("a",), 10)
        sets[number] = index_of(range(10 * number, 10 * number + 10))
        layers = list(followed(layers, sets.keys(), [piece], lambda piece: sets[piece.key]))
    assert len(layers) <= 9
    assert sum(len(layer.map()) for layer in layers) == 2000


def open_table(uri, **options):
    return lsmerge.create_table(
        uri, SCHEMA, "k", partition_by="p", options={"bucket": -1} | options
    )


def places(table, version, keys):
    context = table._context
    batch = pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int64())})
    at = context.key_map.at(context.versions.load(version))
    result = {}
    for place, rows in at.find(key_hashes(context.schema, batch)).items():
        for row in (n for some in rows for n in some.to_pylist()):
            result.setdefault(keys[row], set()).add(place)
    return result


def test_versions_in_any_order(memory_uri):
    table = open_table(memory_uri)
    versions = []
    for number in range(6):
        table.upsert([{"p": f"p{number % 3}", "k": number, "v": 0}])
        versions.append(table.latest_snapshot())
    table.sort_compact("v", buckets=2)
    expected = [
        {n: {BucketId((f"p{n % 3}",), 0)} for n in range(last + 1)} for last in range(len(versions))
    ]
    for last in (5, 0, 3, 5, 1):
        assert places(table, versions[last], list(range(6))) == expected[last]
    table.drop_partition({"p": "p1"})
    assert places(table, table.latest_snapshot(), [1, 4]) == {}
    table.upsert([{"p": "p1", "k": 9, "v": 1}])
    assert places(table, table.latest_snapshot(), [9])[9] == {BucketId(("p1",), 0)}


@pytest.fixture
def clocked(memory_uri):
    """Opens the same table again and again, each time at the time given."""
    open_table(memory_uri).upsert([{"p": f"p{n}", "k": n, "v": 0} for n in range(20)])

    def opened(directory=None, now_ms=None, **options):
        env = Env.system() if now_ms is None else replace(Env.system(), now_ms=lambda: now_ms)
        more = {} if directory is None else {DIRECTORY: str(directory)}
        if more or options:
            lsmerge.open_table(memory_uri).alter(options=more | options)
        return Table(opening.open_existing(store_at(memory_uri), env=env))

    return opened


DIRECTORY = "cross-partition-upsert.index-directory"
NO_ROOM = {"lookup.cache-max-memory-size": "100 b"}


def files_read(table):
    """How many index files making the map reads."""
    readings = []
    assert table.load_key_map(progress=readings.append) > 0
    assert [reading.files_done for reading in readings] == list(range(1, len(readings) + 1))
    return len(readings)


def test_a_map_that_does_not_fit_is_on_disk(clocked, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = clocked(**NO_ROOM)
    assert files_read(table) == 20
    assert len(list(tmp_path.rglob("layer-*"))) == 1
    table.upsert([{"p": f"q{n}", "k": n, "v": 1} for n in range(5, 25)])
    assert table.scan().count() == 25
    assert table.get(7)["p"] == "q7"
    assert files_read(table) == 0


@pytest.mark.parametrize("options", [{}, NO_ROOM])
def test_the_next_process_takes_up_what_it_finds(clocked, tmp_path, options):
    first = clocked(tmp_path / "maps", **options)
    assert files_read(first) == 20
    first.upsert([{"p": "new", "k": 100, "v": 1}])
    first.close()
    second = clocked()
    assert files_read(second) == 1
    second.upsert([{"p": "newer", "k": 100, "v": 2}, {"p": "newer", "k": 3, "v": 2}])
    assert second.get(100)["p"] == second.get(3)["p"] == "newer"
    assert second.scan().count() == 21


def test_a_start_that_was_interrupted_goes_on(clocked, tmp_path, monkeypatch):
    monkeypatch.setattr(hash_layers, "LAYER_HASHES", 4)
    table = clocked(tmp_path / "maps")

    def interrupt(reading):
        if reading.files_done == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.load_key_map(progress=interrupt)
    assert files_read(table) == 20 - 8
    table.upsert([{"p": "new", "k": n, "v": 1} for n in range(20)])
    assert table.scan(filter="p = 'new'").count() == 20


def test_damaged_files_are_made_anew(clocked, tmp_path):
    clocked(tmp_path).load_key_map()
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    (file.parent / "layer-x").write_bytes(b"")
    assert files_read(clocked()) == 20


def test_a_file_that_another_process_deletes_is_made_anew(clocked, tmp_path, monkeypatch):
    clocked(tmp_path).load_key_map()
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    get = LocalStore.get

    def get_and_lose(store, name):
        found = get(store, name)
        if name == file.name:
            file.unlink()
        return found

    monkeypatch.setattr(LocalStore, "get", get_and_lose)
    assert files_read(clocked(**NO_ROOM)) == 20


def test_files_of_index_files_that_are_gone_go_after_a_while(clocked, tmp_path):
    clocked(tmp_path).load_key_map()
    (old,) = (path for path in tmp_path.rglob("*") if path.is_file())
    table = clocked()
    table.sort_compact("v")
    late_ms = 1000 * int(old.stat().st_mtime) + 2 * 3_600_000
    assert files_read(clocked(now_ms=late_ms - 5_400_000)) == 20
    assert old.exists()
    assert files_read(clocked(now_ms=late_ms)) == 0
    assert not old.exists()


@settings(max_examples=12)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.booleans()), min_size=1, max_size=12
    ),
    st.integers(1, 4),
)
def test_every_key_has_one_home(steps, cut):
    """A row at a time against a dictionary; cut into commits of several writes."""
    table = lsmerge.create_table(
        "memory://key-map-homes", SCHEMA, "k", partition_by="p", options={"bucket": -1}
    )
    try:
        model = {}
        for start in range(0, len(steps), cut):
            with table.writer() as writer:
                for partition, key, gone in steps[start : start + cut]:
                    kind = "-D" if gone else "+I"
                    writer.write([{"p": partition, "k": key, "v": 1, "_row_kind": kind}])
                    model.pop(key, None)
                    if not gone:
                        model[key] = partition
        rows = table.scan().to_arrow().to_pylist()
        assert sorted((row["k"], row["p"]) for row in rows) == sorted(model.items())
        for key in range(7):
            row = table.get(key)
            assert (row and row["p"]) == model.get(key)
    finally:
        lsmerge.drop_table("memory://key-map-homes")


def index_hashes(table):
    context = table._context
    version = context.versions.load(table.latest_snapshot())
    return {
        p[0]: sum(f.num_hashes for f in version.index_files(p)) for p in version.indexed_partitions
    }


@pytest.fixture
def renewing(monkeypatch):
    monkeypatch.setattr(index_renewal, "MANY_HASHES", 10)


def placed_in(partition, keys, value=0):
    return [{"p": partition, "k": key, "v": value} for key in keys]


@pytest.mark.usefixtures("renewing")
def test_a_full_compaction_forgets_the_hashes_of_keys_that_moved(memory_uri):
    table = open_table(memory_uri, **{"dynamic-bucket.target-row-num": 8})
    table.upsert(placed_in("a", range(40)))
    table.upsert(placed_in("b", range(40)))
    assert index_hashes(table) == {"a": 40, "b": 40}
    table.compact(full=True)
    assert index_hashes(table) == {"b": 40}
    table.upsert(placed_in("c", range(10, 40)))
    table.compact(full=True, partition={"p": "b"})
    assert index_hashes(table) == {"b": 10, "c": 30}
    table.upsert(placed_in("b", range(8, 14), 1))
    assert table.scan().count() == 40
    assert {row["k"] for row in table.scan(filter="p = 'b'").to_arrow().to_pylist()} == set(
        range(14)
    )
    assert table.get(12) == {"p": "b", "k": 12, "v": 1}
    table.rollback_to(2)
    table.upsert(placed_in("a", range(5), 2))
    assert table.scan().count() == 40
    assert table.verify().ok


@pytest.mark.usefixtures("renewing")
def test_rows_placed_before_their_hashes_were_forgotten(memory_uri):
    ours, theirs = open_table(memory_uri), lsmerge.open_table(memory_uri)
    ours.upsert(placed_in("a", range(40)))
    ours.upsert(placed_in("b", range(35)))
    with ours.writer() as writer:
        writer.write(placed_in("a", range(10), 1))
        theirs.compact(full=True)
    assert index_hashes(ours) == {"a": 15, "b": 35}
    later = lsmerge.open_table(memory_uri)
    later.upsert(placed_in("c", range(40), 2))
    assert later.scan().count() == 40
    assert later.scan(filter="p = 'c'").count() == 40


@pytest.mark.usefixtures("renewing")
def test_an_index_that_changed_meanwhile_stays(memory_uri, monkeypatch):
    ours, theirs = open_table(memory_uri), lsmerge.open_table(memory_uri)
    ours.upsert(placed_in("a", range(40)))
    ours.upsert(placed_in("b", range(39)))
    edit_on = index_renewal._edit

    def rival_first(*arguments):
        if theirs.get(100) is None:
            theirs.upsert(placed_in("a", [100]))
        return edit_on(*arguments)

    monkeypatch.setattr(index_renewal, "_edit", rival_first)
    report = ours.compact(full=True)
    assert report.rows_written > 0
    assert index_hashes(ours) == {"a": 41, "b": 39}
    assert ours.get(100)["p"] == "a"
    assert ours.remove_orphan_files(older_than=timedelta(0)).files == ()


@pytest.mark.usefixtures("renewing")
@pytest.mark.parametrize("producer", ["none", "lookup", "full-compaction"])
def test_followers_do_not_notice(memory_uri, producer):
    table = open_table(memory_uri, **{"changelog-producer": producer, "write-only": True})
    replayed = {}
    following = 1
    for target in "abc":
        table.upsert(placed_in(target, range(30)))
        table.compact(full=True)
        for batch in table.changelog(start=following):
            for row in batch.to_pylist():
                if row["_row_kind"] in ("+I", "+U"):
                    replayed[row["k"]] = row["p"]
                elif replayed.get(row["k"]) == row["p"]:
                    del replayed[row["k"]]
        following = table.latest_snapshot().id + 1
        assert index_hashes(table) == {target: 30}
        assert replayed == dict.fromkeys(range(30), target)
