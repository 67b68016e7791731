"""The columns of an Arrow message as kernels see them, without a look at their values.

Every length that the head of the message tells is checked against the memory that is there, and the
offsets of strings against each other, since Arrow and the kernels trust them. Bytes from anywhere
give a view or a ValueError. Whoever wants a record batch of it has it imported into Arrow in one
call, however many columns it has.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, UINT32_MAX, uintptr_t
from libc.string cimport memcpy

from lsmerge_native._arrow cimport (
    ArrayView,
    BatchView,
    FlatColumn,
    FlatSchema,
    LAYOUT_BITS,
    LAYOUT_FIXED,
    LAYOUT_OTHER,
    LAYOUT_VARIABLE,
    Layout,
    flat_schema,
)
from lsmerge_native._bits cimport bitmap_bytes, count_ones
from lsmerge_native.buffers cimport (
    InputBuffer, NativeBuffer, allocate, allocate_zeroed, view_items,
)


# A column of the schema, and where it is in the lists of a message.
cdef struct Slot:
    Layout layout
    Py_ssize_t width
    Py_ssize_t node
    Py_ssize_t first_buffer
    int num_buffers


# Some memory: a buffer of a message, or a part of the message itself.
cdef struct Extent:
    const uint8_t* data     # NULL if there is none
    int64_t size


@cython.final
@cython.auto_pickle(False)
cdef class BlockShape:
    """Which nodes and buffers of a message make up columns that are not nested."""

    cdef FlatSchema _schema
    cdef NativeBuffer _slots
    cdef Slot* slots
    cdef Py_ssize_t num_columns
    cdef Py_ssize_t num_buffers

    def __init__(self, schema, list nodes not None, list buffers not None, importer):
        """nodes[i] and buffers[i] are the node and the first buffer of column i.

        `importer` makes a record batch of the address of an ArrowArray and of the schema.
        """
        cdef ArrayView column
        cdef Py_ssize_t i
        self._schema = flat_schema(schema, importer)
        self.num_columns = len(self._schema.prototypes)
        if not len(nodes) == len(buffers) == self.num_columns:
            raise ValueError(
                f"{len(nodes)} nodes and {len(buffers)} buffers for {self.num_columns} columns")
        self._slots = allocate(self.num_columns * sizeof(Slot))
        self.slots = <Slot*> self._slots.ptr
        for i in range(self.num_columns):
            column = self._schema.prototypes[i]
            if column.layout == LAYOUT_OTHER or nodes[i] < 0 or buffers[i] < 0:
                raise ValueError(f"column {i} is nested, or has no place")
            self.slots[i] = Slot(
                column.layout, column.width, nodes[i], buffers[i],
                3 if column.layout == LAYOUT_VARIABLE else 2)
            self.num_buffers += self.slots[i].num_buffers

    def read(
        self, int64_t num_rows, tuple nodes not None, tuple buffers not None, int64_t body_start,
        list pieces not None,
    ):
        """The columns of a message that is not compressed.

        `nodes` and `buffers` are those of read_head(); `pieces` are pairs of a place in the message
        and the bytes there, in order.
        """
        cdef NativeBuffer memory = allocate_zeroed(3 * self.num_columns * sizeof(Extent))
        cdef NativeBuffer parts = allocate(len(pieces) * sizeof(Piece))
        cdef list owners = _view_pieces(pieces, <Piece*> parts.ptr)
        cdef Extent* extents = <Extent*> memory.ptr
        cdef Py_ssize_t i, k
        for i in range(self.num_columns):
            for k in range(self.slots[i].num_buffers):
                extents[3 * i + k] = _found(
                    <const Piece*> parts.ptr, len(pieces), body_start,
                    buffers, self.slots[i].first_buffer + k)
        return self._checked(num_rows, nodes, extents, owners)

    def joined(self, int64_t num_rows, tuple nodes not None, list unpacked not None):
        """The columns of one whose buffers were compressed: `unpacked` has them, or None, one
        column after the other.
        """
        cdef NativeBuffer memory = allocate_zeroed(3 * self.num_columns * sizeof(Extent))
        cdef Extent* extents = <Extent*> memory.ptr
        cdef list owners = []
        cdef InputBuffer items
        cdef Py_ssize_t i, k, taken = 0
        if len(unpacked) != self.num_buffers:
            raise ValueError(f"{len(unpacked)} buffers of {self.num_buffers}")
        for i in range(self.num_columns):
            for k in range(self.slots[i].num_buffers):
                if unpacked[taken] is not None:
                    items = view_items(unpacked[taken], 1, "buffer")
                    owners.append(items)
                    extents[3 * i + k] = Extent(<const uint8_t*> items.ptr, items.size)
                taken += 1
        return self._checked(num_rows, nodes, extents, owners)

    cdef BatchView _checked(
        self, int64_t num_rows, tuple nodes, const Extent* extents, list owners
    ):
        cdef NativeBuffer columns = allocate_zeroed(self.num_columns * sizeof(FlatColumn))
        cdef FlatColumn* column = <FlatColumn*> columns.ptr
        cdef Py_ssize_t i
        cdef int64_t length
        if not 0 <= num_rows <= UINT32_MAX:
            raise ValueError(f"the message has {num_rows} rows")
        for i in range(self.num_columns):
            length, column[i].null_count = _node(nodes, self.slots[i].node)
            if length != num_rows:
                raise ValueError(f"column {i} has {length} rows of {num_rows}")
            _check_column(&self.slots[i], i, num_rows, &extents[3 * i], &column[i])
        return self._schema.view(num_rows, column, owners)


# ---- where buffers are ----


cdef struct Piece:
    int64_t start           # in the message
    Extent extent


cdef list _view_pieces(list pieces, Piece* parts):
    cdef list owners = []
    cdef InputBuffer items
    cdef Py_ssize_t i
    for i in range(len(pieces)):
        start, data = pieces[i]
        items = view_items(data, 1, "piece")
        parts[i] = Piece(start, Extent(<const uint8_t*> items.ptr, items.size))
        owners.append(_aligned(&parts[i], items))
    return owners


cdef object _aligned(Piece* part, InputBuffer items):
    """The owner of the piece; a copy if places in the message are no such places in memory."""
    cdef uintptr_t shift = part.start & 7
    cdef NativeBuffer copy
    if (<uintptr_t> part.extent.data & 7) == shift:
        return items
    copy = allocate(shift + part.extent.size)
    memcpy(copy.ptr + shift, part.extent.data, part.extent.size)
    part.extent.data = <const uint8_t*> copy.ptr + shift
    return copy


cdef Extent _found(
    const Piece* parts, Py_ssize_t count, int64_t body_start, tuple buffers, Py_ssize_t number
) except *:
    """A buffer of the message, in the piece that has all of it."""
    cdef int64_t start, size
    cdef const Piece* part
    cdef Py_ssize_t i
    if 2 * number + 1 >= len(buffers):
        raise ValueError(f"the message has no buffer {number}")
    start, size = body_start + <int64_t> buffers[2 * number], buffers[2 * number + 1]
    if size <= 0:
        return Extent(NULL, 0)
    for i in range(count):
        part = &parts[i]
        if part.start <= start and start - part.start <= part.extent.size - size:
            return Extent(part.extent.data + (start - part.start), size)
    raise ValueError(f"buffer {number}: {size} bytes at {start} are not in what was read")


cdef (int64_t, int64_t) _node(tuple nodes, Py_ssize_t number) except *:
    if 2 * number + 1 >= len(nodes):
        raise ValueError(f"the message has no column {number}")
    return nodes[2 * number], nodes[2 * number + 1]


# ---- checks ----


cdef const uint8_t[8] NOTHING


cdef int _check_column(
    const Slot* slot, Py_ssize_t number, int64_t num_rows, const Extent* extents,
    FlatColumn* column,
) except -1:
    """Fill in a column after making sure that all its rows are there."""
    cdef int k
    if not 0 <= column.null_count <= num_rows or (
            column.null_count > 0 and extents[0].data == NULL):
        raise ValueError(f"column {number} has {column.null_count} nulls in {num_rows} rows")
    for k in range(slot.num_buffers):
        _check_extent(
            number, &extents[k], _needed(slot, k, num_rows, &extents[k]), _alignment(slot, k))
        column.buffers[k] = extents[k].data
        if k > 0 and extents[k].data == NULL:  # only a bitmap of nulls may be missing
            column.buffers[k] = NOTHING
    if extents[0].data != NULL and (
            num_rows - column.null_count != <int64_t> count_ones(extents[0].data, num_rows)):
        raise ValueError(f"column {number} has other than {column.null_count} nulls")
    if slot.layout == LAYOUT_VARIABLE and num_rows > 0:
        _check_offsets(
            number, <const int32_t*> extents[1].data, num_rows, extents[2].size)
    return 0


cdef int64_t _needed(
    const Slot* slot, int buffer, int64_t num_rows, const Extent* extent
) noexcept:
    """Bytes that a buffer has at least."""
    if buffer == 0:
        return 0 if extent.data == NULL else bitmap_bytes(num_rows)
    if buffer == 2:
        return 0  # as many as the offsets say
    if slot.layout == LAYOUT_FIXED:
        return num_rows * slot.width
    if slot.layout == LAYOUT_BITS:
        return bitmap_bytes(num_rows)
    return sizeof(int32_t) * (num_rows + 1) if num_rows else 0


cdef size_t _alignment(const Slot* slot, int buffer) noexcept:
    if buffer == 1 and slot.layout == LAYOUT_VARIABLE:
        return 4
    if buffer == 1 and slot.layout == LAYOUT_FIXED and slot.width in (2, 4, 8, 16, 32):
        return min(slot.width, 8)
    return 1


cdef int _check_extent(
    Py_ssize_t number, const Extent* extent, int64_t needed, size_t alignment
) except -1:
    if extent.size < needed:
        raise ValueError(f"column {number} has {extent.size} bytes where {needed} are needed")
    if <uintptr_t> extent.data & (alignment - 1):
        raise ValueError(f"column {number} begins at no multiple of {alignment} bytes")
    return 0


cdef int _check_offsets(
    Py_ssize_t number, const int32_t* offsets, int64_t num_rows, int64_t num_bytes
) except -1:
    cdef bint is_sorted
    with nogil:
        is_sorted = _non_decreasing(offsets, num_rows)
    if not is_sorted or offsets[0] < 0 or offsets[num_rows] > num_bytes:
        raise ValueError(
            f"column {number} has offsets that decrease or leave its {num_bytes} bytes")
    return 0


cdef bint _non_decreasing(const int32_t* offsets, int64_t num_rows) noexcept nogil:
    cdef int64_t row
    cdef bint decreases = False
    for row in range(num_rows):  # without a way out, so that many are compared at once
        decreases |= offsets[row + 1] < offsets[row]
    return not decreases
