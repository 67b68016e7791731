"""Values of a Parquet column chunk as the buffers of an Arrow column.

For columns that are not nested, of numbers and of texts, in the encodings that run files are
written with: plain, dictionaries and differences. Anything else is told by None, and left to a
reader that knows all there is. Bytes from anywhere give values, None or a ValueError: sizes,
counts, places in a dictionary and lengths of texts are checked before they are used.

Texts take two goes, as where they go is known when the lengths of all are: the first writes the
offsets, the second copies, and reads no length that the copy before it has to wait for.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from lsmerge_native._bits cimport bit_is_set, bitmap_bytes
from lsmerge_native._encodings cimport copy_items, read_bits, read_differences, read_runs
from lsmerge_native._strings cimport copy_string
from lsmerge_native._thrift cimport Cursor, front, step
from lsmerge_native.buffers cimport (
    InputBuffer, NativeBuffer, allocate, allocate_zeroed, view_items,
)
from lsmerge_native.pages cimport DATA, DICTIONARY, Page, read_page


cdef enum:
    PLAIN = 0
    PLAIN_DICTIONARY = 2        # an older name of the last one
    RUNS = 3
    DIFFERENCES = 5
    RUNS_DICTIONARY = 8
    LENGTH_BYTES = 4            # before a text, and before the bits of rows that are not null
    MAX_PLACE_BITS = 32
    MAX_TEXT_PAGES = 1024       # which are kept until their texts are copied; writers make a few


@cython.final
@cython.auto_pickle(False)
cdef class ValueShape:
    """How the values of a column are stored in Parquet, and what they take in Arrow."""

    cdef int stored_bytes
    cdef int item_bytes
    cdef bint is_whole
    cdef bint is_text
    cdef bint is_nullable

    def __cinit__(self, int stored_bytes, int item_bytes, bint is_whole, bint is_nullable):
        """Numbers are stored in 4 or 8 bytes, of which Arrow has the first `item_bytes`.

        Texts have 0 of both.
        """
        cdef bint is_number = (
            stored_bytes in (4, 8) and item_bytes in (1, 2, 4, 8) and item_bytes <= stored_bytes)
        if not is_number and (stored_bytes or item_bytes):
            raise ValueError(
                f"no values are stored in {stored_bytes} and read in {item_bytes} bytes")
        self.stored_bytes = stored_bytes
        self.item_bytes = item_bytes
        self.is_whole = is_whole and is_number
        self.is_text = not is_number
        self.is_nullable = is_nullable


@cython.final
@cython.auto_pickle(False)
cdef class _Texts:
    """Where the texts of a data page are: in itself, or by places in a dictionary."""

    cdef InputBuffer body               # what `values` points into
    cdef Cursor values
    cdef NativeBuffer places            # None if the texts are in the page itself
    cdef size_t first
    cdef size_t rows


@cython.final
@cython.auto_pickle(False)
cdef class _Column:
    """A column while its pages are read."""

    cdef ValueShape shape
    cdef size_t rows
    cdef size_t done                    # rows that were read
    cdef size_t nulls
    cdef size_t most_bytes
    cdef NativeBuffer validity          # a bit of each row
    cdef NativeBuffer offsets           # of texts, in their outcome
    cdef NativeBuffer items             # of numbers
    cdef list pages                     # of texts
    # Entries of the dictionary: numbers as items, texts in its page, with offsets to there.
    cdef size_t entries
    cdef NativeBuffer entry_items
    cdef NativeBuffer entry_offsets
    cdef InputBuffer entry_texts


def decode_chunk(data, codec, ValueShape shape not None, size_t rows, size_t most_bytes):
    """Return (validity or None, offsets or None, values, number of nulls) of a column chunk.

    None if an encoding is not known here. `data` can be sliced and has the buffer protocol; `codec`
    unpacks a slice into so many bytes, and is None if they are not packed. More than `most_bytes`
    of text are refused.
    """
    cdef InputBuffer chunk = view_items(data, 1, "data")
    cdef _Column column = _begin(shape, rows, most_bytes)
    cdef Cursor cursor = front(chunk.ptr, chunk.size)
    cdef Page page
    cdef InputBuffer body
    while cursor.at < cursor.end:
        page = read_page(&cursor)
        if cursor.is_broken:
            raise ValueError("a column chunk does not consist of pages")
        if page.kind == DATA and page.values == 0:
            continue
        if not _is_known(column, &page):
            return None
        body = _unpacked(data, page.body - <const uint8_t*> chunk.ptr, &page, codec)
        if page.kind == DICTIONARY:
            _take_dictionary(column, &page, body)
        else:
            _take_values(column, &page, body)
    if column.done != rows:
        raise ValueError(f"a column chunk has {column.done} rows, not {rows}")
    return (
        column.validity if column.nulls else None, column.offsets, _values(column), column.nulls)


cdef _Column _begin(ValueShape shape, size_t rows, size_t most_bytes):
    cdef _Column column = _Column.__new__(_Column)
    if rows > INT32_MAX:
        raise ValueError(f"{rows} rows are more than a block has")
    column.shape = shape
    column.rows = rows
    column.most_bytes = min(most_bytes, <size_t> INT32_MAX)
    if shape.is_nullable:
        column.validity = allocate_zeroed(bitmap_bytes(rows))
    if shape.is_text:
        column.pages = []
        column.offsets = allocate((rows + 1) * sizeof(int32_t))
        (<int32_t*> column.offsets.ptr)[0] = 0
    else:
        column.items = allocate(rows * shape.item_bytes)
    return column


cdef bint _is_known(_Column column, const Page* page) except -1:
    cdef bint is_first = column.entry_items is None and column.entry_texts is None
    if page.kind == DICTIONARY:
        return is_first and (page.encoding == PLAIN or page.encoding == PLAIN_DICTIONARY)
    if page.kind != DATA or column.shape.is_nullable and page.level_encoding != RUNS:
        return False
    if column.shape.is_text and len(column.pages) == MAX_TEXT_PAGES:
        return False
    if page.encoding == PLAIN_DICTIONARY or page.encoding == RUNS_DICTIONARY:
        return not is_first
    return page.encoding == PLAIN or page.encoding == DIFFERENCES and column.shape.is_whole


cdef InputBuffer _unpacked(data, size_t offset, const Page* page, codec):
    body = data[offset:offset + page.packed]
    if codec is not None:
        body = codec.decompress(body, page.unpacked)
    # What was packed is as long as was asked for, as pyarrow sees to.
    cdef InputBuffer found = view_items(body, 1, "page")
    if found.size != <size_t> page.unpacked:
        raise ValueError(f"a page has {found.size} bytes, not {page.unpacked}")
    return found


cdef int _take_dictionary(_Column column, const Page* page, InputBuffer body) except -1:
    cdef ValueShape shape = column.shape
    cdef Cursor values = front(body.ptr, body.size)
    column.entries = page.entries
    # Texts take 4 bytes at least, and numbers what they are stored in.
    if (column.entries * max(shape.stored_bytes, <int> LENGTH_BYTES) > body.size
            or body.size > INT32_MAX - LENGTH_BYTES):
        raise ValueError(f"a dictionary of {body.size} bytes has no {column.entries} values")
    if shape.is_text:
        column.entry_texts = body
        column.entry_offsets = allocate((column.entries + 1) * sizeof(int32_t))
        with nogil:
            _find_entries(&values, <int32_t*> column.entry_offsets.ptr, column.entries)
    else:
        column.entry_items = allocate(column.entries * shape.item_bytes)
        _read_plain(
            &values, shape.stored_bytes, shape.item_bytes, <uint8_t*> column.entry_items.ptr,
            column.entries)
    return _check(&values)


cdef int _take_values(_Column column, const Page* page, InputBuffer body) except -1:
    cdef Cursor cursor = front(body.ptr, body.size)
    cdef Cursor values
    cdef size_t rows = page.values, filled = page.values, size = 0
    cdef NativeBuffer places = None
    if rows > column.rows - column.done:
        raise ValueError(f"a column chunk has more than {column.rows} rows")
    if page.encoding == RUNS_DICTIONARY or page.encoding == PLAIN_DICTIONARY:
        places = allocate(rows * sizeof(uint32_t))
    # In one go: of pages with few rows, threads would wait for the interpreter rather than decode.
    with nogil:
        if column.shape.is_nullable:
            filled = _read_levels(&cursor, <uint8_t*> column.validity.ptr, column.done, rows)
        if places is not None:
            _read_places(&cursor, <uint32_t*> places.ptr, filled, column.entries)
        values = cursor
        if column.shape.is_text:
            size = _measure_texts(column, &cursor, places, rows, filled)
        else:
            _read_numbers(column, page, &cursor, places, filled)
    _check(&cursor)
    if size > column.most_bytes:
        raise ValueError(
            f"the block unpacks to {size} bytes of text, at most {column.most_bytes} fit it")
    if column.shape.is_text:
        column.pages.append(_texts(body, values, places, column.done, rows))
    column.nulls += rows - filled
    column.done += rows
    return 0


cdef size_t _read_levels(
    Cursor* cursor, uint8_t* validity, size_t first, size_t rows
) noexcept nogil:
    """Which rows are not null, and how many of them."""
    cdef Cursor levels = cursor[0]
    cdef uint32_t size = 0
    cdef size_t filled
    step(cursor, LENGTH_BYTES)
    if cursor.is_broken:
        return 0
    memcpy(&size, levels.at, LENGTH_BYTES)
    levels.at = cursor.at
    step(cursor, size)
    levels.end = cursor.at
    filled = read_bits(&levels, validity, first, rows)
    cursor.is_broken |= levels.is_broken
    return filled


# --- numbers ------------------------------------------------------------------------------------

cdef void _read_numbers(
    _Column column, const Page* page, Cursor* cursor, NativeBuffer places, size_t filled
) noexcept nogil:
    cdef int item_bytes = column.shape.item_bytes
    cdef size_t rows = page.values
    cdef uint8_t* out = <uint8_t*> column.items.ptr + column.done * item_bytes
    if cursor.is_broken:
        return
    if page.encoding == PLAIN:
        _read_plain(cursor, column.shape.stored_bytes, item_bytes, out, filled)
    elif page.encoding == DIFFERENCES:
        read_differences(cursor, item_bytes, out, filled)
    else:
        _look_up(
            <uint8_t*> column.entry_items.ptr, <uint32_t*> places.ptr, item_bytes, out, filled)
    if filled < rows and not cursor.is_broken:
        _spread(out, item_bytes, <uint8_t*> column.validity.ptr, column.done, rows, filled)


cdef void _read_plain(
    Cursor* cursor, int stored_bytes, int item_bytes, uint8_t* out, size_t count
) noexcept nogil:
    cdef const uint8_t* values = cursor.at
    step(cursor, count * stored_bytes)
    if not cursor.is_broken:
        copy_items(out, item_bytes, values, stored_bytes, count)


cdef void _read_places(Cursor* cursor, uint32_t* out, size_t count, size_t entries) noexcept nogil:
    """Places in a dictionary of so many entries: a byte with the width of a place, then runs."""
    cdef const uint8_t* width = cursor.at
    cdef uint32_t greatest = 0
    cdef size_t i
    if count == 0 or cursor.is_broken:
        return
    step(cursor, 1)
    if cursor.is_broken or width[0] > MAX_PLACE_BITS:
        cursor.is_broken = True
        return
    read_runs(cursor, width[0], out, count)
    if cursor.is_broken:
        return
    for i in range(count):
        greatest = max(greatest, out[i])
    cursor.is_broken = greatest >= entries


cdef void _look_up(
    const uint8_t* entries, const uint32_t* places, int item_bytes, uint8_t* out, size_t count
) noexcept nogil:
    cdef size_t i
    if item_bytes == 8:
        for i in range(count):
            memcpy(out + 8 * i, entries + 8 * <size_t> places[i], 8)
    elif item_bytes == 4:
        for i in range(count):
            memcpy(out + 4 * i, entries + 4 * <size_t> places[i], 4)
    else:
        for i in range(count):
            memcpy(out + item_bytes * i, entries + item_bytes * <size_t> places[i], item_bytes)


cdef void _spread(
    uint8_t* items, int item_bytes, const uint8_t* validity, size_t first, size_t rows,
    size_t filled,
) noexcept nogil:
    """Move items, which are together in front, to the rows that are not null, the last first."""
    if item_bytes == 8:
        _spread_items(items, 8, validity, first, rows, filled)
    elif item_bytes == 4:
        _spread_items(items, 4, validity, first, rows, filled)
    else:
        _spread_items(items, item_bytes, validity, first, rows, filled)


cdef inline void _spread_items(
    uint8_t* items, int item_bytes, const uint8_t* validity, size_t first, size_t rows,
    size_t filled,
) noexcept nogil:
    cdef size_t row = rows
    cdef uint64_t item, is_set
    while row > filled:
        row -= 1
        # By arithmetic: which rows are null comes in no order that a processor could foresee.
        is_set = bit_is_set(validity, first + row)
        filled -= is_set
        item = 0
        memcpy(&item, items + filled * item_bytes, item_bytes)
        item &= 0 - is_set
        memcpy(items + row * item_bytes, &item, item_bytes)


# --- texts --------------------------------------------------------------------------------------

cdef _Texts _texts(
    InputBuffer body, Cursor values, NativeBuffer places, size_t first, size_t rows
):
    cdef _Texts texts = _Texts.__new__(_Texts)
    texts.body = body
    texts.values = values
    texts.places = places
    texts.first = first
    texts.rows = rows
    return texts


cdef size_t _measure_texts(
    _Column column, Cursor* cursor, NativeBuffer places, size_t rows, size_t filled
) noexcept nogil:
    """Write the offsets of the rows of a page; returns how long all texts are until then."""
    cdef int32_t* offsets = <int32_t*> column.offsets.ptr + column.done
    cdef const uint8_t* validity = NULL
    if cursor.is_broken:
        return 0
    if filled < rows:
        validity = <const uint8_t*> column.validity.ptr
    if places is None:
        return _measure_plain(cursor, validity, column.done, rows, offsets)
    return _measure_places(
        <const uint32_t*> places.ptr, <const int32_t*> column.entry_offsets.ptr, validity,
        column.done, rows, offsets)


cdef size_t _measure_plain(
    Cursor* cursor, const uint8_t* validity, size_t first, size_t rows, int32_t* offsets
) noexcept nogil:
    """The offsets after each row; returns the last one, also where it does not fit an offset."""
    cdef size_t total = offsets[0], i
    cdef uint32_t length
    cdef const uint8_t* at = cursor.at
    for i in range(rows):
        if validity == NULL or bit_is_set(validity, first + i):
            if cursor.end - at < LENGTH_BYTES:
                cursor.is_broken = True
                return total
            memcpy(&length, at, LENGTH_BYTES)
            at += LENGTH_BYTES
            if length > <size_t> (cursor.end - at):
                cursor.is_broken = True
                return total
            at += length
            total += length
        offsets[i + 1] = <int32_t> total
    return total


cdef size_t _measure_places(
    const uint32_t* places, const int32_t* entries, const uint8_t* validity, size_t first,
    size_t rows, int32_t* offsets,
) noexcept nogil:
    """The same for texts of a dictionary."""
    cdef size_t total = offsets[0], i, j = 0
    for i in range(rows):
        if validity == NULL or bit_is_set(validity, first + i):
            total += entries[places[j] + 1] - entries[places[j]] - LENGTH_BYTES
            j += 1
        offsets[i + 1] = <int32_t> total
    return total


cdef void _find_entries(Cursor* cursor, int32_t* offsets, size_t count) noexcept nogil:
    """Where the texts of a dictionary begin, each after its length, as would one after the last."""
    cdef const uint8_t* begin = cursor.at
    cdef uint32_t length
    cdef size_t i
    offsets[0] = LENGTH_BYTES
    for i in range(count):
        if cursor.end - cursor.at < LENGTH_BYTES:
            cursor.is_broken = True
            return
        memcpy(&length, cursor.at, LENGTH_BYTES)
        cursor.at += LENGTH_BYTES
        step(cursor, length)
        if cursor.is_broken:
            return
        offsets[i + 1] = <int32_t> (cursor.at - begin + LENGTH_BYTES)


cdef NativeBuffer _values(_Column column):
    """All texts one after the other; numbers are there already."""
    cdef _Texts texts
    cdef NativeBuffer values
    cdef const int32_t* offsets
    cdef const int32_t* entries
    cdef const uint8_t* validity
    if not column.shape.is_text:
        return column.items
    offsets = <const int32_t*> column.offsets.ptr
    values = allocate(offsets[column.rows])
    for texts in column.pages:
        validity = <const uint8_t*> column.validity.ptr if column.nulls else NULL
        if texts.places is None:
            _copy_plain(texts, offsets, validity, <uint8_t*> values.ptr)
        else:
            entries = <const int32_t*> column.entry_offsets.ptr
            _copy_places(
                texts, column.entry_texts, entries, offsets, validity, <uint8_t*> values.ptr)
    return values


cdef void _copy_plain(
    _Texts texts, const int32_t* offsets, const uint8_t* validity, uint8_t* out
) noexcept:
    cdef const uint8_t* at = texts.values.at
    cdef const uint8_t* end = texts.values.end
    cdef size_t row, length
    with nogil:
        for row in range(texts.first, texts.first + texts.rows):
            if validity == NULL or bit_is_set(validity, row):
                length = offsets[row + 1] - offsets[row]
                copy_string(out + offsets[row], at + LENGTH_BYTES, length, end)
                at += LENGTH_BYTES + length


cdef void _copy_places(
    _Texts texts, InputBuffer dictionary, const int32_t* entries, const int32_t* offsets,
    const uint8_t* validity, uint8_t* out,
) noexcept:
    cdef const uint8_t* begin = <const uint8_t*> dictionary.ptr
    cdef const uint32_t* places = <const uint32_t*> texts.places.ptr
    cdef size_t row, j = 0
    with nogil:
        for row in range(texts.first, texts.first + texts.rows):
            if validity == NULL or bit_is_set(validity, row):
                copy_string(
                    out + offsets[row], begin + entries[places[j]],
                    offsets[row + 1] - offsets[row], begin + dictionary.size)
                j += 1


cdef int _check(const Cursor* cursor) except -1:
    if cursor.is_broken:
        raise ValueError("a page does not hold the values that its header tells")
    return 0
