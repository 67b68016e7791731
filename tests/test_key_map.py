"""The map of where keys may be: exactly what the index files of a version say, whichever came before."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import hash_layers, opening
from lsmerge.engine.hash_index import BucketSet, HashIndex, buffer_of, key_hashes
from lsmerge.engine.hash_layers import LivingLayers, Piece, followed
from lsmerge.engine.opening import store_at
from lsmerge.env import Env
from lsmerge.meta.data_file import BucketId
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
NO_ROOM = {"lookup.cache-max-memory-size": "1 kb"}


def files_read(table):
    """How many index files making the map reads."""
    readings = []
    assert table.load_key_map(progress=readings.append) > 0
    assert [reading.files_done for reading in readings] == list(range(1, len(readings) + 1))
    return len(readings)


def test_a_map_that_does_not_fit_is_on_disk(clocked):
    table = clocked(**NO_ROOM)
    assert files_read(table) == 20
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


@settings(max_examples=20)
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
