"""What comes with a merge plan: the columns and keys of its sources, one of each per source."""

cimport cython

from lsmerge_native._column cimport Column, view_column
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.keys cimport Keys, KeyView, require_comparable
from lsmerge_native.plan cimport MergePlan


@cython.final
@cython.auto_pickle(False)
cdef class KeyColumn:
    pass


cdef Column view_operands(MergePlan plan, object arrays, str what):
    return view_column(arrays, what, plan.limits())


cdef Column view_exact(object arrays, bytes code, str what, NativeBuffer limits):
    cdef Column column = view_column(arrays, what, limits)
    if column.format != code:
        raise TypeError(
            f"{what}: Arrow format '{code.decode()}' is needed, got '{column.format.decode()}'")
    if column.has_nulls:
        raise ValueError(f"{what}: a row without a value")
    return column


cdef Column view_kinds(MergePlan plan, object kinds):
    return view_exact(kinds, b"c", "kinds", plan.limits())


cdef KeyColumn view_keys(MergePlan plan, object keys, str what):
    cdef KeyColumn column = KeyColumn.__new__(KeyColumn)
    cdef KeyView* view
    cdef Keys source
    column._keys = list(keys)
    _check_keys(column._keys, what, plan.num_sources, <const Py_ssize_t*> plan.limits().ptr)
    column._views = allocate(plan.num_sources * sizeof(KeyView))
    view = <KeyView*> column._views.ptr
    column.views = view
    for source in column._keys:
        view[0] = source.view
        view += 1
    return column


cdef int _check_keys(
    list keys, str what, Py_ssize_t num_sources, const Py_ssize_t* limits
) except -1:
    cdef Py_ssize_t i
    if len(keys) != num_sources:
        raise ValueError(f"{what}: {len(keys)} keys for {num_sources} sources")
    for i in range(num_sources):
        if not isinstance(keys[i], Keys):
            raise TypeError(f"{what}: expected Keys, got {type(keys[i]).__name__}")
        require_comparable(keys[0], keys[i], f"{what} of source {i}")
        if (<Keys> keys[i]).view.length < limits[i]:
            raise ValueError(
                f"{what}: source {i} has {len(keys[i])} keys where {limits[i]} are needed")
    return 0
