"""An independent reader of whole tables, written from docs/format.md alone; see format_decoder.py."""

import json
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from tests.format_decoder import crc32c, decode_run

REMOVE, CHANGELOG, INDEX = 1, 1, 2
WRITTEN = 2147483644


def read_table(root, snapshot_id=None):
    """The visible rows of a snapshot, the newest by default, as dicts."""
    root = Path(root)
    schema = checked_json(root / "schema" / f"schema-{max(ids(root, 'schema'))}.json")
    number = snapshot_id or max(ids(root, "snapshot"))
    snapshot = checked_json(root / "snapshot" / f"snapshot-{number}.json")
    assert snapshot["id"] == number
    rows = []
    live = live_files(root, snapshot)
    for bucket in by_bucket(file for file in live if file["kind"] != INDEX):
        rows += merged(schema, [row for file in bucket for row in stored_rows(root, schema, file)])
    return rows


def read_changelog(root, snapshot_id):
    """What one snapshot changed, as (kind, row), in any order of buckets."""
    root = Path(root)
    schema = checked_json(root / "schema" / f"schema-{max(ids(root, 'schema'))}.json")
    ref = checked_json(root / "snapshot" / f"snapshot-{snapshot_id}.json")["delta"]
    entries = manifest(root / "manifest" / ref["name"], ref)
    files = [entry for entry in entries if entry["kind"] == CHANGELOG]
    stored = (row for file in files for row in stored_rows(root, schema, file))
    return [(("+I", "-U", "+U", "-D")[kind], row) for _, _, _, kind, _, row in stored]


def placed_hashes(root):
    """Of the newest snapshot, {partition: {hash: bucket}} of the index files; a hash twice is a failure."""
    root = Path(root)
    snapshot = checked_json(root / "snapshot" / f"snapshot-{max(ids(root, 'snapshot'))}.json")
    found = {}
    for file in live_files(root, snapshot):
        if file["kind"] == INDEX:
            places = found.setdefault(file["partition"], {})
            for number, bucket in index_entries(root / "index" / file["name"], file):
                assert number not in places
                places[number] = bucket
    return found


def index_entries(path, file):
    data = path.read_bytes()
    assert (len(data), crc32c(data)) == (file["size_bytes"], file["tail_crc"]), path
    table = pa.ipc.open_file(data).read_all()
    assert table.schema.metadata[b"lsmerge.index"] == b"1"
    for row in table.to_pylist():
        hashes = row["hashes"]
        for half in range(len(row["starts"]) - 1):
            lows = row["lows"][row["starts"][half] : row["starts"][half + 1]]
            hashes += [half << 16 | low for low in lows]
        assert hashes == sorted(set(hashes))
        yield from ((number, row["bucket"]) for number in hashes)


def ids(root, kind):
    return [int(p.stem.rpartition("-")[2]) for p in (root / kind).glob(f"{kind}-*.json")]


def checked_json(path):
    body, _, trailer = path.read_bytes()[:-1].rpartition(b"\n")
    body += b"\n"
    assert trailer == b"crc32c %08x" % crc32c(body), path
    content = json.loads(body)
    assert content["format"] == 1
    return content


def live_files(root, snapshot):
    files = {}
    for ref in [*snapshot["base"], snapshot["delta"]]:
        for entry in manifest(root / "manifest" / ref["name"], ref):
            if entry["kind"] == CHANGELOG:
                continue
            files.pop(entry["name"], None)
            if entry["action"] != REMOVE:
                files[entry["name"]] = entry
    return files.values()


def manifest(path, ref):
    data = path.read_bytes()
    assert (len(data), crc32c(data)) == (ref["size-bytes"], ref["crc32c"]), path
    table = pa.ipc.open_file(data).read_all()
    assert table.schema.metadata[b"lsmerge.manifest"] in (b"1", b"2")
    assert table.num_rows == ref["entries"]
    return table.to_pylist()


def by_bucket(files):
    buckets = {}
    for file in files:
        buckets.setdefault((file["partition"], file["bucket"]), []).append(file)
    return buckets.values()


def stored_rows(root, schema, file):
    """(key, order, sequence, kind, written, row) of everything in one data file."""
    path = root / directory(schema["partition_by"], file) / file["name"]
    data = path.read_bytes()
    assert len(data) == file["size_bytes"]
    index, table = decode_run(file["name"], data, file["index_offset"], file["tail_crc"])
    by_id = {int(f.metadata[b"PARQUET:field_id"]): i for i, f in enumerate(table.schema)}
    sequences, kinds = table.column(by_id[2147483646]), table.column(by_id[2147483645])
    columns = {c["name"]: table.column(by_id[c["id"]]) for c in schema["columns"]}
    assert (WRITTEN in by_id) == bool(index["flags"])
    key = [name for name in schema["primary_key"] if name not in schema["partition_by"]]
    order = [name for name in schema["options"].get("sequence.field", "").split(",") if name]
    for position in range(table.num_rows):
        row = {name: column[position].as_py() for name, column in columns.items()}
        yield (
            tuple(row[name] for name in key),
            tuple((row[name] is not None, row[name]) for name in order),
            sequences[position].as_py() + file["sequence_base"],
            kinds[position].as_py(),
            written(
                schema, table.column(by_id[WRITTEN])[position].as_py() if WRITTEN in by_id else None
            ),
            row,
        )


def merged(schema, stored):
    assert schema["options"].get("sequence.field.sort-order", "ascending") == "ascending"
    absent = {column["name"]: None for column in schema["columns"]}
    found = {}
    for key, _, _, kind, names, row in sorted(stored, key=lambda item: item[:3]):
        keys = {name: row[name] for name in schema["primary_key"]}
        others = {**found.get(key, absent), **dict.fromkeys(names), **dict.fromkeys(keys)}
        if kind % 2 == 0:
            found[key] = {**found.get(key, absent), **{name: row[name] for name in names}, **keys}
        elif any(value is not None for value in others.values()):
            found[key] = {**others, **keys}
        else:
            found.pop(key, None)
    return list(found.values())


def written(schema, bitmap):
    """The names of the columns that a row wrote."""
    if bitmap is None:
        return [column["name"] for column in schema["columns"]]
    bits = int.from_bytes(bitmap, "little")
    return [column["name"] for column in schema["columns"] if bits >> column["id"] & 1]


def directory(partition_by, file):
    values = json.loads(file["partition"])
    parts = [component(name, value) for name, value in zip(partition_by, values, strict=True)]
    return "/".join([*parts, f"bucket-{file['bucket']}"])


def component(name, value):
    column = escaped(name)
    text = f"{column}={'%00' if value is None else escaped(value)}"
    return text if len(text) <= 200 else f"{column[:64]}=%01{sha256(text.encode()).hexdigest()}"


def escaped(text):
    doubled = text.replace("\0", "\0\0").replace("\1", "\1\1")
    return quote(doubled, safe="").replace(".", "%2E")
