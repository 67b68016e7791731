"""The head of an Arrow record batch message: where its columns lie in the body.

An encapsulated message is

    0xFFFFFFFF | metadata length (int32) | metadata: flatbuffer Message, padded to 8 bytes | body

and its metadata lists, for all columns depth-first, the nodes (length, null count) and the buffers
(offset and length in the body). A flatbuffer table finds its fields through a table of 16-bit
offsets; absent ones have a default. Bytes from anywhere give numbers or a ValueError: every place
is checked before it is read, and every buffer lies in the body.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from lsmerge_native.buffers cimport InputBuffer, view_items


cdef enum:
    PREFIX = 8
    VERSION_5 = 4
    RECORD_BATCH = 3
    BY_BUFFER = 0            # the one method of compressing a body
    # Fields of a Message.
    VERSION = 0
    HEADER_TYPE = 1
    HEADER = 2
    BODY_LENGTH = 3
    # Fields of a RecordBatch.
    NUM_ROWS = 0
    NODES = 1
    BUFFERS = 2
    COMPRESSION = 3
    # Fields of a BodyCompression.
    CODEC = 0
    METHOD = 1

cdef int64_t CONTINUATION = 0xFFFFFFFF


cdef struct Metadata:
    const uint8_t* data
    int64_t size


cdef struct Table:
    int64_t position
    int64_t offsets          # where the offsets of its fields are
    int64_t num_fields


def head_length(prefix):
    """Return the length of prefix and metadata, told by the first 8 bytes of a message."""
    return _head_length(view_items(prefix, 1, "prefix"))


def read_head(head, int64_t message_length):
    """Return (rows, nodes, buffers, codec number or None, start of the body) of a message of that
    length; nodes and buffers are flat tuples of pairs. `head` begins with prefix and metadata.
    """
    cdef InputBuffer items = view_items(head, 1, "head")
    cdef int64_t body_start = _head_length(items)
    if body_start > min(<int64_t> items.size, message_length):
        raise ValueError("message metadata is longer than the message")
    cdef Metadata metadata = Metadata(<const uint8_t*> items.ptr + PREFIX, body_start - PREFIX)
    cdef Table batch = _batch(&metadata, message_length - body_start)
    cdef int64_t num_rows = _scalar(&metadata, &batch, NUM_ROWS, 8)
    return (
        num_rows,
        _pairs(&metadata, &batch, NODES),
        _pairs(&metadata, &batch, BUFFERS, message_length - body_start),
        _codec(&metadata, &batch),
        body_start,
    )


cdef int64_t _head_length(InputBuffer prefix) except -1:
    cdef Metadata whole = Metadata(<const uint8_t*> prefix.ptr, prefix.size)
    cdef int64_t length = <int32_t> _load(&whole, 4, 4)
    if _load(&whole, 0, 4) != CONTINUATION or length < 0:
        raise ValueError("a record batch message does not begin here")
    return PREFIX + length


cdef Table _batch(const Metadata* metadata, int64_t body_length) except *:
    cdef Table message = _table(metadata, _load(metadata, 0, 4)), batch
    if _scalar(metadata, &message, VERSION, 2) != VERSION_5 \
            or _scalar(metadata, &message, HEADER_TYPE, 1) != RECORD_BATCH:
        raise ValueError("not a record batch message of metadata version 5")
    if _scalar(metadata, &message, BODY_LENGTH, 8) != body_length:
        raise ValueError("message body has another length than its metadata says")
    if not _child(metadata, &message, HEADER, &batch):
        raise ValueError("message without a record batch")
    return batch


cdef object _codec(const Metadata* metadata, const Table* batch):
    cdef Table compression
    if not _child(metadata, batch, COMPRESSION, &compression):
        return None
    if _scalar(metadata, &compression, METHOD, 1) != BY_BUFFER:
        raise ValueError("unknown method of body compression")
    return _scalar(metadata, &compression, CODEC, 1)


cdef tuple _pairs(
    const Metadata* metadata, const Table* table, int64_t slot, int64_t body_length=-1
):
    """A vector of pairs of int64, flat; with a body length, as places in the body."""
    cdef int64_t place = _target(metadata, table, slot), first, second, i, count
    cdef list numbers = []
    if place == 0:
        return ()
    count = _load(metadata, place, 4)
    if 16 * count > metadata.size - place - 4:
        raise ValueError(f"{count} entries do not fit the message metadata")
    for i in range(place + 4, place + 4 + 16 * count, 16):
        first, second = _load(metadata, i, 8), _load(metadata, i + 8, 8)
        if body_length >= 0 and (first < 0 or second < 0 or first > body_length - second):
            raise ValueError(
                f"a buffer of {second} bytes at {first} is outside the message body")
        numbers.append(first)
        numbers.append(second)
    return tuple(numbers)


# ---- flatbuffers ----


cdef Table _table(const Metadata* metadata, int64_t position) except *:
    cdef int64_t vtable = position - <int32_t> _load(metadata, position, 4)
    cdef int64_t num_fields = max(0, _load(metadata, vtable, 2) - 4) // 2
    if vtable + 4 + 2 * num_fields > metadata.size:
        raise ValueError(f"message metadata points to byte {vtable} of {metadata.size}")
    return Table(position, vtable + 4, num_fields)


cdef int64_t _field(const Metadata* metadata, const Table* table, int64_t slot) except -1:
    """Where a field is, 0 if it is absent."""
    cdef int64_t offset = 0
    if slot < table.num_fields:
        offset = _load(metadata, table.offsets + 2 * slot, 2)
    return table.position + offset if offset else 0


cdef int64_t _target(const Metadata* metadata, const Table* table, int64_t slot) except -1:
    """Where a field points to, 0 if it is absent."""
    cdef int64_t place = _field(metadata, table, slot)
    return place + _load(metadata, place, 4) if place else 0


cdef bint _child(
    const Metadata* metadata, const Table* table, int64_t slot, Table* child
) except -1:
    """Whether a table is there."""
    cdef int64_t place = _target(metadata, table, slot)
    if place:
        child[0] = _table(metadata, place)
    return place != 0


cdef int64_t _scalar(
    const Metadata* metadata, const Table* table, int64_t slot, size_t nbytes
) except? -1:
    """A field of so many bytes, 0 if it is absent."""
    cdef int64_t place = _field(metadata, table, slot)
    return _load(metadata, place, nbytes) if place else 0


cdef int64_t _load(const Metadata* metadata, int64_t place, size_t nbytes) except? -1:
    """The little-endian number of so many bytes; less than 8 of them are read as unsigned."""
    cdef int64_t value = 0
    if not 0 <= place <= metadata.size - <int64_t> nbytes:
        raise ValueError(f"message metadata points to byte {place} of {metadata.size}")
    memcpy(&value, metadata.data + place, nbytes)
    return value
