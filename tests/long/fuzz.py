"""H3, H5: decoders that are given bytes of anybody's making, with checksums that fit.

A file of every kind is mutated in turn and all checksums are taken for right, as if whoever changed the file had signed
it again. Readers may answer anything or refuse by an error of ours. They may not raise another error, take long, take
memory that the file does not justify, or end the process; built with sanitizers (`make asan`), they may not touch
memory that is not theirs. Text that is not UTF-8 is the one thing that only its user finds out.
"""

import contextlib
import random
import resource
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lsmerge
from lsmerge.storage import checked_json, checked_object, run_file
from lsmerge.storage.power_loss import File
from lsmerge.storage.stripes import StripedSource
from tests.long.damage import Patient, Place, with_patient
from tests.long.figures import Tally

LIBRARY = Path(lsmerge.__file__).parent
MAX_SECONDS = 1.0
MAX_GROWTH_KB = 64 << 10
INTERESTING = (0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
LARGE = (2**62, 2**63 - 1, 2**63, 2**64 - 1)


class Fitting(int):
    """A checksum that fits whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


class FittingTrailer:
    """The last line of a file that was signed again."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def read_unchecked(self: Any, low: int, high: int, *_: int) -> Any:
    """Stripes, whatever they are."""
    return self._source.read(low, high - low)


@contextlib.contextmanager
def signed_again() -> Iterator[None]:
    """Every checksum fits."""
    patches: list[tuple[Any, str, Any]] = [
        (StripedSource, "_read_checked", read_unchecked),
        (run_file, "crc32c", lambda *_: Fitting()),
        (checked_object, "crc32c", lambda *_: Fitting()),
        (checked_json, "_trailer", lambda _: FittingTrailer()),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in patches]
    try:
        for module, name, value in patches:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A few changes that keep the length, as references know it."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        draw.choice(MUTATIONS)(changed, draw)
    return bytes(changed)


def _flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _number(data: bytearray, draw: random.Random) -> None:
    width = draw.choice([1, 2, 4, 8])
    if len(data) < width:
        return
    value = draw.choice([*INTERESTING, *LARGE, len(data), draw.getrandbits(64)])
    start = draw.randrange(len(data) - width + 1)
    data[start : start + width] = (value % 256**width).to_bytes(width, "little")


def _copy(data: bytearray, draw: random.Random) -> None:
    size = draw.randrange(1, min(64, len(data)) + 1)
    source, target = draw.randrange(len(data) - size + 1), draw.randrange(len(data) - size + 1)
    data[target : target + size] = data[source : source + size]


def _fill(data: bytearray, draw: random.Random) -> None:
    size = draw.randrange(1, min(32, len(data)) + 1)
    start = draw.randrange(len(data) - size + 1)
    data[start : start + size] = bytes([draw.choice([0, 0x7F, 0x80, 0xFF, 0x39])]) * size


MUTATIONS: list[Callable[[bytearray, random.Random], None]] = [
    _flip,
    _number,
    _number,
    _copy,
    _fill,
]


def fuzz(file_format: str, kind: str, count: int, seed: int = 0) -> Tally:
    """So many mutations of files of a kind."""
    tally, draw = Tally(), random.Random(f"{file_format} {kind} {seed}")

    def work(patient: Patient) -> None:
        found = patient.of_kind(kind)
        with signed_again():
            for number in range(count):
                place = draw.choice(found)
                data = mutated(place.data, draw)
                readers = patient.readers_of(place)
                reader = readers[number % len(readers)]
                what = (file_format, place.path, f"seed {seed}", f"mutation {number}")
                tally.attempt(what, partial(_read, patient, place, data, reader, tally))

    with_patient(file_format, work)
    return tally


def _read(
    patient: Patient, place: Place, data: bytes, reader: Callable[[Any], Any], tally: Tally
) -> None:
    node = place.node
    place.directory.entries[place.name] = File(node.modified_ms, bytearray(data), len(data))
    began, memory = time.process_time(), _peak_kb()
    try:
        with lsmerge.open_table(patient.uri) as table:
            reader(table)
        tally.notes["answered"] += 1
    except lsmerge.LsmergeError:
        tally.notes["refused"] += 1
    except UnicodeDecodeError as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any(Path(frame.filename).is_relative_to(LIBRARY) for frame in frames):
            raise
        tally.notes["answered"] += 1
    finally:
        place.directory.entries[place.name] = node
    seconds, growth = time.process_time() - began, _peak_kb() - memory
    if seconds > MAX_SECONDS:
        raise AssertionError(f"{reader.__name__} took {seconds:.1f} s")
    if growth > MAX_GROWTH_KB + 4 * len(data) // 1024:
        raise AssertionError(f"{reader.__name__} took {growth} kB of memory")


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
