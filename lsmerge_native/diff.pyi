from typing import Any

from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.keys import Keys
from lsmerge_native.reduce import Selection

def common_rows(before: Keys, after: Keys) -> tuple[NativeBuffer, NativeBuffer]: ...
def diff_rows(
    before: Keys, after: Keys, unchanged: Buffer | None = None
) -> tuple[Selection, NativeBuffer]: ...
def equal_rows(
    before: Any, after: Any, before_rows: Buffer, after_rows: Buffer
) -> NativeBuffer: ...
