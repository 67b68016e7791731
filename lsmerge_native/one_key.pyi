from collections.abc import Sequence
from typing import Any, Never, NoReturn, final

from lsmerge_native.keys import Keys

@final
class KeyEncoder:
    """How keys of some columns are encoded; immutable."""

    def __init__(self, *args: Never, **kwargs: Never) -> NoReturn: ...
    def key(self, key: Any) -> tuple[Keys, int] | None: ...

def key_encoder(
    arrays: Sequence[Any],
    max_lengths: list[int],
    max_bytes: int,
    encoded: list[int],
    hashed: list[int],
) -> KeyEncoder | None: ...
