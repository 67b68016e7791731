"""Searches of keys in blocks, side by side, beside a naive twin."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.keys import encode_keys
from lsmerge_native.lookup import find_rows, touched_blocks

TYPES = st.sampled_from([pa.int32(), pa.int64(), pa.string()])


def keys_of(type_, values):
    plain = [f"a longer key {v:04d}" if type_ == pa.string() else v for v in values]
    return encode_keys([pa.array(plain, type_)])


def cut(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def numbers(buffer, code):
    return list(memoryview(buffer).cast(code))


@settings(max_examples=150)
@given(
    TYPES,
    st.lists(st.integers(0, 200), max_size=150),
    st.sets(st.integers(-5, 205), max_size=80),
    st.integers(1, 70),
)
def test_rows_are_those_of_the_twin(type_, rows, probes, size):
    blocks, probes = cut(sorted(rows), size), sorted(max(0, probe) for probe in probes)
    probes = sorted(set(probes))
    keys = [keys_of(type_, block) for block in blocks]
    firsts, lasts = [k.bytes_at(0) for k in keys], [k.bytes_at(len(k) - 1) for k in keys]
    touched = touched_blocks(keys_of(type_, probes), firsts, lasts)
    assert touched == [
        (
            number,
            len([p for p in probes if p < block[0]]),
            len([p for p in probes if p <= block[-1]]),
        )
        for number, block in enumerate(blocks)
        if any(block[0] <= p <= block[-1] for p in probes)
    ]
    found, counts = find_rows(
        [keys[number] for number, _, _ in touched],
        [keys_of(type_, probes).slice(start, stop) for _, start, stop in touched],
    )
    assert counts == [sum(v in probes for v in blocks[number]) for number, _, _ in touched]
    entries = list(zip(numbers(found.sources, "H"), numbers(found.rows, "I"), strict=True))
    assert entries == [
        (source, row)
        for source, (number, _, _) in enumerate(touched)
        for row, value in enumerate(blocks[number])
        if value in probes
    ]


def test_a_key_that_goes_on_in_the_next_block_is_found_in_both():
    keys = [keys_of(pa.int64(), values) for values in ([1, 7, 7], [7, 7, 9])]
    probes = keys_of(pa.int64(), [7])
    ends = [k.bytes_at(0) for k in keys], [k.bytes_at(2) for k in keys]
    assert touched_blocks(probes, *ends) == [(0, 0, 1), (1, 0, 1)]
    found, counts = find_rows(keys, [probes, probes])
    assert counts == [2, 2]
    assert numbers(found.rows, "I") == [1, 2, 0, 1]


def test_no_blocks_and_no_probes():
    none = keys_of(pa.int64(), [])
    assert touched_blocks(none, [b"a"], [b"b"]) == []
    assert len(find_rows([], [])[0]) == 0
    assert find_rows([none], [keys_of(pa.int64(), [1])])[1] == [0]
    assert find_rows([keys_of(pa.int64(), [1])], [none])[1] == [0]


def test_what_does_not_fit_is_refused():
    keys = keys_of(pa.int64(), [1, 2])
    with pytest.raises(ValueError, match="2 probes for 1 blocks"):
        find_rows([keys], [keys, keys])
    with pytest.raises(ValueError, match="cannot be compared"):
        find_rows([keys], [keys_of(pa.string(), [1])])
    with pytest.raises(ValueError, match="1 first keys for 0 last keys"):
        touched_blocks(keys, [b"a"], [])


@settings(max_examples=200)
@given(
    st.binary(max_size=12),
    st.lists(st.lists(st.sampled_from([0, 1, 0x80, 0xFF]), max_size=11).map(bytes), max_size=120),
    st.sets(st.lists(st.sampled_from([0, 1, 0x80, 0xFF]), max_size=11).map(bytes), max_size=30),
    st.booleans(),
)
def test_keys_of_any_bytes_after_what_they_share(shared, tails, probes, is_shared_by_probes):
    block = sorted(shared + tail for tail in tails)
    wanted = sorted({shared + tail if is_shared_by_probes else tail for tail in probes})
    found, counts = find_rows(
        [encode_keys([pa.array(block, pa.binary())])],
        [encode_keys([pa.array(wanted, pa.binary())])],
    )
    expected = [row for row, key in enumerate(block) if key in wanted]
    assert (numbers(found.rows, "I"), counts) == (expected, [len(expected)])


@pytest.mark.parametrize("type_", [pa.int64(), pa.int16(), pa.string()])
@pytest.mark.parametrize("count", [0, 15, 16, 17, 255, 256, 257, 4095, 4096, 4600])
def test_blocks_of_samples_of_samples(type_, count):
    block = sorted((7 * row) % 9000 for row in range(count))
    probes = sorted({*block[::5], *range(0, 9000, 11), 0, 9001})
    found, _ = find_rows([keys_of(type_, block)], [keys_of(type_, probes)])
    wanted = set(probes)
    expected = [row for row, value in enumerate(block) if value in wanted]
    assert numbers(found.rows, "I") == expected
