"""One flipped bit in any byte of a file: an error that names the file, or the right answer.

Every byte of files of each kind is shown wrongly once, its bits and the readers in turn. Only the
hint file may be wrong without anybody noticing. LSMERGE_ALL_FLIPS=1 tries every bit of every file
with every reader.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.storage import layout
from lsmerge.storage.object_store import open_store
from tests.disks import Flip, FlippingDisk, mounted

ALL = os.environ.get("LSMERGE_ALL_FLIPS") == "1"
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.int64()),
        pa.field("v", pa.string()),
    ]
)


def build(uri: str, file_format: str, bucket: str = "1") -> None:
    """A compacted run below a new one, with nulls, a delete and a late row."""
    options = {"sequence.field": "s", "file.format": file_format, "bucket": bucket}
    with lsmerge.create_table(uri, SCHEMA, ["k"], options=options) as table:
        table.write([{"k": key, "s": key, "v": f"value {key}"} for key in range(7)])
        table.compact(full=True)
        table.write(
            [
                {"k": 1, "s": 9, "v": None, "_row_kind": "-D"},
                {"k": 2, "s": 1, "v": "late", "_row_kind": "+I"},
                {"k": 3, "s": None, "v": None, "_row_kind": "+I"},
                {"k": 9, "s": 0, "v": "", "_row_kind": "+I"},
            ]
        )


def scan(table: Any) -> Any:
    return table.scan().to_arrow().to_pylist()


def get(table: Any) -> Any:
    return table.get_many([1, 2, 4, 8, 9]).to_pylist()


def changelog(table: Any) -> Any:
    return [row for batch in table.changelog() for row in batch.to_pylist()]


READERS: list[Callable[[Any], Any]] = [scan, get, changelog]


@dataclass
class Opened:
    """A table that is opened anew for every answer, or whose data files are, if only these can be damaged."""

    uri: str
    stays_open: bool = False
    _table: Any = None

    def answer(self, reader: Callable[[Any], Any], damaged: str = "") -> Any:
        """What a reader says; an error that names the damaged file stands for its answer."""
        try:
            return reader(self._opened())
        except (lsmerge.CorruptFileError, lsmerge.UnsupportedFormatError) as error:
            return "refused" if damaged in str(error) else error

    def _opened(self) -> Any:
        if self._table is None or not self.stays_open:
            self._table = lsmerge.open_table(self.uri)
        self._table._context.runs.close()
        return self._table


def files(uri: str, prefix: str, newest: int) -> dict[str, int]:
    """Name and size of the newest files below a prefix, or of all of them."""
    found = [info for info in open_store(uri).list(prefix) if info.path != layout.LATEST_HINT]
    by_age = sorted(found, key=lambda info: (info.modified_ms, info.path))
    chosen = by_age if ALL else by_age[-newest:]
    return {info.path.rpartition("/")[2]: info.size_bytes for info in chosen}


def trials(name: str, size_bytes: int) -> Iterator[tuple[Flip, Callable[[Any], Any]]]:
    for offset in range(size_bytes):
        if ALL:
            yield from ((Flip(name, offset, bit), r) for bit in range(8) for r in READERS)
        else:
            yield Flip(name, offset, offset % 8), READERS[offset % len(READERS)]


@pytest.mark.parametrize(
    ("file_format", "prefix", "newest"),
    [
        ("arrow", "bucket-0", 2),  # the compacted run and the new one
        ("parquet", "bucket-0", 1),
        ("arrow", "manifest", 1),
        ("arrow", "snapshot", 1),
        ("arrow", "schema", 1),
    ],
)
def test_no_flipped_bit_gives_a_wrong_answer(file_format, prefix, newest):
    disk = FlippingDisk()
    with mounted(disk) as uri:
        build(uri, file_format)
        opened = Opened(uri, stays_open=prefix == "bucket-0")
        right = {reader: opened.answer(reader) for reader in READERS}
        outcomes = [
            _outcome(disk, opened, flip, reader, right[reader])
            for name, size_bytes in files(uri, prefix, newest).items()
            for flip, reader in trials(name, size_bytes)
        ]
    assert outcomes.count("refused") > 0.5 * len(outcomes)


def _outcome(
    disk: FlippingDisk, opened: Opened, flip: Flip, reader: Callable[[Any], Any], right: Any
) -> str:
    disk.flip = flip
    found = opened.answer(reader, flip.file_name)
    disk.flip = None
    assert found in (right, "refused"), f"{reader.__name__} after {flip}"
    return "refused" if found == "refused" else "right"


def test_no_flipped_bit_in_an_index_misleads_a_lookup():
    disk = FlippingDisk()
    with mounted(disk) as uri:
        build(uri, "arrow", bucket="-1")
        opened = Opened(uri)
        right = opened.answer(get)
        outcomes = [
            _outcome(disk, opened, Flip(name, offset, offset % 8), get, right)
            for name, size_bytes in files(uri, layout.INDEX_DIR, 1).items()
            for offset in range(0, size_bytes, 1 if ALL else 7)
        ]
    assert set(outcomes) == {"refused"}


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_hint_is_harmless(reader):
    disk = FlippingDisk()
    with mounted(disk) as uri:
        build(uri, "arrow")
        opened = Opened(uri)
        right = opened.answer(reader)
        for bit in range(8):
            disk.flip = Flip("LATEST", 0, bit)
            assert opened.answer(reader) == right
