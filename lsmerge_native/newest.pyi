from typing import Any

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.keys import Keys
from lsmerge_native.reduce import Selection

def newest_rows(
    blocks: list[Keys],
    kinds: list[Any],
    probes: list[Keys],
    positions: list[tuple[int, Any]],
    count: int,
) -> tuple[Selection, NativeBuffer]: ...
def followed(selection: Selection, origins: list[Selection | None]) -> Selection: ...
