"""Arrow arrays at the native door: offsets, empty buffers, foreign producers, released capsules."""

import ctypes
import gc
import weakref

import pyarrow as pa
import pytest

from lsmerge_native.keys import encode_keys


class ForeignArray:
    """Shows nothing but the capsule method, as an array of another library does."""

    def __init__(self, array):
        self._array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self._array.__arrow_c_array__(requested_schema)


class FixedCapsules:
    def __init__(self, capsules):
        self._capsules = capsules

    def __arrow_c_array__(self, requested_schema=None):
        return self._capsules


class CArrowArray(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


def struct_of(capsule):
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype = ctypes.c_void_p
    address.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return CArrowArray.from_address(address(capsule, b"arrow_array"))


def encoded(array, **flags):
    keys = encode_keys([array], **flags)
    return [keys.bytes_at(i) for i in range(len(keys))]


def test_foreign_producer():
    assert encoded(ForeignArray(pa.array(["b", "a"]))) == [b"b", b"a"]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(range(20), pa.int32()),
        pa.array([i % 3 == 0 for i in range(20)]),
        pa.array([f"value {i}" for i in range(20)]),
        pa.array([bytes([i]) * 3 for i in range(20)], pa.binary(3)),
    ],
)
def test_offset_is_honoured(array):
    assert encoded(array.slice(3, 11)) == encoded(array)[3:14]


def test_offset_of_validity_is_honoured():
    array = pa.array([None if i % 3 else i for i in range(40)], pa.int16())
    assert encoded(array.slice(5, 30), nullable=[True]) == encoded(array, nullable=[True])[5:35]


@pytest.mark.parametrize("type_", [pa.int64(), pa.bool_(), pa.string(), pa.binary(20)])
def test_empty_array(type_):
    assert encoded(pa.array([], type_)) == []
    assert encoded(pa.array([None, None], type_).slice(1, 0)) == []


def test_empty_string_array_without_buffers():
    schema, data = pa.array([], pa.string()).__arrow_c_array__()
    struct_of(data).buffers[1] = struct_of(data).buffers[2] = None
    keys = encode_keys([FixedCapsules((schema, data))])
    assert (len(keys), keys.nbytes, len(keys.slice(0, 0)), keys.search(b"a")) == (0, 0, 0, 0)
    assert keys.is_sorted()


def test_unknown_null_count_is_counted():
    schema, data = pa.array([1, None, 3], pa.int64()).__arrow_c_array__()
    struct_of(data).null_count = -1
    with pytest.raises(ValueError, match="column 0 of the key is null in row 1"):
        encode_keys([FixedCapsules((schema, data))])


def test_validity_without_nulls():
    schema, data = pa.array([1, None, 3], pa.int64()).slice(2).__arrow_c_array__()
    struct_of(data).null_count = -1
    assert encoded(FixedCapsules((schema, data))) == encoded(pa.array([3], pa.int64()))


def test_view_keeps_the_buffers_alive():
    backing = bytearray(b"abcdef")

    class Owner(bytearray):
        pass

    owner = Owner(backing)
    alive = weakref.ref(owner)
    offsets = pa.py_buffer((0).to_bytes(4, "little") + (6).to_bytes(4, "little"))
    array = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(owner)])
    keys = encode_keys([array]).slice(0, 1)
    del owner, array
    gc.collect()
    assert alive() is not None
    assert keys.bytes_at(0) == b"abcdef"
    del keys
    gc.collect()
    assert alive() is None


def test_one_export_may_be_viewed_twice():
    source = FixedCapsules(pa.array([7], pa.int8()).__arrow_c_array__())
    assert encoded(source) == encoded(source) == [b"\x87"]


def test_consumed_array_is_refused():
    schema, data = pa.array([1, 2]).__arrow_c_array__()
    pa.array(FixedCapsules((schema, data)))  # moves the structs out
    with pytest.raises(ValueError, match="released"):
        encode_keys([FixedCapsules((schema, data))])


@pytest.mark.parametrize("thing", [None, 5, [1, 2], pa.chunked_array([[1]])])
def test_not_an_arrow_array(thing):
    with pytest.raises(TypeError, match="__arrow_c_array__"):
        encode_keys([thing])


@pytest.mark.parametrize("capsules", [None, (), (1,), "ab"])
def test_capsules_of_the_wrong_shape(capsules):
    with pytest.raises((TypeError, ValueError)):
        encode_keys([FixedCapsules(capsules)])


def test_capsules_in_the_wrong_order():
    schema, data = pa.array([1]).__arrow_c_array__()
    with pytest.raises(ValueError, match="PyCapsule"):
        encode_keys([FixedCapsules((data, schema))])


@pytest.mark.parametrize(("field", "value"), [("length", -1), ("offset", -1), ("n_buffers", 1)])
def test_malformed_struct(field, value):
    schema, data = pa.array([1, 2], pa.int64()).__arrow_c_array__()
    struct = struct_of(data)
    before = getattr(struct, field)
    setattr(struct, field, value)
    with pytest.raises(ValueError, match="malformed Arrow array of format 'l'"):
        encode_keys([FixedCapsules((schema, data))])
    setattr(struct, field, before)


@pytest.mark.parametrize(
    ("array", "buffer"),
    [
        (pa.array([1, 2], pa.int64()), 1),
        (pa.array(["a"]), 1),
        (pa.array(["a"]), 2),
    ],
)
def test_missing_buffer(array, buffer):
    schema, data = array.__arrow_c_array__()
    struct = struct_of(data)
    before = struct.buffers[buffer]
    struct.buffers[buffer] = None
    with pytest.raises(ValueError, match="no values buffer"):
        encode_keys([FixedCapsules((schema, data))])
    struct.buffers[buffer] = before


@pytest.mark.parametrize(
    "array",
    [
        pa.nulls(2),
        pa.array([[1]], pa.list_(pa.int8())),
        pa.array(["a"]).dictionary_encode(),
        pa.array(["a"], pa.large_string()),
        pa.array(["a"], pa.string_view()),
        pa.array([1], pa.duration("s")),
        pa.array([1.0], pa.float16()),
        pa.array([1], pa.decimal256(40, 0)),
        pa.record_batch({"a": [1]}).to_struct_array(),
    ],
)
def test_unsupported_types_are_named(array):
    with pytest.raises(TypeError, match="Arrow format '"):
        encode_keys([array])
