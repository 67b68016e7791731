from collections.abc import Iterable
from typing import Final

from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.plan import MergePlan

VALUE_ANY: Final[int]
VALUE_FIRST: Final[int]
VALUE_LAST: Final[int]

def whole_removals(
    plan: MergePlan, removals: Buffer, columns: Iterable[tuple[Buffer, Buffer, int]]
) -> NativeBuffer: ...
