"""Single keys in blocks, files and runs, beside a naive twin that looks at every row."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsmerge_native.filter import build_filter
from lsmerge_native.gather import gatherable, viewed
from lsmerge_native.keys import encode_keys
from lsmerge_native.one_key import key_encoder
from lsmerge_native.point_files import PointBucket, PointFile
from lsmerge_native.point_rows import PointBlock, RowShape
from lsmerge_native.points import PointReader

INSERT, DELETE = 0, 3


def encoded(type_, values):
    return encode_keys([pa.array(values, type_)])


def key_of(type_, number):
    return f"a longer key {number:04d}" if type_ == pa.string() else number


class Owner:
    """A bucket of runs, each a list of files, each a list of blocks of (key, kind, value)."""

    def __init__(self, type_, runs, *, by_age=True, one_row=True, newest_wins=True, buckets=1):
        self.type_, self.one_row, self.loads = type_, one_row, 0
        files = [[self.file(blocks) for blocks in run] for run in runs]
        self.the_bucket = PointBucket(files, by_age)
        shape = RowShape(
            ["k", "v"],
            [pa.array([], type_), pa.array([], pa.int32())],
            [1, 2],
            [None, 7],
            0,
            lambda scalar: scalar.as_py(),
        )
        encoder = key_encoder([pa.array([], type_)], [1 << 16], 1 << 16, [0], [0])
        self.reader = PointReader(self, encoder, shape, (), newest_wins)
        self.reader.put_partition(None, "whole", buckets)

    def file(self, blocks):
        ends = [(encoded(self.type_, [b[0][0]]), encoded(self.type_, [b[-1][0]])) for b in blocks]
        first, last = ([key.bytes_at(0) for key in side] for side in zip(*ends, strict=True))
        return PointFile((blocks, first, last), first[0], last[-1])

    def bucket(self, partition, number):
        assert (partition, number) == ("whole", 0)
        return self.the_bucket

    def open(self, file):
        blocks, first, last = file.file
        keys = [encoded(self.type_, [row[0] for row in block]) for block in blocks]
        file.open(first, last, build_filter([key.hashes() for key in keys]), self.one_row)

    def load(self, file, number):
        rows = file.file[0][number]
        columns = [
            pa.array([row[1] for row in rows], pa.int8()),
            pa.array([row[0] for row in rows], self.type_),
            pa.array([row[2] for row in rows], pa.int32()),
        ]
        batch = pa.record_batch(columns, ["kind", "k", "v"])
        source = SimpleNamespace(batch=batch)
        block = PointBlock(source, encode_keys([columns[1]]), [viewed(c) for c in columns])
        file.put(number, block)
        self.loads += 1
        return block

    def merged(self, bucket, key):
        rows = [
            (file[0], block.source.batch.slice(start, stop - start).to_pylist())
            for file, block, start, stop in self.reader.parts(bucket, key)
        ]
        return {"merged": [row["v"] for _, part in rows for row in part]}


def cut(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@st.composite
def trees(draw):
    type_ = draw(st.sampled_from([pa.int64(), pa.int16(), pa.string()]))
    unique = draw(st.booleans())
    runs, value = [], 0
    for _ in range(draw(st.integers(0, 3))):
        numbers = sorted(draw(st.lists(st.integers(0, 40), min_size=1, max_size=50, unique=unique)))
        rows = []
        for number in numbers:
            value += 1
            kind = draw(st.sampled_from([INSERT, INSERT, DELETE]))
            rows.append((key_of(type_, number), kind, draw(st.sampled_from([value, None]))))
        blocks = cut(rows, draw(st.integers(1, 9)))
        files = cut(blocks, draw(st.integers(1, 4))) if unique else [blocks]
        runs.append(files)
    return type_, runs, unique


def expected(runs, key, *, one_row, newest_wins):
    """What the reader must say, found row by row."""
    found = [
        [row for file in run for block in file for row in block if row[0] == key] for run in runs
    ]
    found = [rows for rows in found if rows]
    every = {"merged": [row[2] for rows in found for row in rows]}
    if not found:
        return None
    if newest_wins:
        found = found[:1]
    if len(found) > 1 or len(found[0]) > 1 or not one_row:
        return every
    _, kind, value = found[0][0]
    if kind == DELETE:
        return None if newest_wins else every
    return {"k": key, "v": 7 if value is None else value}


@settings(max_examples=200)
@given(trees(), st.booleans(), st.booleans())
def test_rows_are_those_of_the_twin(tree, newest_wins, by_age):
    type_, runs, one_row = tree
    owner = Owner(type_, runs, by_age=by_age, one_row=one_row, newest_wins=newest_wins)
    for number in (*range(-1, 42), *range(0, 41, 7)):
        key = key_of(type_, max(0, number) if type_ == pa.string() else number)
        answer = expected(runs, key, one_row=one_row, newest_wins=newest_wins and by_age)
        assert owner.reader.get(key) == answer
        assert owner.reader.get_at(owner.the_bucket, encoded(type_, [key])) == answer


ROWS = [[[[(1, INSERT, 10), (2, INSERT, 20)], [(3, INSERT, 30)]]]]


def test_blocks_are_loaded_once_while_they_are_at_hand():
    owner = Owner(pa.int64(), ROWS)
    assert [owner.reader.get(k)["v"] for k in (1, 2, 3, 1)] == [10, 20, 30, 10]
    assert owner.loads == 2
    file = owner.the_bucket.runs[0][0]
    assert [block.hits for block in file.blocks] == [2, 0]
    file.put(0, None)
    assert owner.reader.get(1)["v"] == 10
    assert owner.loads == 3


def test_a_closed_file_is_opened_again():
    owner = Owner(pa.int64(), ROWS)
    file = owner.the_bucket.runs[0][0]
    assert not file.is_open
    owner.reader.get(1)
    file.close()
    assert (file.is_open, file.blocks) == (False, None)
    file.put(0, None)
    assert owner.reader.get(3) == {"k": 3, "v": 30}


def test_a_file_may_be_closed_while_a_block_is_loaded():
    owner = Owner(pa.int64(), [[[[(1, INSERT, 10)], [(1, INSERT, 11)]]]], one_row=False)
    load = owner.load

    def load_and_close(file, number):
        block = load(file, number)
        file.close()
        return block

    owner.load = load_and_close
    assert owner.reader.get(1) == {"merged": [10, 11]}


def test_keys_that_the_reader_leaves_to_others():
    owner = Owner(pa.int64(), ROWS)
    assert owner.reader.get("1") is NotImplemented
    assert owner.reader.newest(1) is NotImplemented  # nobody watches
    shape = RowShape(["k"], [pa.array([], pa.int64())], [0], [None], 0, str)
    bare = PointReader(owner, None, shape, (), True)
    assert bare.get(1) is NotImplemented


def test_partitions_are_named_by_the_owner():
    encoder = key_encoder(
        [pa.array([], pa.string()), pa.array([], pa.int64())], [9, 9], 9, [1], [1]
    )
    owner = Owner(pa.int64(), ROWS)
    shape = RowShape(["k"], [pa.array([], pa.int64())], [1], [None], 0, str)
    reader = PointReader(owner, encoder, shape, (0,), True)
    assert reader.get(("a", 1)) is NotImplemented
    reader.put_partition("a", "whole", 1)
    assert reader.get(("a", 1)) == {"k": 1}
    assert reader.get(("b", 1)) is NotImplemented
    owner.located = lambda partition, hash_: (
        owner.the_bucket if (partition, hash_) == ("p", -1712319331) else None
    )
    reader.put_partition("b", "p", 0)
    assert reader.get(("b", 1)) == {"k": 1}
    assert reader.get(("b", 2)) is None


def test_failures_of_the_owner_are_passed_on():
    owner = Owner(pa.int64(), ROWS)
    owner.load = lambda file, number: 1 / 0
    with pytest.raises(ZeroDivisionError):
        owner.reader.get(1)
    owner.load = lambda file, number: None
    with pytest.raises(TypeError, match="block 0 was not loaded"):
        owner.reader.get(1)


def test_what_cannot_be_is_refused():
    owner = Owner(pa.int64(), ROWS)
    file = owner.the_bucket.runs[0][0]
    owner.reader.get(1)
    with pytest.raises(IndexError, match="block 2"):
        file.put(2, None)
    with pytest.raises(ValueError, match="2 first keys for 1"):
        file.open([b"a", b"b"], [b"c"], None, True)
    with pytest.raises(ValueError, match="whole blocks"):
        file.open([b"a"], [b"c"], b"", True)
    with pytest.raises(TypeError):
        file.open([1], [2], None, True)
    with pytest.raises(TypeError, match="a run is a list of files"):
        PointBucket([[1]], True)
    with pytest.raises(TypeError, match="a run is a list of files"):
        PointBucket([(file,)], True)
    with pytest.raises(ValueError, match="negative"):
        owner.reader.put_partition(None, (), -1)
    with pytest.raises(ValueError, match="2 keys"):
        owner.reader.get_at(owner.the_bucket, encoded(pa.int64(), [1, 2]))
    with pytest.raises(ValueError, match="width"):
        owner.reader.get_at(owner.the_bucket, encoded(pa.binary(), [b"\x80\0\0\0\0\0\0\1"]))


TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.binary(2),
    pa.date32(),
    pa.timestamp("us"),
    pa.decimal128(12, 2),
    pa.list_(pa.int8()),
]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_values_are_those_of_arrow(type_):
    plain = {pa.string(): ["", "añ\0"], pa.binary(): [b"", b"\0x"], pa.binary(2): [b"ab", b"\0\0"]}
    numbers = pa.array([1, 0, None, -1, 100])
    if type_ in plain:
        array = pa.array([*plain[type_], None], type_)
    elif pa.types.is_list(type_):
        array = pa.array([[1, None], [], None], type_)
    elif type_ in (pa.date32(), pa.timestamp("us")):
        array = numbers.cast(pa.int32() if type_ == pa.date32() else pa.int64()).cast(type_)
    else:
        array = numbers.cast(pa.int32()).cast(type_, safe=False)
    for column in (array, array.slice(1), array.slice(len(array) - 1)):
        keys = encoded(pa.int64(), list(range(len(column))))
        views = [viewed(column) if gatherable(column) else None]
        block = PointBlock(SimpleNamespace(batch=pa.record_batch([column], ["c"])), keys, views)
        shape = RowShape(["c"], [pa.array([], type_)], [0], [None], 0, lambda s: s.as_py())
        rows = [shape.row_of(block, row) for row in range(len(column))]
        assert rows == [{"c": value} for value in column.to_pylist()]
        with pytest.raises(IndexError, match=f"row {len(column)}"):
            shape.row_of(block, len(column))


def test_days_that_python_has_no_date_for_are_handed_on():
    column = pa.array([10**7, -(10**6)], pa.int32()).view(pa.date32())
    source = SimpleNamespace(batch=pa.record_batch([column], ["c"]))
    block = PointBlock(source, encoded(pa.int64(), [0, 1]), [viewed(column)])
    shape = RowShape(["c"], [pa.array([], pa.date32())], [0], [None], 0, lambda s: s.value)
    assert [shape.row_of(block, row)["c"] for row in (0, 1)] == [10**7, -(10**6)]


def test_marks_of_use():
    block = PointBlock(None, encoded(pa.int64(), [1]), [])
    assert [block.take_mark(), block.take_mark()] == [True, False]
    block.note_use()
    assert (block.take_mark(), block.hits) == (True, 1)
