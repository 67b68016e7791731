"""The newest row of each key out of several blocks, and selections of selections, beside naive twins."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.keys import encode_keys
from lsmerge_native.lookup import find_rows
from lsmerge_native.newest import followed, newest_rows

TYPES = st.sampled_from([pa.int64(), pa.string()])
# Rows of a block by key, with whether they are retracts.
BLOCKS = st.lists(st.dictionaries(st.integers(0, 60), st.booleans(), max_size=40), max_size=6)


def keys_of(type_, values):
    return encode_keys(
        [pa.array([f"{v:03d}" if type_ == pa.string() else v for v in values], type_)]
    )


def numbers(buffer, code):
    return list(memoryview(buffer).cast(code))


def places(selection):
    return list(zip(numbers(selection.sources, "H"), numbers(selection.rows, "I"), strict=True))


def kinds_of(block, known):
    has_retracts = known or any(block.values())
    return pa.array([int(block[k]) for k in sorted(block)], pa.int8()) if has_retracts else None


def newest_twin(blocks, probes):
    """What is found, and of which probes."""
    found = []
    for number, probe in enumerate(probes):
        holders = [i for i, block in enumerate(blocks) if probe in block]
        if holders and not blocks[holders[0]][probe]:
            found.append((number, (holders[0], sorted(blocks[holders[0]]).index(probe))))
    return [place for _, place in found], [number for number, _ in found]


@settings(max_examples=200)
@given(TYPES, BLOCKS, st.sets(st.integers(0, 60), min_size=1), st.booleans(), st.data())
def test_rows_are_those_of_the_twin(type_, blocks, probes, known, data):
    probes = sorted(probes)
    keys = keys_of(type_, probes)
    # Every block is asked for the probes that it has, and perhaps for others: as a range, or one by one.
    asked, positions = [], []
    for block in blocks:
        own = [i for i, probe in enumerate(probes) if probe in block]
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, min(own, default=0)))
            asked.append(keys.slice(start, len(probes)))
            positions.append((start, None))
        else:
            more = data.draw(st.sets(st.integers(0, len(probes) - 1)))
            start = data.draw(st.integers(0, min([*own, *more], default=0)))
            rows = pa.array([i - start for i in sorted({*own, *more})], pa.uint32())
            buffer = pa.py_buffer(bytes(memoryview(rows.buffers()[1])[: 4 * len(rows)]))
            asked.append(keys.slice(start, len(probes)).take(buffer))
            positions.append((start, buffer))
    selection, found = newest_rows(
        [keys_of(type_, sorted(block)) for block in blocks],
        [kinds_of(block, known) for block in blocks],
        asked,
        positions,
        len(probes),
    )
    assert (places(selection), numbers(found, "I")) == newest_twin(blocks, probes)
    assert selection.num_sources == len(blocks)


def test_wrong_arguments_are_refused():
    keys = keys_of(pa.int64(), [1, 2, 3])
    with pytest.raises(ValueError, match="0 kinds, 1 probes and 1 positions for 1 blocks"):
        newest_rows([keys], [], [keys], [(0, None)], 3)
    with pytest.raises(ValueError, match="3 positions from 1 on for 3 probes of 3 keys"):
        newest_rows([keys], [None], [keys], [(1, None)], 3)
    with pytest.raises(ValueError, match="1 positions from 0 on for 3 probes"):
        newest_rows([keys], [None], [keys], [(0, pa.py_buffer(bytes(4)))], 3)
    with pytest.raises(ValueError, match="from 0 on for 3 probes of 2 keys"):
        newest_rows([keys], [None], [keys], [(0, None)], 2)
    with pytest.raises(ValueError, match="cannot be compared"):
        newest_rows([keys], [None], [keys_of(pa.string(), [1, 2, 3])], [(0, None)], 3)
    with pytest.raises(TypeError, match="kinds of Arrow format 'l'"):
        newest_rows([keys], [pa.array([1, 2, 3])], [keys], [(0, None)], 3)
    with pytest.raises(ValueError, match="2 kinds of 3 rows"):
        newest_rows([keys], [pa.array([1, 1], pa.int8())], [keys], [(0, None)], 3)


def selected(sources, wanted):
    """Rows of sources, each given as a list of sorted numbers, that are among the wanted ones of their source."""
    blocks = [keys_of(pa.int64(), range(size)) for size in sources]
    return find_rows(blocks, [keys_of(pa.int64(), sorted(rows)) for rows in wanted])[0]


@settings(max_examples=100)
@given(st.data())
def test_followed_rows_are_those_of_the_twin(data):
    origins, lengths, first = [], [], 0
    origin_places = []
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
            origin = selected(sizes, [data.draw(st.sets(st.integers(0, n - 1))) for n in sizes])
            origin_places.append([(first + source, row) for source, row in places(origin)])
            origins.append(origin)
            first += len(sizes)
        else:
            origin_places.append([(first, row) for row in range(9)])
            origins.append(None)
            first += 1
        lengths.append(len(origin_places[-1]))
    rows = [data.draw(st.sets(st.sampled_from(range(n)))) if n else set() for n in lengths]
    selection = selected(lengths, rows)
    assert places(followed(selection, origins)) == [
        origin_places[source][row] for source, row in places(selection)
    ]
    assert followed(selection, origins).num_sources == first


def test_an_origin_with_too_few_rows_is_refused():
    selection = selected([5], [{1, 4}])
    with pytest.raises(ValueError, match="origin 0 selects 2 rows"):
        followed(selection, [selected([3], [{0, 1}])])
    with pytest.raises(ValueError, match="2 origins of 1 sources"):
        followed(selection, [None, None])
