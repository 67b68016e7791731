"""The encodings of numbers in Parquet pages: runs of one number, packed bits, and differences.

Packed bits begin with the lowest one of the first byte. They are taken out of words of 8 bytes, so
that a word may be asked for where fewer bytes are left: the last of them are copied to where there
is room. Bytes from anywhere give numbers or a broken cursor.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from lsmerge_native._bits cimport bitmap_bytes, count_ones
from lsmerge_native._thrift cimport Cursor, read_signed, read_varint, step


cdef enum:
    BATCH = 32                          # numbers that are unpacked at once, a whole number of bytes
    WORD_BYTES = 8
    MAX_WIDTH = 64
    ROOM_BYTES = BATCH * MAX_WIDTH // 8 + 2 * WORD_BYTES
    MAX_NUMBERS = 1 << 30               # of a run or a block of differences; no page has as many
    MAX_PARTS = 1 << 10                 # of a block of differences; writers make 4


cdef void read_runs(Cursor* cursor, int width, uint32_t* out, size_t count) noexcept nogil:
    cdef uint64_t numbers[BATCH]
    cdef uint64_t head
    cdef size_t done = 0, run, part, i
    while done < count and not cursor.is_broken:
        head = read_varint(cursor)
        run = _run_length(cursor, head, count - done)
        if head & 1:
            _check_left(cursor, (run * width + 7) >> 3)
            part = 0
            while part < run and not cursor.is_broken:
                _unpack(cursor, part, width, numbers)
                for i in range(min(run - part, <size_t> BATCH)):
                    out[done + part + i] = <uint32_t> numbers[i]
                part += BATCH
            _step_packed(cursor, head, width)
        else:
            numbers[0] = _repeated(cursor, width)
            for i in range(run):
                out[done + i] = <uint32_t> numbers[0]
        done += run


cdef size_t read_bits(Cursor* cursor, uint8_t* bitmap, size_t first, size_t count) noexcept nogil:
    cdef uint64_t head
    cdef size_t done = 0, run, ones = 0
    while done < count and not cursor.is_broken:
        head = read_varint(cursor)
        run = _run_length(cursor, head, count - done)
        if head & 1:
            _check_left(cursor, bitmap_bytes(run))
            if not cursor.is_broken:
                _copy_bits(bitmap, first + done, cursor.at, run)
                ones += count_ones(cursor.at, run)
            _step_packed(cursor, head, 1)
        elif _repeated(cursor, 1) & 1:
            _fill_bits(bitmap, first + done, run)
            ones += run
        done += run
    return ones


cdef void read_differences(
    Cursor* cursor, int item_bytes, uint8_t* out, size_t count
) noexcept nogil:
    cdef uint64_t block = read_varint(cursor)
    cdef uint64_t parts = read_varint(cursor)
    cdef uint64_t total = read_varint(cursor)
    cdef uint64_t value = <uint64_t> read_signed(cursor)
    cdef uint64_t a_part, least
    cdef size_t done = 1, part
    cdef const uint8_t* widths
    if parts == 0 or parts > MAX_PARTS or block == 0 or block > <uint64_t> MAX_NUMBERS:
        cursor.is_broken = True
    elif block % (parts * BATCH) or total != count:
        cursor.is_broken = True
    if cursor.is_broken:
        return
    if count:
        memcpy(out, &value, item_bytes)
    a_part = block // parts
    while done < count and not cursor.is_broken:
        least = <uint64_t> read_signed(cursor)
        widths = cursor.at
        step(cursor, parts)
        for part in range(parts):
            if done < count and not cursor.is_broken:
                value = _add_up(
                    cursor, widths[part], least, value, item_bytes, out + done * item_bytes,
                    a_part, min(count - done, a_part),
                )
                done += a_part


cdef uint64_t _add_up(
    Cursor* cursor, int width, uint64_t least, uint64_t value, int item_bytes, uint8_t* out,
    size_t packed, size_t wanted,
) noexcept nogil:
    """The sums of a part of a block, of which the last may be padded; returns the last one."""
    cdef uint64_t numbers[BATCH]
    cdef size_t part = 0, i
    if width > MAX_WIDTH:
        cursor.is_broken = True
    _check_left(cursor, packed * width >> 3)
    if cursor.is_broken:
        return value
    while part < wanted:
        _unpack(cursor, part, width, numbers)
        for i in range(<size_t> BATCH):
            value += numbers[i] + least
            numbers[i] = value
        copy_items(
            out + part * item_bytes, item_bytes, <const uint8_t*> numbers, WORD_BYTES,
            min(wanted - part, <size_t> BATCH))
        part += BATCH
    step(cursor, packed * width >> 3)
    return value


cdef inline void _unpack(
    const Cursor* cursor, size_t first, int width, uint64_t* out
) noexcept nogil:
    """BATCH numbers from number `first`, a multiple of 8, on; those beyond the end are 0."""
    cdef uint8_t room[ROOM_BYTES]
    cdef const uint8_t* packed = cursor.at + (first * width >> 3)
    cdef size_t left = cursor.end - packed, needed = (BATCH * width >> 3) + 2 * WORD_BYTES
    if left < needed:
        memset(room, 0, needed)
        memcpy(room, packed, left)
        packed = room
    _unpack_words(packed, width, out)


cdef inline void _unpack_words(const uint8_t* packed, int width, uint64_t* out) noexcept nogil:
    cdef uint64_t low, high, mask = ~<uint64_t> 0 >> (MAX_WIDTH - width) if width else 0
    cdef size_t i, bit
    if width <= MAX_WIDTH - 8:
        for i in range(<size_t> BATCH):
            bit = i * width
            memcpy(&low, packed + (bit >> 3), WORD_BYTES)
            out[i] = low >> (bit & 7) & mask
    else:
        for i in range(<size_t> BATCH):
            bit = i * width
            memcpy(&low, packed + (bit >> 3), WORD_BYTES)
            high = packed[(bit >> 3) + WORD_BYTES]
            # In two steps: a shift by all 64 bits means nothing.
            out[i] = (low >> (bit & 7) | high << 1 << (63 - (bit & 7))) & mask


cdef inline size_t _run_length(Cursor* cursor, uint64_t head, size_t wanted) noexcept nogil:
    """How many of the wanted numbers a run holds; what it has beyond is padding."""
    cdef uint64_t length = head >> 1
    if length > <uint64_t> MAX_NUMBERS:
        cursor.is_broken = True
        return 0
    return min(<size_t> (8 * length if head & 1 else length), wanted)


cdef inline uint64_t _repeated(Cursor* cursor, int width) noexcept nogil:
    """The number of a run, in as few whole bytes as it fits."""
    cdef uint64_t value = 0
    cdef size_t nbytes = (width + 7) >> 3
    _check_left(cursor, nbytes)
    if not cursor.is_broken:
        memcpy(&value, cursor.at, nbytes)
        step(cursor, nbytes)
    return value


cdef inline void _check_left(Cursor* cursor, size_t nbytes) noexcept nogil:
    if nbytes > <size_t> (cursor.end - cursor.at):
        cursor.is_broken = True


cdef inline void _step_packed(Cursor* cursor, uint64_t head, int width) noexcept nogil:
    """Pass over a packed run, whose last group may end with the page."""
    step(cursor, min((head >> 1) * width, <uint64_t> (cursor.end - cursor.at)))


cdef inline void _copy_bits(
    uint8_t* bitmap, size_t first, const uint8_t* bits, size_t count
) noexcept nogil:
    cdef uint8_t* out = bitmap + (first >> 3)
    cdef int shift = first & 7
    cdef size_t i
    cdef unsigned int byte
    for i in range(bitmap_bytes(count)):
        byte = bits[i]
        if 8 * i + 8 > count:
            byte &= (1 << (count & 7)) - 1
        byte <<= shift
        out[i] |= <uint8_t> byte
        out[i + 1] |= <uint8_t> (byte >> 8)


cdef inline void _fill_bits(uint8_t* bitmap, size_t first, size_t count) noexcept nogil:
    cdef size_t i = first, end = first + count
    while i < end and i & 7:
        bitmap[i >> 3] |= <uint8_t> (1 << (i & 7))
        i += 1
    memset(bitmap + (i >> 3), 255, (end - i) >> 3)
    i += (end - i) & ~<size_t> 7
    while i < end:
        bitmap[i >> 3] |= <uint8_t> (1 << (i & 7))
        i += 1
