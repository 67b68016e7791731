from collections.abc import Sequence
from typing import Any

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.plan import MergePlan

def fold_sum(
    plan: MergePlan, arrays: Sequence[Any]
) -> tuple[NativeBuffer | None, NativeBuffer, int]: ...
def fold_min(
    plan: MergePlan, arrays: Sequence[Any]
) -> tuple[NativeBuffer | None, NativeBuffer, int]: ...
def fold_max(
    plan: MergePlan, arrays: Sequence[Any]
) -> tuple[NativeBuffer | None, NativeBuffer, int]: ...
def fold_count(
    plan: MergePlan, arrays: Sequence[Any]
) -> tuple[NativeBuffer | None, NativeBuffer, int]: ...
