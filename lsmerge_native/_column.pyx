"""One column of several sources: an Arrow array per source, all of one type."""

cimport cython
from libc.stdint cimport uint8_t
from libc.string cimport strcmp

from lsmerge_native._arrow cimport LAYOUT_BITS, LAYOUT_FIXED, LAYOUT_VARIABLE, ArrayView, view_array
from lsmerge_native._strings cimport CHUNK_BYTES
from lsmerge_native.buffers cimport NativeBuffer, allocate_zeroed


@cython.final
@cython.auto_pickle(False)
cdef class Column:
    pass


cdef Column view_column(object arrays, str what, NativeBuffer limits):
    cdef Column column = Column.__new__(Column)
    cdef ArrayView first
    column._views = [view_array(array) for array in arrays]
    column.num_parts = len(column._views)
    if column.num_parts == 0:
        raise ValueError(f"{what}: at least one array is needed")
    _check_parts(column, what, <const Py_ssize_t*> limits.ptr, limits.size // sizeof(Py_ssize_t))
    first = column._views[0]
    column.format = first.format
    column.layout = first.layout
    column.width = first.width
    _fill_parts(column)
    return column


cdef int _check_parts(
    Column column, str what, const Py_ssize_t* limits, Py_ssize_t num_sources
) except -1:
    cdef ArrayView view, first = column._views[0]
    cdef Py_ssize_t i
    if column.num_parts != num_sources:
        raise ValueError(f"{what}: {column.num_parts} arrays for {num_sources} sources")
    for i in range(num_sources):
        view = column._views[i]
        if view.layout != first.layout or strcmp(view.format, first.format) != 0:
            raise TypeError(
                f"{what}: source {i} has Arrow format '{view.format.decode()}', "
                f"source 0 has '{first.format.decode()}'")
        if view.length < limits[i]:
            raise ValueError(
                f"{what}: source {i} has {view.length} rows where {limits[i]} are needed")
    return 0


cdef int _fill_parts(Column column) except -1:
    column._parts = allocate_zeroed(column.num_parts * sizeof(Part))
    cdef Part* part = <Part*> column._parts.ptr
    cdef ArrayView view
    column.parts = part
    for view in column._views:
        _fill_part(part, view)
        column.has_nulls = column.has_nulls or view.validity != NULL
        part += 1
    return 0


cdef void _fill_part(Part* part, ArrayView view) noexcept:
    part.validity = view.validity
    part.offset = view.offset
    part.length = view.length
    if view.layout == LAYOUT_BITS:
        part.values = <const uint8_t*> view.data
    elif view.layout == LAYOUT_FIXED:
        part.values = view.values()
    elif view.layout == LAYOUT_VARIABLE and view.offsets != NULL:
        part.offsets = view.offsets + view.offset
        part.bytes = view.bytes
        part.bytes_end = view.bytes + part.offsets[view.length]
        part.last_chunk = part.offsets[view.length] - CHUNK_BYTES
