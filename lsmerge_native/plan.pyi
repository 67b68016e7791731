from collections.abc import Sequence
from typing import Any, Never, NoReturn, final

from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.keys import Keys

class UnsortedRunError(ValueError): ...

@final
class MergePlan:
    """Rows of num_sources sources in merge order; group g is rows [starts[g], starts[g + 1])."""

    def __init__(self, *args: Never, **kwargs: Never) -> NoReturn: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_groups(self) -> int: ...
    @property
    def num_sources(self) -> int: ...
    @property
    def num_empty_groups(self) -> int: ...
    @property
    def sources(self) -> NativeBuffer: ...
    @property
    def rows(self) -> NativeBuffer: ...
    @property
    def starts(self) -> NativeBuffer: ...

def plan_sorted(keys: Keys, permutation: Buffer) -> MergePlan: ...
def merge_runs(
    keys: Sequence[Keys],
    orders: Sequence[Keys] | None,
    sequences: Sequence[tuple[Any, int]] | None,
    continues: Sequence[bool] = (),
    *,
    newest_only: bool = False,
) -> MergePlan: ...
