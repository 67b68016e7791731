"""Tables on disk are what docs/format.md says, and stay readable: an independent decoder, and golden tables.

`python -m tests.test_format` writes tests/fixtures/v1 anew; do that only with a new format version.
"""

import datetime as dt
import decimal
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine import opening
from lsmerge.env import Env
from lsmerge.table import Table
from tests.native.spark_hash import murmur
from tests.table_decoder import placed_hashes, read_changelog, read_table

FIXTURES = Path(__file__).parent / "fixtures" / "v1"
SCHEMA = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
OPTIONS = {"bucket": "2", "sequence.field": "seq", "file.block-size": "4 kb"}


def rows(start, stop, seq):
    return [
        {
            "day": dt.date(2024, 1, 1 + i % 2),
            "name": f"name.{i % 5}/é",
            "n": i - 3,
            "seq": None if i % 7 == 0 else seq + i,
            "amount": decimal.Decimal(i) / 4,
            "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=i),
            "tags": None if i % 3 == 0 else ["t"] * (i % 3),
        }
        for i in range(start, stop)
    ]


def build(root, file_format, **producer):
    """A table of two partitions and two buckets, with compacted, new, deleted and late rows."""
    env = Env.seeded(1)
    options = OPTIONS | {"file.format.per.level": f"0:{file_format},5:parquet"} | producer
    store = opening.store_at(str(root))
    table = Table(
        opening.create(store, SCHEMA, ["day", "name", "n"], "day", options, exist_ok=False, env=env)
    )
    table.upsert(rows(0, 40, 100))
    table.compact(full=True)
    table.upsert(rows(10, 20, 50))
    table.upsert(rows(30, 45, 200))
    doomed = [{k: r[k] for k in ("day", "name", "n", "seq")} for r in rows(1, 6, 900)]
    table.delete(
        pa.Table.from_pylist(doomed, schema=pa.schema([SCHEMA.field(i) for i in range(4)]))
    )
    return table


def in_order(found):
    return sorted(found, key=lambda row: (row["day"], row["name"], row["n"]))


@pytest.mark.parametrize("target", ["2", "1000000"])
def test_an_independent_decoder_finds_the_dynamic_bucket_of_every_key(tmp_path, target):
    schema = pa.schema([("p", pa.string()), pa.field("k", pa.int64(), nullable=False)])
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": target}
    table = lsmerge.create_table(
        str(tmp_path / "t"), schema, ["p", "k"], partition_by="p", options=options
    )
    count = 20 if target == "2" else 140_000  # enough for the other layout of an index
    table.upsert({"p": ["a"] * count, "k": [k << 20 for k in range(count)]})
    table.upsert({"p": ["a", "b"], "k": [-1, -1]})
    places = placed_hashes(tmp_path / "t")
    assert set(places) == {'["a"]', '["b"]'}
    for bucket in table.scan().explain()["buckets"]:
        partition = f'["{bucket["partition"]["p"]}"]'
        assert bucket["bucket"] in places[partition].values()
    for key in [-1, 0, 5 << 20, (count - 1) << 20]:
        assert murmur(struct.pack("<q", key), 42) in places['["a"]']


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_an_independent_decoder_reads_the_table(tmp_path, file_format):
    table = build(tmp_path / "t", file_format)
    for snapshot in table.snapshots():
        ours = table.scan(snapshot=snapshot.id).to_arrow().to_pylist()
        assert ours
        assert in_order(read_table(tmp_path / "t", snapshot.id)) == in_order(ours)


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_an_independent_decoder_reads_rows_of_some_columns(tmp_path, file_format):
    options = {"file.format": file_format, "num-sorted-run.compaction-trigger": "9"}
    schema = pa.schema({f"c{i}": pa.int64() for i in range(12)})
    table = lsmerge.create_table(str(tmp_path / "t"), schema, "c3", options=options)
    table.upsert([dict.fromkeys(schema.names, i) for i in range(6)])
    for number, name in enumerate(schema.names):
        columns = ["c3", *{name} - {"c3"}]
        kinds = ["+I", "-D"] if number % 3 else ["-D", "+U"]
        changes = {n: [number % 6, (number + 1) % 6] for n in columns} | {"_row_kind": kinds}
        table.write(changes, columns=columns)
    for snapshot in table.snapshots():
        ours = table.scan(snapshot=snapshot.id).to_arrow().to_pylist()
        theirs = read_table(tmp_path / "t", snapshot.id)
        assert sorted(theirs, key=lambda row: row["c3"]) == ours


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_an_independent_decoder_reads_the_changelog(tmp_path, file_format, producer):
    options = {"changelog-producer": producer, "write-only": "true"}
    table = build(tmp_path / "t", file_format, **options)
    found = []
    for snapshot in table.snapshots():
        decoded = read_changelog(tmp_path / "t", snapshot.id)
        ours = [row for b in table.changelog(snapshot.id, snapshot.id) for row in b.to_pylist()]
        kinds_and_rows = [(row.pop("_row_kind"), row) for row in ours]
        assert sorted(map(repr, decoded)) == sorted(
            repr((kind, {name: row[name] for name in SCHEMA.names})) for kind, row in kinds_and_rows
        )
        found += decoded
    assert len(found) >= 40


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_golden_tables_stay_readable(file_format, tmp_path):
    golden = lsmerge.open_table(str(FIXTURES / file_format))
    fresh = build(tmp_path / "t", file_format)
    assert golden.scan().to_arrow() == fresh.scan().to_arrow()
    assert golden.schema == fresh.schema
    assert [s.id for s in golden.snapshots()] == [s.id for s in fresh.snapshots()]
    assert golden.verify().ok


def test_metadata_bytes_are_golden(tmp_path):
    """The same history gives the same bytes, for every file whose bytes are lsmerge's own."""
    build(tmp_path / "t", "arrow")
    golden = FIXTURES / "arrow"
    ours = sorted(p.relative_to(golden) for p in golden.rglob("*.json"))
    assert ours
    for path in ours:
        expected = (golden / path).read_text()
        found = (tmp_path / "t" / path).read_text()
        assert _without_checksums(found) == _without_checksums(expected), path


def _without_checksums(text):
    # Sizes and checksums depend on the version of pyarrow that wrote a file, names on how many ids were drawn before.
    volatile = ('"crc32c"', '"size-bytes"', "crc32c ", '"name": "manifest-', '"commit-uuid"')
    return [line for line in text.splitlines() if not line.strip().startswith(volatile)]


def test_a_damaged_golden_table_is_refused(tmp_path):
    damaged = tmp_path / "t"
    shutil.copytree(FIXTURES / "parquet", damaged)
    victim = sorted(damaged.rglob("*.parquet"))[0]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x10
    victim.write_bytes(content)
    assert not lsmerge.open_table(str(damaged)).verify().ok
    with pytest.raises(lsmerge.CorruptFileError, match=victim.name):
        lsmerge.open_table(str(damaged)).scan().to_arrow()


if __name__ == "__main__":
    shutil.rmtree(FIXTURES, ignore_errors=True)
    for name in ("arrow", "parquet"):
        build(FIXTURES / name, name)
