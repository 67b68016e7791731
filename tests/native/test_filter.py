"""The split-block Bloom filter against a twin written from the Parquet specification."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.filter import build_filter, passes_mostly, passing_rows, probe_filter

SALTS = (
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
)


def pack(hashes):
    return b"".join(h.to_bytes(8, "little") for h in hashes)


def block_mask(hash_):
    """The 256 bits of a block as one integer; word i is its bits 32 * i and up."""
    low = hash_ & 0xFFFFFFFF
    return sum(1 << (32 * i + ((low * salt & 0xFFFFFFFF) >> 27)) for i, salt in enumerate(SALTS))


def naive_filter(hashes, num_blocks):
    blocks = [0] * num_blocks
    for hash_ in hashes:
        blocks[(hash_ >> 32) * num_blocks >> 32] |= block_mask(hash_)
    return b"".join(block.to_bytes(32, "little") for block in blocks)


def naive_probe(bitset, hash_):
    num_blocks = len(bitset) // 32
    start = 32 * ((hash_ >> 32) * num_blocks >> 32)
    mask = block_mask(hash_)
    return int.from_bytes(bitset[start : start + 32], "little") & mask == mask


def random_hashes(seed, count):
    rng = random.Random(seed)
    return [rng.getrandbits(64) for _ in range(count)]


@given(
    hashes=st.lists(st.integers(0, 2**64 - 1), max_size=200),
    others=st.lists(st.integers(0, 2**64 - 1), max_size=50),
    bits_per_key=st.integers(1, 40),
)
@settings(max_examples=60)
def test_bits_and_answers_are_those_of_the_twin(hashes, others, bits_per_key):
    bitset = bytes(build_filter([pack(hashes[:3]), pack(hashes[3:])], bits_per_key))
    assert len(bitset) == 32 * max(1, -(-len(hashes) * bits_per_key // 256))
    assert bitset == naive_filter(hashes, len(bitset) // 32)
    found = bytes(probe_filter(bitset, pack(hashes + others)))
    assert found[: len(hashes)] == b"\x01" * len(hashes)
    assert list(found) == [naive_probe(bitset, h) for h in hashes + others]


def test_extreme_hashes():
    hashes = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    assert bytes(build_filter([pack(hashes)], 100)) == naive_filter(hashes, 3)


def test_an_empty_filter_finds_nothing():
    bitset = build_filter([b""])
    assert bytes(bitset) == bytes(32)
    assert not any(bytes(probe_filter(bitset, pack(random_hashes(1, 100)))))
    assert len(probe_filter(bitset, b"")) == 0


@pytest.mark.parametrize("count", [0, 1, 9, 1000])
def test_passing_rows_are_where_the_bytes_are_not_zero(count):
    hashes = random_hashes(1, 2 * count)
    bitset = build_filter([pack(hashes[::2])])
    passed = memoryview(passing_rows(bitset, pack(hashes))).cast("B").cast("I").tolist()
    assert passed == [
        i for i, found in enumerate(bytes(probe_filter(bitset, pack(hashes)))) if found
    ]


@pytest.mark.parametrize(
    ("present", "answer"), [(1.0, True), (0.95, True), (0.5, False), (0, False)]
)
def test_whether_most_hashes_pass(present, answer):
    hashes, others = random_hashes(5, 5000), random_hashes(6, 5000)
    held = int(5000 * present)
    asked = hashes[:held] + others[held:]
    random.Random(7).shuffle(asked)
    assert passes_mostly(build_filter([pack(hashes)]), pack(asked)) is answer


def test_of_no_hashes_all_pass():
    assert passes_mostly(build_filter([pack([1])]), b"")


def test_few_absent_hashes_pass():
    bitset = build_filter([pack(random_hashes(1, 20_000))])
    passed = sum(bytes(probe_filter(bitset, pack(random_hashes(2, 20_000)))))
    assert passed < 20_000 * 0.02


@pytest.mark.parametrize("size", [0, 8, 40])
def test_a_filter_of_broken_blocks_is_refused(size):
    with pytest.raises(ValueError, match="blocks of 32"):
        probe_filter(bytes(size), pack([1]))


@pytest.mark.parametrize("bits_per_key", [0, 257])
def test_a_senseless_size_is_refused(bits_per_key):
    with pytest.raises(ValueError, match="bits_per_key must be from 1 to 256"):
        build_filter([pack([1])], bits_per_key)
