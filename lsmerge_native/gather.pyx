"""Copies the selected rows of one column out of several sources into one Arrow array.

Output buffers are those of pyarrow's Array.from_buffers. Where a value is null its bytes are
arbitrary, but a null string is empty. Selections made of long runs are copied run by run; of
others, rows are asked for while those before them are copied, as each may be a cache miss.
"""

from libc.stddef cimport size_t
from libc.stdint cimport (
    INT32_MAX,
    int32_t,
    int64_t,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
)
from libc.string cimport memcpy

from lsmerge_native._arrow cimport LAYOUT_BITS, LAYOUT_FIXED, LAYOUT_OTHER, ArrayView, view_array
from lsmerge_native._bits cimport bit_is_set, bitmap_bytes
from lsmerge_native._column cimport Column, Part, view_column
from lsmerge_native._footprint cimport Footprint, Run
from lsmerge_native._strings cimport copy_string
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.reduce cimport Selection


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef enum:
    ROWS_AHEAD = 32  # asked for together


cdef struct Chunk:
    uint64_t low
    uint64_t high


ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Chunk


# The bit of row r is at (r & row_mask) + offset. A source without nulls is one byte of ones and a
# mask of zero, so that the loop over rows need not ask which kind a source is.
cdef struct Bitmap:
    const uint8_t* bits
    size_t row_mask
    size_t offset


cdef const uint8_t ALL_ONES = 0xFF


def viewed(array):
    """Return the array as gather() sees it, which takes it as well and saves a look each time."""
    return view_array(array)


def gatherable(array):
    """Return whether gather() can copy arrays of this type."""
    cdef ArrayView view = view_array(array)
    return view.layout != LAYOUT_OTHER


def gather(arrays, Selection selection not None):
    """Return (null_count, buffers) of the selected rows; arrays[i] is the column in source i."""
    cdef Footprint footprint = selection.footprint()
    cdef Column column = view_column(arrays, "arrays", footprint.limits)
    if column.layout == LAYOUT_OTHER:
        raise TypeError(f"cannot gather arrays of Arrow format '{column.format.decode()}'")
    validity, null_count = _gather_validity(column, selection)
    if column.layout == LAYOUT_BITS:
        return null_count, [validity, _gather_bits(_value_bitmaps(column), selection)]
    if column.layout == LAYOUT_FIXED:
        return null_count, [validity, _gather_fixed(column, selection, footprint)]
    return null_count, [validity, *_gather_strings(column, selection, footprint, validity)]


cdef tuple _gather_validity(Column column, Selection selection):
    """Return (bitmap or None, null count)."""
    cdef NativeBuffer validity
    cdef Py_ssize_t null_count
    if not column.has_nulls:
        return selection.validity, selection.null_count
    validity = _gather_bits(_validity_bitmaps(column), selection)
    if selection.validity is not None:
        _and_into(<uint8_t*> validity.ptr, <const uint8_t*> selection.validity.ptr, validity.size)
    null_count = selection.length - _count_ones(<const uint8_t*> validity.ptr, validity.size)
    return (validity if null_count else None), null_count


cdef NativeBuffer _validity_bitmaps(Column column):
    cdef NativeBuffer bitmaps = allocate(column.num_parts * sizeof(Bitmap))
    cdef Bitmap* bitmap = <Bitmap*> bitmaps.ptr
    cdef Py_ssize_t i
    for i in range(column.num_parts):
        if column.parts[i].validity == NULL:
            bitmap[i] = Bitmap(&ALL_ONES, 0, 0)
        else:
            bitmap[i] = Bitmap(column.parts[i].validity, ~<size_t> 0, column.parts[i].offset)
    return bitmaps


cdef NativeBuffer _value_bitmaps(Column column):
    cdef NativeBuffer bitmaps = allocate(column.num_parts * sizeof(Bitmap))
    cdef Bitmap* bitmap = <Bitmap*> bitmaps.ptr
    cdef Py_ssize_t i
    for i in range(column.num_parts):
        bitmap[i] = Bitmap(column.parts[i].values, ~<size_t> 0, column.parts[i].offset)
    return bitmaps


cdef NativeBuffer _gather_bits(NativeBuffer bitmaps, Selection selection):
    """`bitmaps` holds one Bitmap per source."""
    cdef NativeBuffer out = allocate(bitmap_bytes(selection.length))
    with nogil:
        _copy_bits(<const Bitmap*> bitmaps.ptr, selection, <uint8_t*> out.ptr)
    return out


cdef void _copy_bits(const Bitmap* bitmaps, Selection selection, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t i, full = selection.length & ~<Py_ssize_t> 7
    for i in range(0, full, 8):
        out[i >> 3] = _take_bits(bitmaps, selection.source_ptr + i, selection.row_ptr + i, 8)
    if full < selection.length:
        out[full >> 3] = _take_bits(
            bitmaps, selection.source_ptr + full, selection.row_ptr + full,
            <int> (selection.length - full))


cdef inline uint8_t _take_bits(
    const Bitmap* bitmaps, const uint16_t* sources, const uint32_t* rows, int count
) noexcept nogil:
    cdef const Bitmap* bitmap
    cdef uint32_t packed = 0
    cdef int k
    for k in range(count):
        bitmap = bitmaps + sources[k]
        packed |= <uint32_t> bit_is_set(
            bitmap.bits, (rows[k] & bitmap.row_mask) + bitmap.offset) << k
    return <uint8_t> packed


cdef void _and_into(uint8_t* bitmap, const uint8_t* other, size_t nbytes) noexcept nogil:
    cdef size_t i
    for i in range(nbytes):
        bitmap[i] &= other[i]


cdef Py_ssize_t _count_ones(const uint8_t* bitmap, size_t nbytes) noexcept nogil:
    """Requires: zeros after the last bit, up to a whole word (a NativeBuffer has them)."""
    cdef size_t i
    cdef uint64_t bits
    cdef Py_ssize_t count = 0
    for i in range(0, nbytes, 8):
        bits = (<const uint64_t*> (bitmap + i))[0]
        # Sums of neighbours: two bits, four bits, then bytes, which the product adds up.
        bits -= (bits >> 1) & <uint64_t> 0x5555555555555555
        bits = (bits & <uint64_t> 0x3333333333333333) + (
            (bits >> 2) & <uint64_t> 0x3333333333333333)
        bits = (bits + (bits >> 4)) & <uint64_t> 0x0F0F0F0F0F0F0F0F
        count += <Py_ssize_t> ((bits * <uint64_t> 0x0101010101010101) >> 56)
    return count


cdef NativeBuffer _gather_fixed(Column column, Selection selection, Footprint footprint):
    cdef NativeBuffer out = allocate(selection.length * column.width)
    cdef uint8_t* target = <uint8_t*> out.ptr
    with nogil:
        if footprint.runs is not None:
            _copy_runs(column, <const Run*> footprint.runs.ptr, footprint.num_runs, target)
        else:
            _copy_scattered(column, selection, target)
    return out


cdef void _copy_runs(
    Column column, const Run* runs, Py_ssize_t num_runs, uint8_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    cdef size_t width = column.width, nbytes
    for i in range(num_runs):
        nbytes = runs[i].count * width
        memcpy(out, column.parts[runs[i].source].values + runs[i].row * width, nbytes)
        out += nbytes


cdef void _copy_scattered(Column column, Selection selection, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t start = 0, stop
    _prefetch_values(column, selection, 0)
    while start < selection.length:
        stop = min(start + ROWS_AHEAD, selection.length)
        _prefetch_values(column, selection, stop)
        _copy_rows(column, selection, start, stop, out)
        start = stop


cdef void _prefetch_values(Column column, Selection selection, Py_ssize_t start) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, min(start + ROWS_AHEAD, selection.length)):
        prefetch(column.parts[selection.source_ptr[i]].values
                 + selection.row_ptr[i] * <size_t> column.width)


cdef void _copy_rows(
    Column column, Selection selection, Py_ssize_t start, Py_ssize_t stop, uint8_t* out
) noexcept nogil:
    """Fill in the rows [start, stop) of `out`, which begins with row 0."""
    if column.width == 1:
        _copy_words(column.parts, selection, start, stop, <uint8_t*> out)
    elif column.width == 2:
        _copy_words(column.parts, selection, start, stop, <uint16_t*> out)
    elif column.width == 4:
        _copy_words(column.parts, selection, start, stop, <uint32_t*> out)
    elif column.width == 8:
        _copy_words(column.parts, selection, start, stop, <uint64_t*> out)
    elif column.width == 16:
        _copy_words(column.parts, selection, start, stop, <Chunk*> out)
    else:
        _copy_wide(column, selection, start, stop, out)


cdef void _copy_words(
    const Part* parts, Selection selection, Py_ssize_t start, Py_ssize_t stop, word* out
) noexcept nogil:
    cdef const uint16_t* sources = selection.source_ptr
    cdef const uint32_t* rows = selection.row_ptr
    cdef const word* values = <const word*> parts[0].values
    cdef Py_ssize_t i
    if selection.num_sources == 1:
        for i in range(start, stop):
            out[i] = values[rows[i]]
    else:
        for i in range(start, stop):
            out[i] = (<const word*> parts[sources[i]].values)[rows[i]]


cdef void _copy_wide(
    Column column, Selection selection, Py_ssize_t start, Py_ssize_t stop, uint8_t* out
) noexcept nogil:
    cdef const Part* part
    cdef size_t width = column.width
    cdef Py_ssize_t i
    for i in range(start, stop):
        part = column.parts + selection.source_ptr[i]
        memcpy(out + i * width, part.values + selection.row_ptr[i] * width, width)


cdef list _gather_strings(
    Column column, Selection selection, Footprint footprint, NativeBuffer validity
):
    """Return [offsets, bytes]."""
    cdef NativeBuffer offsets = allocate((selection.length + 1) * sizeof(int32_t))
    cdef NativeBuffer out, beginnings
    cdef int32_t* ends = <int32_t*> offsets.ptr
    cdef int32_t* begins
    cdef const uint8_t* valid = NULL
    # Runs are copied with the bytes of their nulls; null picks, though, would copy what they hide.
    cdef bint by_runs = footprint.runs is not None and selection.validity is None
    cdef int64_t total
    if validity is not None:
        valid = <const uint8_t*> validity.ptr
    beginnings = allocate(0 if by_runs else selection.length * sizeof(int32_t))
    begins = <int32_t*> beginnings.ptr
    with nogil:
        if by_runs:
            total = _place_runs(column, footprint, ends)
        else:
            total = _place_strings(column.parts, selection, valid, begins, ends)
    if total > INT32_MAX:
        raise OverflowError(
            f"{total} bytes of strings in {selection.length} rows; one array holds {INT32_MAX}")
    out = allocate(total)
    with nogil:
        if by_runs:
            _copy_string_runs(column, footprint, <uint8_t*> out.ptr)
        else:
            _copy_strings(column.parts, selection, begins, ends, <uint8_t*> out.ptr)
    # Short copies store whole chunks and may have left bytes in the padding.
    out.truncate(total)
    return [offsets, out]


cdef int64_t _place_runs(Column column, Footprint footprint, int32_t* ends) noexcept nogil:
    """Write the output offsets, return the number of bytes. Offsets are of use if those fit."""
    cdef const Run* runs = <const Run*> footprint.runs.ptr
    cdef const int32_t* offsets
    cdef Py_ssize_t i
    cdef uint32_t k
    cdef int64_t total = 0
    ends[0] = 0
    for i in range(footprint.num_runs):
        offsets = column.parts[runs[i].source].offsets + runs[i].row
        for k in range(runs[i].count):
            ends[k + 1] = <int32_t> (<uint32_t> total + <uint32_t> (offsets[k + 1] - offsets[0]))
        total += offsets[runs[i].count] - offsets[0]
        ends += runs[i].count
    return total


cdef int64_t _place_strings(
    const Part* parts, Selection selection, const uint8_t* valid, int32_t* begins, int32_t* ends
) noexcept nogil:
    """As _place_runs; null rows are empty. `begins` gets where the strings are in their sources, so
    that the offsets there are met once only.
    """
    cdef const int32_t* offsets
    cdef Py_ssize_t i
    cdef int64_t total = 0
    ends[0] = 0
    _prefetch_offsets(parts, selection, 0)
    for i in range(selection.length):
        if i % ROWS_AHEAD == 0:
            _prefetch_offsets(parts, selection, i + ROWS_AHEAD)
        offsets = parts[selection.source_ptr[i]].offsets + selection.row_ptr[i]
        begins[i] = offsets[0]
        if valid == NULL or bit_is_set(valid, i):
            total += offsets[1] - offsets[0]
        ends[i + 1] = <int32_t> total
    return total


cdef void _prefetch_offsets(
    const Part* parts, Selection selection, Py_ssize_t start
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, min(start + ROWS_AHEAD, selection.length)):
        prefetch(parts[selection.source_ptr[i]].offsets + selection.row_ptr[i])


cdef void _prefetch_strings(
    const Part* parts, Selection selection, const int32_t* begins, Py_ssize_t start
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, min(start + ROWS_AHEAD, selection.length)):
        prefetch(parts[selection.source_ptr[i]].bytes + begins[i])


cdef void _copy_string_runs(Column column, Footprint footprint, uint8_t* out) noexcept nogil:
    cdef const Run* runs = <const Run*> footprint.runs.ptr
    cdef const Part* part
    cdef const int32_t* offsets
    cdef Py_ssize_t i
    cdef size_t nbytes
    for i in range(footprint.num_runs):
        part = column.parts + runs[i].source
        offsets = part.offsets + runs[i].row
        nbytes = offsets[runs[i].count] - offsets[0]
        if nbytes:
            memcpy(out, part.bytes + offsets[0], nbytes)
            out += nbytes


cdef void _copy_strings(
    const Part* parts, Selection selection, const int32_t* begins, const int32_t* ends,
    uint8_t* out
) noexcept nogil:
    cdef const Part* part
    cdef Py_ssize_t i
    cdef size_t nbytes
    _prefetch_strings(parts, selection, begins, 0)
    for i in range(selection.length):
        if i % ROWS_AHEAD == 0:
            _prefetch_strings(parts, selection, begins, i + ROWS_AHEAD)
        part = parts + selection.source_ptr[i]
        nbytes = ends[i + 1] - ends[i]
        if nbytes:
            copy_string(out + ends[i], part.bytes + begins[i], nbytes, part.bytes_end)
