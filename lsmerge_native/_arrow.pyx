"""Arrow arrays through the C data interface, in and out; the only module that knows its structs.

A view borrows the producer's buffers and keeps the capsules that own them; it neither moves the
structs out of the capsules nor releases them, so one array may be viewed many times. Values that do
not lie where words of their width do are copied. Offsets are honoured by the reader of a view (see
_arrow.pxd), absent buffers of empty arrays stay NULL.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, strtol
from libc.string cimport memcpy, strchr, strcmp, strncmp

from lsmerge_native._bits cimport bit_is_set, count_ones
from lsmerge_native.buffers cimport NativeBuffer, allocate


cdef extern from "Python.h":
    bint Py_IsInitialized() noexcept nogil


cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data


@cython.final
@cython.internal
cdef class OutgoingBatch:
    """A record batch for whoever imports it, once, from its address."""

    cdef ArrowArray* array

    def __cinit__(self):
        self.array = <ArrowArray*> calloc(1, sizeof(ArrowArray))
        if self.array == NULL:
            raise MemoryError("no memory for an Arrow array")

    def __dealloc__(self):
        if self.array != NULL and self.array.release != NULL:
            self.array.release(self.array)
        free(self.array)


# Everything that the array of a batch points to, in one piece of memory.
cdef struct Outgoing:
    PyObject* owners
    ArrowArray** children
    const void** buffers


cdef OutgoingBatch outgoing_batch(BatchView view):
    """The columns as a struct array. Requires: none is nested or a slice."""
    cdef OutgoingBatch batch = OutgoingBatch.__new__(OutgoingBatch)
    cdef Py_ssize_t i, count = len(view.views)
    cdef size_t nbytes = sizeof(Outgoing) + sizeof(void*) + count * (
        sizeof(ArrowArray*) + sizeof(ArrowArray) + MAX_BUFFERS * sizeof(void*))
    cdef Outgoing* outgoing = <Outgoing*> calloc(1, nbytes)
    cdef ArrowArray* children
    cdef ArrayView column
    if outgoing == NULL:
        raise MemoryError(f"no memory for a batch of {count} columns")
    outgoing.children = <ArrowArray**> (outgoing + 1)
    children = <ArrowArray*> (outgoing.children + count)
    outgoing.buffers = <const void**> (children + count)
    for i in range(count):
        column = view.views[i]
        outgoing.children[i] = &children[i]
        children[i].length, children[i].null_count = column.length, column.null_count
        children[i].n_buffers = 3 if column.layout == LAYOUT_VARIABLE else 2
        children[i].buffers = outgoing.buffers + 1 + MAX_BUFFERS * i
        children[i].buffers[0], children[i].buffers[1] = column.validity, column.data
        children[i].buffers[2] = column.bytes
        children[i].release = release_column
    Py_INCREF(view.views)
    outgoing.owners = <PyObject*> view.views
    batch.array.length, batch.array.n_children = view.num_rows, count
    batch.array.n_buffers, batch.array.buffers = 1, outgoing.buffers
    batch.array.children, batch.array.private_data = outgoing.children, outgoing
    batch.array.release = release_batch
    return batch


cdef void release_column(ArrowArray* column) noexcept nogil:
    column.release = NULL  # its memory is the batch's


cdef void release_batch(ArrowArray* batch) noexcept nogil:
    cdef Outgoing* outgoing = <Outgoing*> batch.private_data
    cdef int64_t i
    for i in range(batch.n_children):
        if batch.children[i].release != NULL:
            batch.children[i].release(batch.children[i])
    # Whoever lets go of a batch after the interpreter has ended finds nobody to give it back to.
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object> outgoing.owners)
    free(outgoing)
    batch.release = NULL


@cython.final
@cython.auto_pickle(False)
cdef class FlatSchema:
    cdef BatchView view(self, int64_t num_rows, const FlatColumn* columns, list owners):
        cdef BatchView batch = BatchView.__new__(BatchView)
        cdef ArrayView view
        cdef Py_ssize_t i
        batch.num_rows, batch.schema, batch.places = num_rows, self.schema, self.places
        batch._flat, batch.views = self, []
        for i in range(len(self.prototypes)):
            view = copy_type(<ArrayView> self.prototypes[i])
            view._array_capsule = owners
            view.length, view.null_count = num_rows, columns[i].null_count
            if view.null_count > 0:
                view.validity = <const uint8_t*> columns[i].buffers[0]
            view.data = columns[i].buffers[1]
            if view.layout == LAYOUT_VARIABLE:
                view.offsets = <const int32_t*> columns[i].buffers[1]
                view.bytes = <const uint8_t*> columns[i].buffers[2]
            batch.views.append(view)
        return batch


cdef FlatSchema flat_schema(object schema, object importer):
    cdef FlatSchema flat = FlatSchema.__new__(FlatSchema)
    cdef const ArrowSchema* batch
    cdef ArrayView view
    cdef int64_t i
    flat.schema, flat._import, flat._capsule = schema, importer, schema.__arrow_c_schema__()
    flat.prototypes, flat.places = [], {}
    batch = schema_of(flat._capsule)
    for i in range(batch.n_children):
        view = ArrayView.__new__(ArrayView)
        view._schema_capsule, view.format = flat._capsule, batch.children[i].format
        view.layout = LAYOUT_OTHER
        if has_bitmap(view.format):
            set_layout(view, batch.children[i])
        flat.places[batch.children[i].name.decode()] = i
        flat.prototypes.append(view)
    return flat


@cython.no_gc
cdef class ArrayView:
    cdef const uint8_t* values(self) noexcept nogil:
        if self.data == NULL:
            return NULL
        return <const uint8_t*>self.data + self.offset * self.width


cdef ArrayView view_array(object array):
    if isinstance(array, ArrayView):
        return <ArrayView> array
    cdef ArrayView view = ArrayView.__new__(ArrayView)
    cdef const ArrowSchema* schema
    cdef const ArrowArray* data
    view._schema_capsule, view._array_capsule = export(array)
    schema = schema_of(view._schema_capsule)
    data = array_of(view._array_capsule)
    set_view(view, schema, data)
    return view


@cython.final
@cython.auto_pickle(False)
cdef class BatchView:
    """The columns of a batch as kernels see them, looked at once; made by viewed_batch()."""

    def __init__(self):
        raise TypeError("a BatchView is made by viewed_batch()")

    def __contains__(self, name):
        return name in self.places

    def column(self, str name not None):
        """The column of that name, which every kernel takes in place of an array."""
        return self.views[self.places[name]]

    def has_nulls(self, Py_ssize_t place):
        """Whether a row has no value in the column at that place."""
        if not 0 <= place < len(self.views):
            raise IndexError(f"there is no column {place} among {len(self.views)}")
        return (<ArrayView> self.views[place]).null_count > 0

    @property
    def batch(self):
        """The record batch, which is made when it is first asked for."""
        cdef object made
        with cython.critical_section(self):
            made = self._batch
        if made is None:
            # Two threads may both make one; they are of the same memory.
            made = make_batch(self)
            with cython.critical_section(self):
                self._batch = made
        return made

    def slice(self, Py_ssize_t start, Py_ssize_t stop):
        """Rows [start, stop) without a copy."""
        if start < 0 or stop < start or stop > self.num_rows:
            raise IndexError(f"rows [{start}, {stop}) are not in a batch of {self.num_rows} rows")
        cdef BatchView part = BatchView.__new__(BatchView)
        part.num_rows, part.schema, part.places = stop - start, self.schema, self.places
        part._whole, part._start = self, start
        part.views = [slice_view(view, start, stop - start) for view in self.views]
        return part


cdef object make_batch(BatchView view):
    cdef OutgoingBatch outgoing
    if view._whole is not None:
        return view._whole.batch.slice(view._start, view.num_rows)
    outgoing = outgoing_batch(view)
    return view._flat._import(<uintptr_t> outgoing.array, view.schema)


cdef BatchView view_batch(object batch):
    if isinstance(batch, BatchView):
        return <BatchView> batch
    schema_capsule, array_capsule = export(batch)
    cdef const ArrowSchema* schema = schema_of(schema_capsule)
    cdef const ArrowArray* data = array_of(array_capsule)
    cdef BatchView view = BatchView.__new__(BatchView)
    cdef ArrayView column
    cdef int64_t i
    if strcmp(schema.format, "+s") != 0 or schema.n_children != data.n_children:
        raise TypeError(
            f"expected a batch of columns, got Arrow format '{schema.format.decode()}'")
    view.num_rows, view.views, view.places = data.length, [], {}
    view._batch, view.schema = batch, getattr(batch, "schema", None)
    for i in range(data.n_children):
        column = ArrayView.__new__(ArrayView)
        column._schema_capsule, column._array_capsule = schema_capsule, array_capsule
        set_view(column, schema.children[i], data.children[i])
        if data.offset > 0 or data.length != column.length:
            column = slice_view(column, data.offset, data.length)
        view.places[schema.children[i].name.decode()] = i
        view.views.append(column)
    return view


cdef ArrayView copy_type(ArrayView view):
    """A view of the same type, of no rows yet."""
    cdef ArrayView copy = ArrayView.__new__(ArrayView)
    copy._schema_capsule, copy.format = view._schema_capsule, view.format
    copy.layout, copy.width = view.layout, view.width
    return copy


cdef ArrayView slice_view(ArrayView view, int64_t start, int64_t length):
    cdef ArrayView part = copy_type(view)
    if start < 0 or length < 0 or start > view.length - length:
        raise ValueError(
            f"malformed Arrow batch: rows {start} to {start + length} of {view.length}")
    part._array_capsule = view._array_capsule
    part.length, part.offset = length, view.offset + start
    part.validity, part.data = view.validity, view.data
    part.offsets, part.bytes = view.offsets, view.bytes
    set_null_count(part, -1)
    return part


cdef const ArrowSchema* schema_of(object capsule) except NULL:
    cdef const ArrowSchema* schema = <const ArrowSchema*> PyCapsule_GetPointer(
        capsule, "arrow_schema")
    if schema.release == NULL:
        raise ValueError("Arrow schema was already released or moved by another consumer")
    return schema


cdef const ArrowArray* array_of(object capsule) except NULL:
    cdef const ArrowArray* data = <const ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if data.release == NULL:
        raise ValueError("Arrow array was already released or moved by another consumer")
    return data


cdef int set_view(ArrayView view, const ArrowSchema* schema, const ArrowArray* data) except -1:
    view.format = schema.format
    set_layout(view, schema)
    set_buffers(view, data)
    return 0


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
    if not has_bitmap(code):
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


cdef bint has_bitmap(const char* code) noexcept:
    return code[0] != c"n" and strncmp(code, "+u", 2) != 0 and strncmp(code, "+r", 2) != 0


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
        view.data = aligned_values(view, data.buffers[1])
    if needed == 3:
        view.offsets = <const int32_t*> view.data
        view.bytes = <const uint8_t*>data.buffers[2]
    require_values(view)
    set_null_count(view, data.null_count)
    return 0


cdef const void* aligned_values(ArrayView view, const void* values) except? NULL:
    """The values, or offsets, where words of their width may lie: kernels read them as such."""
    cdef Py_ssize_t num_rows = view.offset + view.length
    cdef Py_ssize_t width = view.width
    cdef NativeBuffer copy
    if view.layout == LAYOUT_VARIABLE:
        num_rows, width = num_rows + 1, sizeof(int32_t)
    if width not in (2, 4, 8, 16) or <uintptr_t> values % min(width, 8) == 0:
        return values
    copy = allocate(num_rows * width)
    memcpy(copy.ptr, values, num_rows * width)
    view._array_capsule = (view._array_capsule, copy)
    return copy.ptr


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
    cdef Py_ssize_t row = view.offset, end = view.offset + view.length, valid = 0
    while row < end and row & 7:
        valid += bit_is_set(view.validity, row)
        row += 1
    if row < end:
        valid += count_ones(view.validity + (row >> 3), end - row)
    return view.length - valid
