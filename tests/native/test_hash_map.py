"""Maps of hashes against Python's own sets."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge_native.hash_map import HashMap, hash_map, hash_map_from_parts

HASHES = st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 70_000), max_size=200)


def uint32(values):
    return pa.array(list(values), pa.uint32()).buffers()[1] or b""


def made(sets) -> HashMap:
    return hash_map([uint32(sorted(some)) for some in sets])


def pairs(found):
    rows, sets = (memoryview(part).cast(code) for part, code in zip(found, "IH", strict=True))
    return list(zip(rows, sets, strict=True))


@given(st.lists(HASHES, max_size=5), st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_a_hash_is_found_in_every_set_that_holds_it(sets, others):
    wanted = [*others, *(value for some in sets for value in some)]
    naive = [
        (row, number)
        for row, value in enumerate(wanted)
        for number, some in enumerate(sets)
        if value in some
    ]
    item = made(sets)
    assert pairs(item.find(uint32(wanted))) == naive
    assert len(item) == sum(map(len, sets))
    assert pairs(hash_map_from_parts(*item.parts).find(uint32(wanted))) == naive


def test_many_hashes_and_the_ends_of_the_range():
    sets = [range(0, 2**32, 40_009), range(3, 2**32, 50_021), [0, 2**32 - 1]]
    item = made(sets)
    wanted = [0, 3, 40_009, 2**32 - 1, 2**31, 80_018, 4]
    assert pairs(item.find(uint32(wanted))) == [(0, 0), (0, 2), (1, 1), (2, 0), (3, 2), (5, 0)]
    assert item.nbytes < 8 * len(item)


def test_many_equal_hashes():
    item = made([[7]] * 1000)
    assert pairs(item.find(uint32([7, 8]))) == [(0, number) for number in range(1000)]


@pytest.mark.parametrize(
    ("hashes", "sets", "message"),
    [
        (uint32([2, 1]), bytes(4), "ascend"),
        (uint32([1, 2]), bytes(2), "2 hashes, but the sets of 1"),
        (b"abc", b"", "do not make items"),
    ],
)
def test_parts_of_no_map(hashes, sets, message):
    with pytest.raises(ValueError, match=message):
        hash_map_from_parts(hashes, sets)


def test_more_sets_than_numbers():
    with pytest.raises(ValueError, match="65537 sets"):
        hash_map([b""] * 65_537)
    with pytest.raises(TypeError, match="made by"):
        HashMap()
