"""Sets of hashes against Python's own."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge_native.hash_set import HashSet, hash_set, hash_set_from_parts, locate, merge_hash_sets

HASHES = st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 70_000), max_size=200)
# From this size on a set keeps its hashes split into halves.
SPLIT_FROM = 131_072


def uint32(values):
    return pa.array(list(values), pa.uint32()).buffers()[1] or b""


def numbers(buffer, code="I"):
    return list(memoryview(buffer).cast(code))


def made(values) -> HashSet:
    return hash_set(uint32(sorted(values)))


def large(step=7):
    """Enough hashes for the layout that is split, with gaps and full stretches."""
    return {number * step % 2**32 for number in range(SPLIT_FROM)} | {2**32 - 1}


@given(HASHES)
def test_a_set_gives_back_its_hashes(values):
    item = made(values)
    assert numbers(item.hashes()) == sorted(values)
    assert len(item) == len(values)
    assert numbers(hash_set_from_parts(*item.parts).hashes()) == sorted(values)


@given(st.lists(HASHES, max_size=4), st.lists(st.integers(0, 2**32 - 1), max_size=50))
def test_a_hash_is_in_the_first_set_that_holds_it(sets, others):
    wanted = [*others, *(value for some in sets for value in some)]
    ids = [10 * number for number in range(len(sets))]
    found = numbers(locate(uint32(wanted), [made(some) for some in sets], ids), "i")
    naive = [
        next((id_ for id_, some in zip(ids, sets, strict=True) if value in some), -1)
        for value in wanted
    ]
    assert found == naive


@given(st.lists(HASHES, max_size=4))
def test_merging_is_the_union(sets):
    assert numbers(merge_hash_sets([made(some) for some in sets]).hashes()) == sorted(
        set().union(*sets)
    )


def test_a_large_set_takes_little_more_than_two_bytes_a_hash():
    values = {number * 3571 % 2**32 for number in range(10 * SPLIT_FROM)}
    item = made(values)
    assert item.nbytes < 2.3 * len(values)
    assert numbers(item.hashes()) == sorted(values)


@pytest.mark.parametrize("step", [1, 7, 32_771])
def test_both_layouts_answer_alike(step):
    values, small = large(step), {5, 70_000, 2**31}
    item = made(values)
    assert item.parts[0] is not None
    wanted = [*range(0, 200_000, 3), 2**31, 2**32 - 1, 2**32 - 2]
    found = numbers(locate(uint32(wanted), [item, made(small)], [1, 2]), "i")
    assert found == [1 if w in values else 2 if w in small else -1 for w in wanted]
    assert len(merge_hash_sets([item, made(small)])) == len(values | small)
    assert numbers(hash_set_from_parts(*item.parts).hashes()) == sorted(values)


@pytest.mark.parametrize("values", [[1, 1], [2, 1]])
def test_hashes_must_ascend(values):
    with pytest.raises(ValueError, match="ascend"):
        hash_set(uint32(values))
    with pytest.raises(ValueError, match="ascend"):
        hash_set_from_parts(None, uint32(values))


@pytest.mark.parametrize("place", [0, 1, 65_536])
def test_starts_that_cut_nothing_are_refused(place):
    starts, lows = made(large()).parts
    wrong = bytearray(starts)
    wrong[4 * place : 4 * place + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(ValueError, match="starts"):
        hash_set_from_parts(bytes(wrong), lows)
    with pytest.raises(ValueError, match="starts"):
        hash_set_from_parts(starts[:-4], lows)


def test_lower_halves_must_ascend():
    starts, lows = made(large(1)).parts
    with pytest.raises(ValueError, match="ascending"):
        hash_set_from_parts(starts, lows[2:4] + lows[:2] + lows[4:])


def test_a_set_is_made_by_its_functions_only():
    with pytest.raises(TypeError):
        HashSet()
