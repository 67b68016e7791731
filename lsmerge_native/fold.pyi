from collections.abc import Sequence
from typing import Any

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.plan import MergePlan

class FoldError(ArithmeticError):
    """A group has no result. `group` is the first such group, `failed` flags them all."""

    group: int
    failed: NativeBuffer

    def __init__(self, message: str, group: int, failed: NativeBuffer) -> None: ...

class FoldOverflowError(FoldError, OverflowError): ...
class FoldDivisionError(FoldError, ZeroDivisionError): ...

def fold_sum(
    plan: MergePlan,
    arrays: Sequence[Any],
    *,
    kinds: Sequence[Any] | None = None,
    on_overflow: str = "error",
    precision: int | None = None,
    scale: int | None = None,
) -> tuple[NativeBuffer | None, NativeBuffer, int]: ...
def fold_product(
    plan: MergePlan,
    arrays: Sequence[Any],
    *,
    kinds: Sequence[Any] | None = None,
    on_overflow: str = "error",
    precision: int | None = None,
    scale: int | None = None,
) -> tuple[NativeBuffer | None, NativeBuffer, int]: ...
def fold_concat(
    plan: MergePlan, arrays: Sequence[Any], delimiter: bytes
) -> tuple[int, list[NativeBuffer | None]]: ...
