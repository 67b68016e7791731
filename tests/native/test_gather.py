"""gather() against indexing lists, for every layout, selection shape and kind of null."""

import decimal
import itertools
import random

import pyarrow as pa
import pytest

from lsmerge_native.gather import gather, gather_batches, gatherable, viewed, viewed_batch
from lsmerge_native.keys import encode_keys
from lsmerge_native.lookup import find_rows
from lsmerge_native.plan import plan_sorted
from lsmerge_native.reduce import all_rows, keep_adds, pick_last, pick_last_valid
from tests.native.merged_runs import blocky_runs, merged_runs, random_runs, sliced_array

SHAPES = list(itertools.product([random_runs, blocky_runs], [0, 0.4], range(4)))


def text(rng):
    return "é" * rng.choice([0, 0, 1, 3]) + "x" * rng.choice([0, 1, 7, 8, 15, 16, 17, 63, 64, 65])


TYPES = [
    (pa.bool_(), lambda rng: rng.random() < 0.5),
    (pa.int8(), lambda rng: rng.randrange(-128, 128)),
    (pa.int16(), lambda rng: rng.randrange(-(2**15), 2**15)),
    (pa.int32(), lambda rng: rng.randrange(-(2**31), 2**31)),
    (pa.int64(), lambda rng: rng.randrange(-(2**63), 2**63)),
    (pa.uint16(), lambda rng: rng.randrange(2**16)),
    (pa.float32(), lambda rng: rng.randrange(1000) / 8),
    (pa.float64(), lambda rng: rng.random()),
    (pa.decimal128(30, 2), lambda rng: decimal.Decimal(rng.randrange(10**26)).scaleb(-2)),
    (pa.decimal256(50, 0), lambda rng: decimal.Decimal(rng.randrange(10**20))),
    (pa.date32(), lambda rng: rng.randrange(20_000)),
    (pa.timestamp("us", "UTC"), lambda rng: rng.randrange(10**15)),
    (pa.binary(0), lambda rng: b""),
    (pa.binary(3), lambda rng: rng.randbytes(3)),
    (pa.binary(16), lambda rng: rng.randbytes(16)),
    (pa.binary(40), lambda rng: rng.randbytes(40)),
    (pa.string(), text),
    (pa.binary(), lambda rng: rng.randbytes(rng.randrange(40))),
]
NAMES = [str(type_) for type_, _ in TYPES]


def column(rng, lengths, type_, draw, null_chance):
    """One array per source; every second source has no nulls at all."""
    lists = [
        [None if s % 2 == 0 and rng.random() < null_chance else draw(rng) for _ in range(n)]
        for s, n in enumerate(lengths)
    ]
    return [sliced_array(rng, items, type_) for items in lists]


def gathered(arrays, selection):
    null_count, buffers = gather(arrays, selection)
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    array = pa.Array.from_buffers(arrays[0].type, len(selection), wrapped, null_count)
    array.validate(full=True)
    assert (buffers[0] is None) == (null_count == 0)
    assert array.null_count == sum(not value.is_valid for value in array) == null_count
    return array


def expected(arrays, entries):
    values = [None if entry is None else arrays[entry[0]][entry[1]].as_py() for entry in entries]
    return pa.array(values, arrays[0].type)


@pytest.mark.parametrize(("type_", "draw"), TYPES, ids=NAMES)
@pytest.mark.parametrize(("make", "null_chance", "seed"), SHAPES)
def test_rows_of_every_type(make, null_chance, seed, type_, draw):
    rng = random.Random(seed)
    runs = make(rng)
    arrays = column(rng, runs.lengths, type_, draw, null_chance)
    everything = gathered(arrays, all_rows(runs.plan))
    assert everything.equals(expected(arrays, runs.entries()))
    last = gathered(arrays, pick_last(runs.plan))
    assert last.equals(expected(arrays, [group[-1] for group in runs.groups]))


@pytest.mark.parametrize(("type_", "draw"), TYPES, ids=NAMES)
@pytest.mark.parametrize(("make", "null_chance", "seed"), SHAPES)
def test_null_picks_give_nulls(make, null_chance, seed, type_, draw):
    rng = random.Random(seed)
    runs = make(rng)
    guide = column(rng, runs.lengths, pa.int8(), lambda rng: rng.choice([None, 1]), 0.5)
    arrays = column(rng, runs.lengths, type_, draw, null_chance)
    entries = [[e for e in g if guide[e[0]][e[1]].is_valid] for g in runs.groups]
    selection = pick_last_valid(runs.plan, guide)
    result = gathered(arrays, selection)
    assert result.equals(expected(arrays, [group[-1] if group else None for group in entries]))


@pytest.mark.parametrize(("type_", "draw"), TYPES, ids=NAMES)
def test_one_source_in_any_order(type_, draw):
    rng = random.Random(5)
    array = sliced_array(rng, [draw(rng) for _ in range(300)], type_)
    order = rng.sample(range(300), 300)
    keys = encode_keys([pa.array([0] * 300)])
    plan = plan_sorted(keys, b"".join(row.to_bytes(4, "little") for row in order))
    assert gathered([array], all_rows(plan)).equals(array.take(pa.array(order)))


@pytest.mark.parametrize(("type_", "draw"), TYPES, ids=NAMES)
def test_buffers_at_odd_addresses(type_, draw):
    """Whoever hands an array over may have cut it out of a message anywhere; words are read where words lie."""
    rng = random.Random(6)
    array = pa.array([draw(rng) for _ in range(50)], type_)
    moved = [
        None if buffer is None else pa.py_buffer(b"\0" + buffer.to_pybytes()).slice(1)
        for buffer in array.buffers()
    ]
    odd = pa.Array.from_buffers(type_, 50, moved).slice(3)
    keys = encode_keys([pa.array([0] * 47)])
    plan = plan_sorted(keys, b"".join(row.to_bytes(4, "little") for row in range(46, -1, -1)))
    assert gathered([odd], all_rows(plan)).equals(array.slice(3)[::-1])


@pytest.mark.parametrize(("type_", "draw"), TYPES, ids=NAMES)
@pytest.mark.parametrize("null_chance", [0, 0.3])
def test_rows_far_apart(type_, draw, null_chance):
    rng = random.Random(31)
    runs = [list(range(first, 4000, 2)) for first in (0, 1)]
    arrays = column(rng, [2000, 2000], type_, draw, null_chance)
    probes = encode_keys([pa.array(range(0, 4000, 37))])
    selection, _ = find_rows([encode_keys([pa.array(run)]) for run in runs], [probes, probes])
    entries = [
        (source, row)
        for source, run in enumerate(runs)
        for row, key in enumerate(run)
        if key % 37 == 0
    ]
    assert gathered(arrays, selection).equals(expected(arrays, entries))


def test_a_view_is_as_good_as_its_array():
    arrays = [pa.array(["a", None, "c"]), pa.array(["d"])]
    blocks = [encode_keys([pa.array([0, 1, 2])]), encode_keys([pa.array([3])])]
    selection, _ = find_rows(blocks, [encode_keys([pa.array([1, 2, 3])])] * 2)
    by_array, by_view = gather(arrays, selection), gather(list(map(viewed, arrays)), selection)
    assert by_array[0] == by_view[0] == 1
    assert [bytes(buffer) for buffer in by_array[1]] == [bytes(buffer) for buffer in by_view[1]]


def test_a_filtered_selection():
    runs = merged_runs(random.Random(0), [list(range(0, 100, 2)), list(range(1, 100, 2))])
    kinds = [pa.array([0, 3] * 25, pa.int8())] * 2
    names = [pa.array([f"{s}-{r}" for r in range(50)]) for s in range(2)]
    result = gathered(names, keep_adds(pick_last(runs.plan), kinds))
    assert result.to_pylist() == [f"{s}-{r}" for r in range(0, 50, 2) for s in range(2)]


@pytest.mark.parametrize(("type_", "draw"), TYPES, ids=NAMES)
def test_no_rows(type_, draw):
    plan = merged_runs(random.Random(0), [[], []]).plan
    assert len(gathered([pa.array([], type_)] * 2, all_rows(plan))) == 0


@pytest.mark.parametrize("keys", [[1, 2], list(range(100))], ids=["rows", "runs"])
def test_null_picks_of_strings_are_empty(keys):
    plan = merged_runs(random.Random(0), [keys]).plan
    selection = pick_last_valid(plan, [pa.nulls(len(keys), pa.int8())])
    null_count, (_, _, data) = gather([pa.array(["hidden"] * len(keys))], selection)
    assert (null_count, bytes(data)) == (len(keys), b"")


def test_null_strings_are_empty():
    hidden = pa.py_buffer(b"secret")
    offsets = pa.py_buffer(b"".join(i.to_bytes(4, "little") for i in (0, 3, 6)))
    array = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), offsets, hidden])
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    null_count, (_, _, data) = gather([array], all_rows(plan))
    assert (null_count, bytes(data)) == (1, b"ret")


@pytest.mark.parametrize("size", [1, 8, 15, 16, 17, 33, 64, 65])
def test_the_last_string_may_end_where_its_memory_ends(size):
    """Too long a read shows under a memory checker only, a wrong byte everywhere."""
    offsets = b"".join(i.to_bytes(4, "little") for i in (0, size, 2 * size))
    data = random.Random(size).randbytes(2 * size)
    array = pa.Array.from_buffers(pa.binary(), 2, [None, *map(pa.py_buffer, (offsets, data))])
    plan = merged_runs(random.Random(0), [[1, 2]]).plan
    assert gathered([array], all_rows(plan)).to_pylist() == [data[:size], data[size:]]


def test_strings_beyond_what_an_array_holds():
    keys = encode_keys([pa.array([0])])
    plan = plan_sorted(keys, bytes(4 * 2200))
    with pytest.raises(OverflowError, match="2200 rows; one array holds 2147483647"):
        gather([pa.array(["x" * 1_000_000])], all_rows(plan))


@pytest.mark.parametrize(
    ("array", "answer"),
    [
        *((pa.array([], type_), True) for type_, _ in TYPES),
        (pa.array([[1]]), False),
        (pa.array([{"a": 1}]), False),
        (pa.array(["a"], pa.large_string()), False),
        (pa.array(["a"]).dictionary_encode(), False),
    ],
)
def test_what_can_be_gathered(array, answer):
    assert gatherable(array) is answer
    if not answer:
        plan = merged_runs(random.Random(0), [[1]]).plan
        with pytest.raises(TypeError, match="cannot gather arrays of Arrow format"):
            gather([array], all_rows(plan))


def test_arrays_that_do_not_match_the_selection_are_refused():
    selection = all_rows(merged_runs(random.Random(0), [[1, 2], [3]]).plan)
    two, one = pa.array([1, 2]), pa.array([1])
    with pytest.raises(ValueError, match="at least one array"):
        gather([], selection)
    with pytest.raises(ValueError, match="3 arrays for 2 sources"):
        gather([two, one, one], selection)
    with pytest.raises(ValueError, match="source 0 has 1 rows where 2 are needed"):
        gather([one, two], selection)
    with pytest.raises(ValueError, match="source 1 has 0 rows where 1 are needed"):
        gather([two, one[:0]], selection)
    with pytest.raises(TypeError, match="source 1 has Arrow format 'i', source 0 has 'l'"):
        gather([two, pa.array([1], pa.int32())], selection)


# ---- memory of the caller's ----


@pytest.mark.parametrize("seed", range(6))
def test_many_columns_at_once_are_what_each_is_alone(seed):
    rng = random.Random(seed)
    runs = random_runs(rng)
    selection = pick_last(runs.plan)
    columns = {
        name: column(rng, runs.lengths, type_, draw, 0.3)
        for name, (type_, draw) in zip(NAMES, TYPES, strict=True)
    }
    batches = [
        pa.record_batch({name: arrays[source] for name, arrays in columns.items()})
        for source in range(len(runs.lengths))
    ]
    found = gather_batches(batches, NAMES, selection)
    alone = [gather(columns[name], selection) for name in NAMES]
    views = gather_batches([viewed_batch(batch) for batch in batches], NAMES, selection)
    assert list(map(contents, found)) == list(map(contents, alone)) == list(map(contents, views))


def contents(column):
    null_count, buffers = column
    return null_count, [None if buffer is None else bytes(buffer) for buffer in buffers]


def test_slices_of_a_view_are_slices_of_its_batch():
    batch = pa.record_batch({"n": [1, None, 3, None, 5], "s": ["a", "bb", None, "c", ""]})
    keys = encode_keys([pa.array([1, 2, 3])])
    selection = all_rows(plan_sorted(keys, pa.array([0, 1, 2], pa.uint32()).buffers()[1]))
    part = viewed_batch(batch).slice(1, 4)
    assert part.num_rows == 3
    found = gather_batches([part], ["s", "n"], selection)
    assert [null_count for null_count, _ in found] == [1, 2]
    assert bytes(found[0][1][2]) == b"bbc"
    with pytest.raises(IndexError):
        part.slice(0, 4)
    with pytest.raises(KeyError):
        gather_batches([part], ["absent"], selection)


def test_a_view_has_the_batch_it_is_of():
    batch = pa.record_batch({"n": [1, None, 3, None, 5], "l": [[1], [], None, [2, 3], [4]]})
    view = viewed_batch(batch)
    part = view.slice(1, 5).slice(1, 3)
    assert view.batch is batch
    assert part.schema == batch.schema
    assert part.batch.equals(batch.slice(2, 2))
    assert "n" in part
    assert "absent" not in part
    assert view.has_nulls(0)
    assert not view.slice(4, 5).has_nulls(0)
    for place in (-1, 2):
        with pytest.raises(IndexError):
            view.has_nulls(place)


def test_what_is_no_batch_is_refused():
    with pytest.raises(TypeError, match="expected a batch"):
        viewed_batch(pa.array([1]))
