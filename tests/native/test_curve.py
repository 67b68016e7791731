"""Ranks and z-order against plain Python."""

import itertools
import random

import pyarrow as pa
import pytest

from lsmerge_native.curve import interleave, ranks
from lsmerge_native.keys import encode_keys


def uint32(values):
    return pa.array(values, pa.uint32()).buffers()[1]


def naive_z(row, bits):
    """The bits of each number, most significant first, taken in turns."""
    texts = [format(number & (2**bits - 1), f"0{bits}b") for number in row]
    text = "".join(text[i] for i in range(bits) for text in texts)
    size = -(-len(text) // 8)
    return int(text.ljust(8 * size, "0"), 2).to_bytes(size, "big")


@pytest.mark.parametrize("num_columns", [1, 2, 3, 5])
@pytest.mark.parametrize("bits", [1, 7, 16, 32])
def test_bits_are_taken_in_turns(num_columns, bits):
    draw = random.Random(f"{num_columns} {bits}")
    rows = [[draw.randrange(2**32) for _ in range(num_columns)] for _ in range(50)]
    columns = [uint32(list(column)) for column in zip(*rows, strict=True)]
    found = bytes(memoryview(interleave(columns, bits)))
    assert found == b"".join(naive_z(row, bits) for row in rows)


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_a_rank_is_the_number_of_bounds_before(seed, after):
    draw = random.Random(seed)
    values = [draw.choice([None, *range(9)]) for _ in range(40)]
    bounds = sorted((draw.choice([None, *range(9)]) for _ in range(seed)), key=order)
    found = ranks(encoded(bounds), encoded(values), after=after)
    expected = [
        sum(order(b) < order(value) or (after and b == value) for b in bounds) for value in values
    ]
    assert memoryview(found).cast("I").tolist() == expected


def order(value):
    return (value is not None, value or 0)


def encoded(values):
    return encode_keys([pa.array(values, pa.int64())], nullable=[True])


def test_text_ranks():
    bounds = encode_keys([pa.array(["b", "bb", "d"])])
    found = ranks(bounds, encode_keys([pa.array(["c", "a", "bb", "", "zz"])]))
    assert memoryview(found).cast("I").tolist() == [2, 0, 2, 0, 3]


@pytest.mark.parametrize(
    ("columns", "bits"), [([], 8), ([[1]], 0), ([[1]], 33), ([[1], [1, 2]], 8), ([[1]] * 65, 1)]
)
def test_what_cannot_be_interleaved(columns, bits):
    with pytest.raises(ValueError, match=r"interleave|lengths"):
        interleave([uint32(column) for column in columns], bits)


def test_keys_of_other_columns_have_no_rank():
    with pytest.raises(ValueError, match="ranks"):
        ranks(encode_keys([pa.array([1], pa.int8())]), encode_keys([pa.array([1], pa.int64())]))


@pytest.mark.parametrize(("num_columns", "bits"), [(1, 4), (2, 1), (2, 4), (3, 3), (4, 2)])
def test_a_hilbert_curve_goes_from_cell_to_neighbour(num_columns, bits):
    """Every cell once, and each step one cell along one axis."""
    cells = list(itertools.product(range(2**bits), repeat=num_columns))
    columns = [uint32(column) for column in zip(*cells, strict=True)]
    found = bytes(memoryview(interleave(columns, bits, hilbert=True)))
    width = (num_columns * bits + 7) // 8
    values = [found[row * width : (row + 1) * width] for row in range(len(cells))]
    assert len(set(values)) == len(cells)
    path = [cell for _, cell in sorted(zip(values, cells, strict=True))]
    for before, after in itertools.pairwise(path):
        assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) == 1
