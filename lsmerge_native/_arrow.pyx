"""Views of Arrow arrays through the C data interface; the only module that knows its structs.

A view borrows the producer's buffers and keeps the capsules that own them; it neither moves the
structs out of the capsules nor releases them, so one array may be viewed many times. Offsets are
honoured by the reader of a view (see _arrow.pxd), absent buffers of empty arrays stay NULL.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport strtol
from libc.string cimport strchr, strcmp, strncmp

from lsmerge_native._bits cimport bit_is_set


cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept
    void* private_data


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept
    void* private_data


cdef class ArrayView:
    cdef const uint8_t* values(self) noexcept nogil:
        if self.data == NULL:
            return NULL
        return <const uint8_t*>self.data + self.offset * self.width


cdef ArrayView view_array(object array):
    if isinstance(array, ArrayView):
        return <ArrayView> array
    cdef ArrayView view = ArrayView.__new__(ArrayView)
    view._schema_capsule, view._array_capsule = export(array)
    cdef const ArrowSchema* schema = <const ArrowSchema*>PyCapsule_GetPointer(
        view._schema_capsule, "arrow_schema")
    cdef const ArrowArray* data = <const ArrowArray*>PyCapsule_GetPointer(
        view._array_capsule, "arrow_array")
    if schema.release == NULL or data.release == NULL:
        raise ValueError("Arrow array was already released or moved by another consumer")
    view.format = schema.format
    set_layout(view, schema)
    set_buffers(view, data)
    return view


cdef tuple export(object array):
    """Return the (schema, array) capsules of anything that offers them."""
    method = getattr(array, "__arrow_c_array__", None)
    if method is None:
        raise TypeError(
            f"expected an Arrow array (with __arrow_c_array__), got {type(array).__name__}")
    capsules = method()
    if not isinstance(capsules, tuple) or len(capsules) != 2:
        raise TypeError(
            f"{type(array).__name__}.__arrow_c_array__ must return a pair of capsules")
    return capsules


cdef int set_layout(ArrayView view, const ArrowSchema* schema) except -1:
    cdef const char* code = schema.format
    if code[0] == c"n" or strncmp(code, "+u", 2) == 0 or strncmp(code, "+r", 2) == 0:
        raise TypeError(
            f"Arrow format '{code.decode()}' has no validity bitmap, so it is not supported")
    view.width = 0
    view.layout = LAYOUT_OTHER
    if schema.dictionary != NULL:
        return 0
    view.width = fixed_width(code)
    if view.width > 0:
        view.layout = LAYOUT_FIXED
    elif strcmp(code, "b") == 0:
        view.layout = LAYOUT_BITS
    elif strcmp(code, "u") == 0 or strcmp(code, "z") == 0:
        view.layout = LAYOUT_VARIABLE
    elif strncmp(code, "w:", 2) == 0:
        view.layout = LAYOUT_FIXED  # fixed_size_binary(0): every row is empty
    return 0


cdef Py_ssize_t fixed_width(const char* code) noexcept:
    """Bytes per row of a fixed-width format, else 0."""
    if code[0] == c"t":
        return temporal_width(code)
    if code[0] == c"d" and code[1] == c":":
        return decimal_width(code)
    if code[0] == c"w" and code[1] == c":":
        return strtol(code + 2, NULL, 10)
    if code[0] == 0 or code[1] != 0:
        return 0
    if code[0] in (c"c", c"C"):
        return 1
    if code[0] in (c"s", c"S", c"e"):
        return 2
    if code[0] in (c"i", c"I", c"f"):
        return 4
    if code[0] in (c"l", c"L", c"g"):
        return 8
    return 0


cdef Py_ssize_t temporal_width(const char* code) noexcept:
    """Width of date, time, timestamp, duration and interval formats ('tdD', 'tsu:UTC', 'tin')."""
    if strcmp(code, "tdD") == 0 or strcmp(code, "tts") == 0 or strcmp(code, "ttm") == 0:
        return 4
    if strcmp(code, "tiM") == 0:
        return 4
    if strcmp(code, "tin") == 0:
        return 16
    return 8


cdef Py_ssize_t decimal_width(const char* code) noexcept:
    """Width of 'd:precision,scale[,bits]'; 128 bits if not said."""
    cdef const char* comma = strchr(code, c",")
    if comma != NULL:
        comma = strchr(comma + 1, c",")
    return 16 if comma == NULL else strtol(comma + 1, NULL, 10) // 8


cdef int set_buffers(ArrayView view, const ArrowArray* data) except -1:
    cdef int64_t needed = 1
    if view.layout == LAYOUT_VARIABLE:
        needed = 3
    elif view.layout != LAYOUT_OTHER:
        needed = 2
    if data.length < 0 or data.offset < 0 or data.n_buffers < needed:
        raise ValueError(
            f"malformed Arrow array of format '{view.format.decode()}': length {data.length}, "
            f"offset {data.offset}, {data.n_buffers} buffers")
    view.length = data.length
    view.offset = data.offset
    view.validity = <const uint8_t*>data.buffers[0]
    if needed > 1:
        view.data = data.buffers[1]
    if needed == 3:
        view.offsets = <const int32_t*>data.buffers[1]
        view.bytes = <const uint8_t*>data.buffers[2]
    require_values(view)
    set_null_count(view, data.null_count)
    return 0


cdef int require_values(ArrayView view) except -1:
    """Raise if a row could be read through a pointer that is not there."""
    cdef bint has_values = view.data != NULL
    if view.length == 0 or view.layout == LAYOUT_OTHER:
        return 0
    if view.layout == LAYOUT_FIXED and view.width == 0:
        return 0
    if view.layout == LAYOUT_VARIABLE and has_values and view.bytes == NULL:
        has_values = view.offsets[view.offset] == view.offsets[view.offset + view.length]
    if not has_values:
        raise ValueError(
            f"malformed Arrow array of format '{view.format.decode()}': no values buffer")
    return 0


cdef int set_null_count(ArrayView view, int64_t declared) except -1:
    if view.validity == NULL:
        view.null_count = 0
        return 0
    view.null_count = count_nulls(view) if declared < 0 else declared
    if view.null_count == 0:
        view.validity = NULL
    return 0


cdef Py_ssize_t count_nulls(ArrayView view) noexcept nogil:
    cdef Py_ssize_t i, nulls = 0
    for i in range(view.offset, view.offset + view.length):
        nulls += not bit_is_set(view.validity, i)
    return nulls
