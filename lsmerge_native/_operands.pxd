"""What comes with a merge plan: the columns and keys of its sources, one of each per source.

Every row that the plan names is in them.
"""

cimport cython

from lsmerge_native._column cimport Column
from lsmerge_native.buffers cimport NativeBuffer
from lsmerge_native.keys cimport KeyView
from lsmerge_native.plan cimport MergePlan


@cython.final
cdef class KeyColumn:
    cdef list _keys             # own what the views point to
    cdef NativeBuffer _views
    cdef const KeyView* views   # one per source; any two can be compared


# A column of any type. TypeError or ValueError, naming `what`, if it does not fit the plan.
cdef Column view_operands(MergePlan plan, object arrays, str what)

# A column of one Arrow format (`code`) and without nulls, that has `limits` rows.
cdef Column view_exact(object arrays, bytes code, str what, NativeBuffer limits)

# The row kinds, int8: bit 0 of a retract is set.
cdef Column view_kinds(MergePlan plan, object kinds)

# Keys of one kind. TypeError or ValueError, naming `what`, if they do not fit the plan.
cdef KeyColumn view_keys(MergePlan plan, object keys, str what)
