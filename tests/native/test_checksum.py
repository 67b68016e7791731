"""CRC-32C against a bit-at-a-time twin, on all code paths, and the stripes of a file."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native import checksum
from lsmerge_native.checksum import crc32c, first_bad_stripe, read_stripes, stripe_checksums


def of_way(way):
    return lambda data, seed=0: checksum.testing_crc32c(data, seed, way)


PATHS = [crc32c, *map(of_way, range(checksum.testing_crc32c_ways()))]


def naive_crc32c(data, seed=0):
    crc = seed ^ 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def naive_stripes(data, file_id, first_offset, stripe_bytes):
    return [
        naive_crc32c(
            data[start : start + stripe_bytes],
            naive_crc32c(file_id + (first_offset + start).to_bytes(8, "little")),
        )
        for start in range(0, len(data), stripe_bytes)
    ]


def checksums(*args):
    return memoryview(stripe_checksums(*args)).cast("I").tolist()


@pytest.mark.parametrize("path", [*PATHS, naive_crc32c])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_known_values(path, data, expected):
    assert path(data) == expected


@pytest.mark.parametrize("path", PATHS)
def test_every_short_length(path):
    data = random.Random(1).randbytes(420)
    for size in range(len(data)):
        assert path(data[:size]) == naive_crc32c(data[:size])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "size", [383, 384, 385, 1023, 1024, 1025, 1279, 1280, 3071, 3072, 3073, 3456, 7000]
)
def test_lengths_around_the_lanes(path, size):
    data = random.Random(size).randbytes(size)
    assert path(data, 0xDEADBEEF) == naive_crc32c(data, 0xDEADBEEF)


@pytest.mark.parametrize("path", PATHS)
@given(parts=st.lists(st.binary(max_size=600), max_size=4))
@settings(max_examples=50)
def test_a_checksum_continues(path, parts):
    crc = 0
    for part in parts:
        crc = path(part, crc)
    assert crc == naive_crc32c(b"".join(parts))


@pytest.mark.parametrize("shift", range(1, 9))
def test_misaligned_data(shift):
    data = random.Random(shift).randbytes(4000)
    assert crc32c(memoryview(data)[shift:]) == naive_crc32c(data[shift:])


def test_large_data_agrees_on_all_paths():
    data = random.Random(2).randbytes(1 << 20)
    assert len({path(data) for path in PATHS}) == 1


@given(
    data=st.binary(max_size=300),
    file_id=st.binary(max_size=20),
    first_offset=st.integers(0, 2**63),
    stripe_bytes=st.integers(1, 400),
)
@settings(max_examples=60)
def test_stripes_are_those_of_the_twin(data, file_id, first_offset, stripe_bytes):
    arguments = (data, file_id, first_offset, stripe_bytes)
    expected = naive_stripes(*arguments)
    assert checksums(*arguments) == expected
    assert first_bad_stripe(*arguments, stripe_checksums(*arguments)) == -1


def test_every_flipped_bit_is_found_in_its_stripe():
    data = random.Random(3).randbytes(70)
    expected = stripe_checksums(data, b"run-1", 128, 32)
    for position, bit in itertools.product(range(len(data)), range(8)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << bit
        assert first_bad_stripe(damaged, b"run-1", 128, 32, expected) == position // 32


def test_the_first_of_several_bad_stripes_is_reported():
    damaged = bytearray(range(100))
    expected = stripe_checksums(damaged, b"id", 0, 10)
    damaged[95] ^= 1
    damaged[42] ^= 1
    assert first_bad_stripe(damaged, b"id", 0, 10, expected) == 4


@pytest.mark.parametrize(("file_id", "first_offset"), [(b"run-2", 128), (b"run-1", 160)])
def test_right_bytes_in_the_wrong_place_are_found(file_id, first_offset):
    data = bytes(64)
    expected = stripe_checksums(data, b"run-1", 128, 32)
    assert first_bad_stripe(data, file_id, first_offset, 32, expected) == 0


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_number_of_checksums_is_an_error(count):
    with pytest.raises(ValueError, match=f"3 stripes, but {count} expected"):
        first_bad_stripe(bytes(65), b"id", 0, 32, bytes(4 * count))


def test_stripes_of_no_bytes_are_refused():
    with pytest.raises(ValueError, match="stripe_bytes"):
        stripe_checksums(b"abc", b"id", 0, 0)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1_000, 300_000, 800_001])
def test_a_file_is_read_and_checked_at_once(size, tmp_path):
    data, stripe = random.Random(4).randbytes(size), 32 if size < 2_000 else 65_536
    (tmp_path / "file").write_bytes(b"ahead" + data)
    expected = stripe_checksums(data, b"id", 5, stripe)
    with (tmp_path / "file").open("rb") as file:
        into = bytearray(size)
        assert read_stripes(file.fileno(), into, b"id", 5, stripe, expected) == -1
        assert into == data


def test_the_stripe_that_was_changed_on_disk_is_named(tmp_path):
    data = bytearray(random.Random(5).randbytes(700_000))
    expected = stripe_checksums(data, b"id", 0, 65_536)
    data[600_000] ^= 4
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        into = bytearray(len(data))
        assert read_stripes(file.fileno(), into, b"id", 0, 65_536, expected) == 600_000 // 65_536


def test_a_file_that_ends_before_is_not_read_as_zeros(tmp_path):
    (tmp_path / "file").write_bytes(bytes(99))
    expected = stripe_checksums(bytes(100), b"id", 0, 32)
    with (tmp_path / "file").open("rb") as file, pytest.raises(EOFError):
        read_stripes(file.fileno(), bytearray(100), b"id", 0, 32, expected)


def test_a_descriptor_that_is_none_is_an_error_of_the_system():
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_stripes(-1, bytearray(10), b"id", 0, 32, bytes(4))


def test_memory_that_may_not_be_written_is_not(tmp_path):
    (tmp_path / "file").write_bytes(bytes(10))
    with (tmp_path / "file").open("rb") as file, pytest.raises(BufferError):
        read_stripes(file.fileno(), bytes(10), b"id", 0, 32, bytes(4))
