"""NativeBuffer: read-only, aligned, padded, shared with pyarrow without a copy."""

import contextlib
import gc
import io
import pickle

import pyarrow as pa
import pytest

from lsmerge_native.buffers import (
    BlockBuffer,
    InputBuffer,
    NativeBuffer,
    begin_merge,
    end_merge,
    use_allocator,
)
from lsmerge_native.checksum import stripe_checksums
from lsmerge_native.filter import build_filter, probe_filter
from lsmerge_native.hashing import group_ids


def some_buffer(num_stripes):
    return stripe_checksums(bytes(num_stripes), b"id", 0, 1)


def test_python_sees_read_only_bytes():
    buffer = some_buffer(3)
    view = memoryview(buffer)
    assert (view.format, view.itemsize, view.ndim, view.readonly) == ("B", 1, 1, True)
    assert len(buffer) == view.nbytes == 12
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1


def test_a_writable_view_is_refused():
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(b"abcd").readinto(some_buffer(1))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_pyarrow_shares_the_memory_and_keeps_it_alive(size):
    buffer = some_buffer(size)
    shared = pa.py_buffer(buffer)
    expected = bytes(buffer)
    assert shared.size == len(buffer) == 4 * size
    assert shared.address == pa.py_buffer(memoryview(buffer)).address
    del buffer
    gc.collect()
    assert shared.to_pybytes() == expected


@pytest.mark.parametrize("size", [0, 1, 5, 1000, 3_000_000])
def test_memory_is_aligned(size):
    assert pa.py_buffer(some_buffer(size)).address % 64 == 0


@pytest.mark.parametrize("cls", [NativeBuffer, InputBuffer])
def test_only_kernels_make_buffers(cls):
    with pytest.raises(TypeError, match="made by"):
        cls()


def test_a_buffer_is_not_pickled():
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(some_buffer(1))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_is_accepted(wrap):
    ids = b"".join(i.to_bytes(4, "little") for i in (1, 0, 1))
    order, starts = group_ids(wrap(ids), 2)
    assert memoryview(order).cast("I").tolist() == [1, 0, 2]
    assert memoryview(starts).cast("I").tolist() == [0, 1, 3]


@pytest.mark.parametrize("shift", range(9))
def test_misaligned_input_is_read_all_the_same(shift):
    hashes = b"".join((i * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little") for i in range(50))
    shifted = memoryview(bytes(shift) + hashes)[shift:]
    bitset = bytes(build_filter([hashes]))
    assert bytes(build_filter([shifted])) == bitset
    shifted_filter = memoryview(bytes(shift) + bitset)[shift:]
    assert bytes(probe_filter(shifted_filter, shifted)) == b"\x01" * 50


def test_input_that_is_no_whole_number_of_items_is_refused():
    with pytest.raises(ValueError, match="hashes: 9 bytes do not make items of 8 bytes"):
        build_filter([bytes(9)])


def test_input_that_is_not_contiguous_is_refused():
    with pytest.raises(BufferError):
        build_filter([memoryview(bytes(64))[::2]])


def test_input_without_a_buffer_is_refused():
    with pytest.raises(TypeError):
        build_filter([1, 2, 3])


@contextlib.contextmanager
def allocating(allocator):
    before = use_allocator(allocator)
    try:
        yield
    finally:
        assert use_allocator(before) is allocator


def test_large_buffers_are_made_by_the_allocator():
    asked = []

    def allocator(nbytes):
        asked.append(nbytes)
        return pa.allocate_buffer(nbytes)

    expected = bytes(some_buffer(20_000))
    with allocating(allocator):
        buffer = some_buffer(20_000)
    assert asked == [80_128]
    shared = pa.py_buffer(buffer)
    del buffer
    gc.collect()
    assert shared.to_pybytes() == expected
    assert shared.address % 64 == 0


def test_small_buffers_are_not():
    with allocating(lambda nbytes: pytest.fail(f"asked for {nbytes} bytes")):
        assert len(some_buffer(3)) == 12


def test_an_allocator_that_gives_too_little_is_refused():
    with (
        allocating(lambda _: bytearray(999)),
        pytest.raises(ValueError, match="999 bytes allocated where 80128 were asked for"),
    ):
        some_buffer(20_000)
    with allocating(bytes), pytest.raises(BufferError):
        some_buffer(20_000)


@pytest.fixture
def nobody_else_merges():
    """A scan that an earlier test left unfinished, in a cycle of references, would have its memory kept here too."""
    gc.collect()


def test_memory_of_a_block_is_used_again_while_somebody_merges(nobody_else_merges):
    asked = []

    def counted(nbytes):
        asked.append(nbytes)
        return pa.allocate_buffer(nbytes)

    begin_merge(3_000_000)
    try:
        with allocating(counted):
            for nbytes in (2_000_000, 2_000_100, 1_999_000):  # nearly the same size
                BlockBuffer(nbytes)
            assert len(asked) == 1
            BlockBuffer(100_000)  # the one that is there is too large for this
            assert len(asked) == 2
    finally:
        end_merge(3_000_000)


def test_a_block_that_is_held_is_nobody_elses():
    begin_merge(3_000_000)
    try:
        first, second = BlockBuffer(1_000_000), BlockBuffer(1_000_000)
        memoryview(first)[:] = bytes(1_000_000)
        memoryview(second)[:] = b"x" * 1_000_000
        view = pa.py_buffer(first)
        del first
        third = BlockBuffer(1_000_000)
        memoryview(third)[:] = b"y" * 1_000_000
        assert view.to_pybytes() == bytes(1_000_000)
        assert len(third) == 1_000_000
    finally:
        end_merge(3_000_000)


def test_no_more_is_kept_than_all_merges_have_asked_for(nobody_else_merges):
    with allocating(pa.allocate_buffer):
        before = pa.total_allocated_bytes()
        begin_merge(5_000_000)
        begin_merge(3_000_000)
        blocks = [BlockBuffer(2_000_000) for _ in range(5)]
        del blocks
        assert 6_000_000 <= pa.total_allocated_bytes() - before < 8_000_000
        end_merge(5_000_000)
        assert 2_000_000 <= pa.total_allocated_bytes() - before < 3_000_000
        end_merge(3_000_000)
        assert pa.total_allocated_bytes() == before
        BlockBuffer(4_000_000)
        assert pa.total_allocated_bytes() == before
