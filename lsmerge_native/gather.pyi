from collections.abc import Sequence
from typing import Any

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.reduce import Selection

def viewed(array: Any) -> object: ...
def gatherable(array: Any) -> bool: ...
def gather(
    arrays: Sequence[Any], selection: Selection
) -> tuple[int, list[NativeBuffer | None]]: ...
