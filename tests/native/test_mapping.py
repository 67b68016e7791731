"""Mapped files: what was written is there for as long as somebody looks."""

import gc
import os
import tempfile

import pyarrow as pa
import pytest

from lsmerge_native.mapping import MappedFile, is_on_disk


def mapped(data):
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        return MappedFile(file.fileno(), len(data))


def test_bytes_are_those_of_the_file():
    data = os.urandom(10_000)
    whole = mapped(data)
    assert len(whole) == len(data)
    assert bytes(whole) == data


def test_a_view_keeps_the_mapping():
    view = pa.py_buffer(mapped(b"abc" * 1000)).slice(3, 3)
    gc.collect()
    assert view.to_pybytes() == b"abc"


def test_bytes_are_read_only():
    with pytest.raises(TypeError):
        memoryview(mapped(b"abc"))[0] = 1


def test_no_bytes_are_refused():
    with pytest.raises(OSError, match="Invalid argument"):
        mapped(b"")


def test_a_closed_handle_is_refused():
    handle = os.dup(0)
    os.close(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        MappedFile(handle, 1)
    assert not is_on_disk(handle)


def test_it_is_made_once():
    with pytest.raises(ValueError, match="once"):
        mapped(b"abc").__init__(0, 3)


def test_a_file_in_memory_is_on_no_disk():
    handle = os.memfd_create("test")
    assert not is_on_disk(handle)
    os.close(handle)
