"""Copies the selected rows of columns out of several sources, each into one Arrow array.

Output buffers are those of pyarrow's Array.from_buffers. Where a value is null its bytes are
arbitrary, but a null string is empty. Selections made of long runs are copied run by run; of
sparse ones, strings are asked for while those before them are copied, as each may be a cache miss.
"""

cimport cython
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

from lsmerge_native._arrow cimport (
    ArrayView,
    BatchView,
    Layout,
    LAYOUT_BITS,
    LAYOUT_FIXED,
    LAYOUT_OTHER,
    LAYOUT_VARIABLE,
    view_array,
    view_batch,
)
from lsmerge_native._bits cimport bit_is_set, bitmap_bytes, count_ones
from lsmerge_native._column cimport Column, Part, view_column
from lsmerge_native._footprint cimport Footprint, Run
from lsmerge_native._strings cimport CHUNK_BYTES, copy_string
from lsmerge_native.buffers cimport NativeBuffer, allocate, allocate_zeroed
from lsmerge_native.reduce cimport Selection


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef enum:
    ROWS_AHEAD = 32  # asked for together
    SPARSE = 8       # of so many rows one is selected


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
    return _gather_all([view_column(arrays, "arrays", selection.footprint().limits)], selection)[0]


def viewed_batch(batch, schema=None):
    """Return the columns of a batch as kernels see them; one look at all of them.

    `schema` is the batch's own, where whoever made it has it as an object that others know too.
    """
    cdef BatchView view = view_batch(batch)
    if schema is not None:
        view.schema = schema
    return view


def gather_batches(batches, names, Selection selection not None):
    """Return (null_count, buffers) for each column of these names; batches[i] is source i."""
    cdef list sources = [view_batch(batch) for batch in batches]
    cdef NativeBuffer limits = selection.footprint().limits
    return _gather_all(
        [view_column([_column_of(source, name) for source in sources], name, limits)
         for name in names], selection)


cdef ArrayView _column_of(BatchView batch, str name):
    return batch.views[batch.places[name]]


# A column on its way into the output.
cdef struct Target:
    const Part* parts
    Layout layout
    size_t width
    const Bitmap* sources_valid  # of a column with nulls, else NULL
    const Bitmap* sources_bits   # of a column of bits, else NULL
    uint8_t* validity            # of the output; NULL if no row is null
    Py_ssize_t null_count
    uint8_t* values              # of the output: numbers, bits, or the bytes of strings
    int32_t* begins              # where strings are in their sources, NULL if they go run by run
    int32_t* ends                # offsets of the output's strings
    int64_t num_bytes            # of all its strings
    bint is_sparse               # whether most rows of the sources are passed over


@cython.final
@cython.internal
@cython.auto_pickle(False)
cdef class Output:
    """What the targets point to."""

    cdef list columns
    cdef NativeBuffer targets
    cdef list buffers            # of each column, as pyarrow's Array.from_buffers takes them
    cdef list scratch


cdef list _gather_all(list columns, Selection selection):
    """All columns in two goes: to get the GIL back may take longer than to copy one."""
    cdef Output output = _prepare(columns, selection)
    cdef Target* targets = <Target*> output.targets.ptr
    cdef Footprint footprint = selection.footprint()
    cdef Py_ssize_t i, count = len(columns)
    with nogil:
        for i in range(count):
            _gather_column(&targets[i], selection, footprint)
    for i in range(count):
        if targets[i].layout == LAYOUT_VARIABLE:
            _make_room(output, i, selection.length)
    with nogil:
        for i in range(count):
            if targets[i].layout == LAYOUT_VARIABLE:
                _copy_all_strings(&targets[i], selection, footprint)
    return [_finished(output, i) for i in range(count)]


cdef Output _prepare(list columns, Selection selection):
    cdef Output output = Output.__new__(Output)
    cdef Column column
    cdef Target* target
    cdef bint is_sparse = _is_sparse(selection)
    output.columns, output.buffers, output.scratch = columns, [], []
    output.targets = allocate_zeroed(len(columns) * sizeof(Target))
    target = <Target*> output.targets.ptr
    for column in columns:
        if column.layout == LAYOUT_OTHER:
            raise TypeError(f"cannot gather arrays of Arrow format '{column.format.decode()}'")
        target.parts, target.layout, target.width = column.parts, column.layout, column.width
        target.is_sparse = is_sparse
        output.buffers.append([
            _prepare_validity(target, column, output, selection),
            _prepare_values(target, column, output, selection)])
        target += 1
    return output


cdef bint _is_sparse(Selection selection):
    cdef NativeBuffer limits = selection.footprint().limits
    cdef Py_ssize_t i, reach = 0
    for i in range(selection.num_sources):
        reach += (<const Py_ssize_t*> limits.ptr)[i]
    return selection.length < reach // SPARSE


cdef NativeBuffer _prepare_validity(
    Target* target, Column column, Output output, Selection selection
):
    cdef NativeBuffer validity, bitmaps
    if not column.has_nulls:
        validity, target.null_count = selection.validity, selection.null_count
    else:
        bitmaps, validity = _validity_bitmaps(column), allocate(bitmap_bytes(selection.length))
        output.scratch.append(bitmaps)
        target.sources_valid = <const Bitmap*> bitmaps.ptr
    if validity is not None:
        target.validity = <uint8_t*> validity.ptr
    return validity


cdef NativeBuffer _prepare_values(
    Target* target, Column column, Output output, Selection selection
):
    """Memory for numbers or bits, or for the offsets of strings."""
    cdef NativeBuffer values, scratch
    if column.layout == LAYOUT_VARIABLE:
        values = allocate((selection.length + 1) * sizeof(int32_t))
        target.ends = <int32_t*> values.ptr
        # Runs are copied with the bytes of their nulls; null picks, though, would copy what they
        # hide.
        if selection.footprint().runs is None or selection.validity is not None:
            scratch = allocate(selection.length * sizeof(int32_t))
            target.begins = <int32_t*> scratch.ptr
            output.scratch.append(scratch)
    elif column.layout == LAYOUT_BITS:
        values, scratch = allocate(bitmap_bytes(selection.length)), _value_bitmaps(column)
        target.sources_bits = <const Bitmap*> scratch.ptr
        target.values = <uint8_t*> values.ptr
        output.scratch.append(scratch)
    else:
        values = allocate(selection.length * column.width)
        target.values = <uint8_t*> values.ptr
    return values


cdef void _gather_column(
    Target* target, Selection selection, Footprint footprint
) noexcept nogil:
    """All but the bytes of strings, whose number this finds out."""
    if target.sources_valid != NULL:
        _gather_validity(target, selection)
    if target.layout == LAYOUT_BITS:
        _copy_bits(target.sources_bits, selection, target.values)
    elif target.layout == LAYOUT_FIXED:
        _copy_fixed(target, selection, footprint)
    elif target.begins == NULL:
        target.num_bytes = _place_runs(target.parts, footprint, target.ends)
    else:
        target.num_bytes = _place_strings(target, selection)


cdef void _gather_validity(Target* target, Selection selection) noexcept nogil:
    cdef size_t nbytes = bitmap_bytes(selection.length)
    _copy_bits(target.sources_valid, selection, target.validity)
    if selection.null_count:
        _and_into(target.validity, <const uint8_t*> selection.validity.ptr, nbytes)
    target.null_count = selection.length - count_ones(target.validity, selection.length)


cdef int _make_room(Output output, Py_ssize_t i, Py_ssize_t num_rows) except -1:
    """Memory for the bytes of a column of strings."""
    cdef Target* target = <Target*> output.targets.ptr + i
    cdef NativeBuffer room
    if target.num_bytes > INT32_MAX:
        raise OverflowError(
            f"{target.num_bytes} bytes of strings in {num_rows} rows; one array holds {INT32_MAX}")
    room = allocate(target.num_bytes)
    target.values = <uint8_t*> room.ptr
    (<list> output.buffers[i]).append(room)
    return 0


cdef void _copy_all_strings(
    Target* target, Selection selection, Footprint footprint
) noexcept nogil:
    if target.begins == NULL:
        _copy_string_runs(target.parts, footprint, target.values)
    else:
        _copy_strings(target, selection)


cdef tuple _finished(Output output, Py_ssize_t i):
    cdef const Target* target = <const Target*> output.targets.ptr + i
    cdef list buffers = output.buffers[i]
    if target.null_count == 0:
        buffers[0] = None
    if target.layout == LAYOUT_VARIABLE:
        # Short copies store whole chunks and may have left bytes in the padding.
        (<NativeBuffer> buffers[2]).truncate(target.num_bytes)
    return target.null_count, buffers


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


cdef void _copy_fixed(
    const Target* target, Selection selection, Footprint footprint
) noexcept nogil:
    if footprint.runs is not None:
        _copy_runs(target, <const Run*> footprint.runs.ptr, footprint.num_runs)
    else:
        _copy_scattered(target, selection)


cdef void _copy_runs(
    const Target* target, const Run* runs, Py_ssize_t num_runs
) noexcept nogil:
    cdef uint8_t* out = target.values
    cdef size_t width = target.width, nbytes
    cdef Py_ssize_t i
    for i in range(num_runs):
        nbytes = runs[i].count * width
        memcpy(out, target.parts[runs[i].source].values + runs[i].row * width, nbytes)
        out += nbytes


cdef void _copy_scattered(const Target* target, Selection selection) noexcept nogil:
    if target.width == 1:
        _copy_words(target.parts, selection, <uint8_t*> target.values)
    elif target.width == 2:
        _copy_words(target.parts, selection, <uint16_t*> target.values)
    elif target.width == 4:
        _copy_words(target.parts, selection, <uint32_t*> target.values)
    elif target.width == 8:
        _copy_words(target.parts, selection, <uint64_t*> target.values)
    elif target.width == 16:
        _copy_words(target.parts, selection, <Chunk*> target.values)
    else:
        _copy_wide(target, selection)


cdef void _copy_words(
    const Part* parts, Selection selection, word* out
) noexcept nogil:
    cdef const uint16_t* sources = selection.source_ptr
    cdef const uint32_t* rows = selection.row_ptr
    cdef const word* values = <const word*> parts[0].values
    cdef Py_ssize_t i
    if selection.num_sources == 1:
        for i in range(selection.length):
            out[i] = values[rows[i]]
    else:
        for i in range(selection.length):
            out[i] = (<const word*> parts[sources[i]].values)[rows[i]]


cdef void _copy_wide(const Target* target, Selection selection) noexcept nogil:
    cdef const Part* part
    cdef size_t width = target.width
    cdef Py_ssize_t i
    for i in range(selection.length):
        part = target.parts + selection.source_ptr[i]
        memcpy(target.values + i * width, part.values + selection.row_ptr[i] * width, width)


cdef int64_t _place_runs(
    const Part* parts, Footprint footprint, int32_t* ends
) noexcept nogil:
    """Write the output offsets, return the number of bytes. Offsets are of use if those fit."""
    cdef const Run* runs = <const Run*> footprint.runs.ptr
    cdef const int32_t* offsets
    cdef Py_ssize_t i
    cdef uint32_t k
    cdef int64_t total = 0
    ends[0] = 0
    for i in range(footprint.num_runs):
        offsets = parts[runs[i].source].offsets + runs[i].row
        for k in range(runs[i].count):
            ends[k + 1] = <int32_t> (<uint32_t> total + <uint32_t> (offsets[k + 1] - offsets[0]))
        total += offsets[runs[i].count] - offsets[0]
        ends += runs[i].count
    return total


cdef int64_t _place_strings(const Target* target, Selection selection) noexcept nogil:
    """As _place_runs; null rows are empty. Also finds where the strings are in their sources, so
    that the offsets there are met once only.
    """
    cdef const Part* parts = target.parts
    cdef const uint8_t* valid = target.validity
    cdef const int32_t* offsets
    cdef int32_t* begins = target.begins
    cdef int32_t* ends = target.ends
    cdef Py_ssize_t i
    cdef int64_t total = 0
    ends[0] = 0
    if target.is_sparse:
        _prefetch_offsets(parts, selection, 0)
    for i in range(selection.length):
        if target.is_sparse and i % ROWS_AHEAD == 0:
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


cdef void _copy_string_runs(
    const Part* parts, Footprint footprint, uint8_t* out
) noexcept nogil:
    cdef const Run* runs = <const Run*> footprint.runs.ptr
    cdef const Part* part
    cdef const int32_t* offsets
    cdef Py_ssize_t i
    cdef size_t nbytes
    for i in range(footprint.num_runs):
        part = parts + runs[i].source
        offsets = part.offsets + runs[i].row
        nbytes = offsets[runs[i].count] - offsets[0]
        if nbytes:
            memcpy(out, part.bytes + offsets[0], nbytes)
            out += nbytes


cdef void _copy_strings(const Target* target, Selection selection) noexcept nogil:
    cdef const Part* parts = target.parts
    cdef const Part* part
    cdef const int32_t* begins = target.begins
    cdef const int32_t* ends = target.ends
    cdef Py_ssize_t i
    cdef size_t nbytes
    if target.is_sparse:
        _prefetch_strings(parts, selection, begins, 0)
    for i in range(selection.length):
        if target.is_sparse and i % ROWS_AHEAD == 0:
            _prefetch_strings(parts, selection, begins, i + ROWS_AHEAD)
        part = parts + selection.source_ptr[i]
        nbytes = ends[i + 1] - ends[i]
        # Nearly all strings pass here. What is copied too much, the next one overwrites.
        if nbytes <= CHUNK_BYTES and begins[i] <= part.last_chunk:
            memcpy(target.values + ends[i], part.bytes + begins[i], CHUNK_BYTES)
        elif nbytes:
            copy_string(
                target.values + ends[i], part.bytes + begins[i], nbytes, part.bytes_end)
