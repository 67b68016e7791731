"""C1, C2, C3, K5: files that are not what was written, of every kind, and readers that must notice.

A reader of a table with a damaged file gives the right answer or an error that names a file. Anything else is a
violation: another answer, an error that is not ours, or the interpreter's end.
"""

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

import lsmerge
from lsmerge.storage.memory_disk import MemoryDisk
from lsmerge.storage.power_loss import Directory, File
from tests.disks import mounted, repeated_world
from tests.long.figures import Tally
from tests.long.stages import manifests_parsed_once, on_one_thread, scratch

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.int64()),
        pa.field("v", pa.string()),
    ]
)
KINDS = (
    "bucket-0/data",
    "bucket-0/changelog",
    "manifest/",
    "snapshot/snapshot",
    "schema/",
    "index/",
    "tag/",
    "expired/",
    "changelog/",
    "consumer/",
)


def build(uri: str, file_format: str) -> None:
    """A table with files of every kind: old and new runs, a delete, a late row, records, a tag, a consumer."""
    options = {
        "bucket": "-1",
        "sequence.field": "s",
        "file.format": file_format,
        "changelog-producer": "lookup",
        "changelog.num-retained.min": "2",
        "write-only": "true",
    }
    with lsmerge.create_table(uri, SCHEMA, "k", options=options) as table:
        table.write([{"k": key, "s": key, "v": f"value {key}"} for key in range(7)])
        table.compact(full=True)
        table.create_tag("old")
        table.write([{"k": 9, "s": 0, "v": "", "_row_kind": "+I"}])
        table.expire_snapshots(retain_max=1)
        table.write(
            [
                {"k": 1, "s": 9, "v": None, "_row_kind": "-D"},
                {"k": 2, "s": 1, "v": "late", "_row_kind": "+I"},
                {"k": 3, "s": None, "v": None, "_row_kind": "+I"},
            ]
        )
        for _ in table.changelog(start=table.latest_snapshot().id, consumer="reader"):
            pass


def scan(table: Any) -> Any:
    return table.scan().to_arrow().sort_by("k").to_pylist()


def get(table: Any) -> Any:
    return table.get_many([1, 2, 4, 8, 9]).to_pylist()


def changes(table: Any) -> Any:
    return [row for batch in table.changelog(start="earliest") for row in batch.to_pylist()]


def tagged(table: Any) -> Any:
    return table.scan(tag="old").to_arrow().sort_by("k").to_pylist()


def kept(table: Any) -> Any:
    return [row for batch in table.changelog(consumer="reader") for row in batch.to_pylist()]


def expiry(table: Any) -> Any:
    return table.expire_snapshots(retain_max=1, dry_run=True)


Reader = Callable[[Any], Any]
READERS: Sequence[Reader] = [scan, get, changes, tagged, kept, expiry]


class WatchedDisk(MemoryDisk):
    """A disk that knows which files were opened."""

    def __init__(self) -> None:
        super().__init__(record=False)
        self.opened: set[int] = set()

    def open_file(self, directory: int, name: str) -> int:
        handle = super().open_file(directory, name)
        self.opened.add(id(self._node(handle)))
        return handle


class Place(NamedTuple):
    """A file on a disk, and the directory entry that leads to it."""

    path: str
    directory: Directory
    name: str

    @property
    def node(self) -> File:
        node = self.directory.entries[self.name]
        assert isinstance(node, File)
        return node

    @property
    def data(self) -> bytes:
        return bytes(self.node.data)


def places(disk: MemoryDisk) -> Iterator[Place]:
    """All files but the hint, which may be anything."""

    def below(directory: Directory, path: str) -> Iterator[Place]:
        for name, node in directory.entries.items():
            if isinstance(node, Directory):
                yield from below(node, f"{path}{name}/")
            elif name != "LATEST":
                yield Place(f"{path}{name}", directory, name)

    table = disk._root.entries["table"]
    assert isinstance(table, Directory)
    yield from below(table, "")


@dataclass
class Patient:
    """A table with every kind of file, what is right to say of it, and one damage at a time."""

    uri: str
    disk: WatchedDisk

    def __post_init__(self) -> None:
        self.places = sorted(places(self.disk))
        self.right: dict[Reader, Any] = {}
        self._opened: dict[Reader, set[int]] = {}
        for reader in READERS:
            self.disk.opened.clear()
            self.right[reader] = self.answer(reader)
            self._opened[reader] = set(self.disk.opened)
        assert all(not isinstance(answer, str) for answer in self.right.values())

    def readers_of(self, place: Place) -> Sequence[Reader]:
        """Those who open a file; all where nobody does."""
        node = id(place.node)
        return [reader for reader in READERS if node in self._opened[reader]] or READERS

    def answer(self, reader: Reader) -> Any:
        """What a reader says; an error of ours that names a file stands for it."""
        try:
            with lsmerge.open_table(self.uri) as table:
                return reader(table)
        except lsmerge.LsmergeError as error:
            return f"refused: {error}"

    def try_damage(self, place: Place, data: bytes | bytearray, readers: Any, tally: Tally) -> None:
        """Show other bytes in place of a file's."""
        other = File(place.node.modified_ms, bytearray(data), len(data))
        self.try_instead(place, other, readers, tally)

    def try_instead(self, place: Place, node: Any, readers: Any, tally: Tally) -> None:
        """Show something else, or nothing (None), in place of a file."""
        entries, before = place.directory.entries, place.directory.entries[place.name]
        if node is None:
            del entries[place.name]
        else:
            entries[place.name] = node
        try:
            for reader in readers:
                self._judge(place, reader, tally)
        finally:
            entries[place.name] = before

    def _judge(self, place: Place, reader: Reader, tally: Tally) -> None:
        found = self.answer(reader)
        if found == self.right[reader]:
            tally.notes["not read"] += 1
        elif isinstance(found, str) and found.startswith("refused"):
            tally.notes["refused"] += 1
        else:
            raise AssertionError(f"{place.path}, {reader.__name__}: {found}")

    def of_kind(self, kind: str) -> list[Place]:
        return [place for place in self.places if place.path.startswith(kind)]


def with_patient(file_format: str, work: Callable[[Patient], None]) -> None:
    """Let `work` treat a table, which has the same bytes every time."""
    disk = WatchedDisk()
    with mounted(disk) as uri, on_one_thread(), repeated_world(1), manifests_parsed_once():
        build(uri, file_format)
        work(Patient(uri, disk))


def flip_bits(file_format: str, kind: str, bits: int, every: int = 1) -> Tally:
    """C1: all bits of every byte of a file of a kind, and so many of those of the others; its readers in turn."""
    tally = Tally()

    def work(patient: Patient) -> None:
        for number, place in enumerate(patient.of_kind(kind)):
            original, turn = place.data, itertools.cycle(patient.readers_of(place))
            for offset in range(0, len(original), every):
                for bit in range(bits if number else 8):
                    data = bytearray(original)
                    data[offset] ^= 1 << ((offset + bit) % 8)
                    what = (file_format, place.path, offset, bit)
                    tally.attempt(
                        what, partial(patient.try_damage, place, data, [next(turn)], tally)
                    )

    with_patient(file_format, work)
    return tally


def mangle(file_format: str, kind: str, every: int = 1) -> Tally:
    """C2: cut off at every length, longer, sectors zeroed, garbage, swapped, or from elsewhere."""
    tally = Tally()

    def work(patient: Patient) -> None:
        for place in patient.of_kind(kind):
            turn = itertools.cycle(patient.readers_of(place))
            others = [other.data for other in patient.of_kind(kind) if other != place]
            for what, data in mangled(place.data, others, every):
                if data != place.data:
                    check = partial(patient.try_damage, place, data, [next(turn)], tally)
                    tally.attempt((file_format, place.path, what), check)

    with_patient(file_format, work)
    return tally


SECTOR = 512


def mangled(data: bytes, others: list[bytes], every: int) -> Iterator[tuple[str, bytes]]:
    """What may have become of a file."""
    draw = random.Random(len(data))
    for length in range(0, len(data), every):
        yield f"cut to {length}", data[:length]
    for more in range(1, 4097, 64 * every):
        yield f"{more} bytes longer", data + draw.choice([bytes(more), draw.randbytes(more)])
    for size in (16, 64, SECTOR):
        for start in range(0, len(data), size * every):
            head, rest = data[:start], data[start + size :]
            part = len(data) - len(head) - len(rest)
            yield f"{size} zeroed at {start}", head + bytes(part) + rest
            yield f"{size} of garbage at {start}", head + draw.randbytes(part) + rest
            for other in others:
                if len(other) >= start + part:
                    yield f"{size} from elsewhere", head + other[start : start + part] + rest
        yield from _swapped(data, size, every)
    for other in others:
        yield "another file in its place", other


def _swapped(data: bytes, size: int, every: int) -> Iterator[tuple[str, bytes]]:
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    for first in range(0, len(blocks) - 2, every):
        changed = list(blocks)
        changed[first], changed[first + 1] = changed[first + 1], changed[first]
        yield f"blocks {first} and {first + 1} swapped", b"".join(changed)


def misplace(file_format: str) -> Tally:
    """C3: every file missing, empty, a directory; files of one directory exchanged and doubled.

    Not the newest snapshot missing: the table is then as it was before it, and nothing could tell.
    """
    tally = Tally()

    def work(patient: Patient) -> None:
        newest = patient.of_kind("snapshot/")[-1]
        for place in patient.places:
            node = place.node
            things = {"empty": File(node.modified_ms)}
            if place != newest:
                things |= {"missing": None, "a directory": Directory(node.modified_ms)}
            for what, thing in things.items():
                check = partial(patient.try_instead, place, thing, READERS[:-1], tally)
                tally.attempt((place.path, what), check)
            for other in patient.places:
                if other.directory is place.directory and other != place:
                    check = partial(patient.try_damage, place, other.data, READERS, tally)
                    tally.attempt((place.path, "renamed from", other.path), check)

    with_patient(file_format, work)
    return tally


def check_verify(file_format: str, every: int = 1) -> Tally:
    """C5: `verify` names every file whose bytes were changed, of all that snapshots and tags need."""
    tally = Tally()

    def work(patient: Patient) -> None:
        for place in patient.places:
            if place.path.startswith(("expired/", "changelog/", "consumer/")):
                continue
            original = place.data
            for offset in range(0, len(original), every):
                data = bytearray(original)
                data[offset] ^= 1 << (offset % 8)
                what = (file_format, place.path, offset)
                tally.attempt(what, partial(_verify, patient, place, data, tally))

    with_patient(file_format, work)
    return tally


def _verify(patient: Patient, place: Place, data: bytearray, tally: Tally) -> None:
    node = place.node
    place.directory.entries[place.name] = File(node.modified_ms, bytearray(data), len(data))
    try:
        told = patient.answer(lambda table: table.verify().problems)
    finally:
        place.directory.entries[place.name] = node
    if place.name not in str(told):
        raise AssertionError(f"verify says {told!r}")
    tally.notes["named"] += 1


def verify_speed(gigabytes: float) -> Tally:
    """C5: what `verify` reads in a second of a core."""
    tally = Tally()
    rows = int(gigabytes * 2**30 / 1024)  # a row has about so many bytes
    text = pa.array(random.Random(1).randbytes(512).hex() for _ in range(1000))
    with scratch() as root:
        table = lsmerge.create_table(str(root / "t"), SCHEMA, "k", options={"write-only": "true"})
        with table, table.writer() as writer:
            for first in range(0, rows, len(text)):
                keys = pa.array(range(first, first + len(text)), pa.int64())
                writer.write(pa.table({"k": keys, "s": keys, "v": text}))
        with lsmerge.open_table(str(root / "t")) as opened:
            began = time.process_time()
            report = opened.verify()
            seconds = time.process_time() - began
    tally.attempt("the table is whole", lambda: _require_whole(report))
    tally.notes["MB read"] = round(report.bytes_read / 1e6)
    tally.notes["MB/s of a core"] = round(report.bytes_read / 1e6 / seconds)
    return tally


def _require_whole(report: Any) -> None:
    if report.problems:
        raise AssertionError(f"{report.problems}")
