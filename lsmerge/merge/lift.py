"""What a column function may do to values at the door, before they are stored."""

from collections.abc import Callable

import pyarrow as pa

from lsmerge.field_options import FieldOptions
from lsmerge.schema import Column

Lift = Callable[[pa.Array, Column, FieldOptions], pa.Array]


class RefusedValueError(ValueError):
    """A value that may not enter. `row` is where it is; who knows the other columns names its key."""

    def __init__(self, row: int, reason: str) -> None:
        self.row = row
        super().__init__(reason)
