from collections.abc import Callable
from typing import Any, final

from lsmerge_native.keys import Keys

@final
class PointBlock:
    """The rows of a block, sorted by key, and how often they were of use."""

    def __init__(self, source: Any, keys: Keys, views: list[object | None]) -> None: ...
    @property
    def source(self) -> Any: ...
    @property
    def views(self) -> list[object | None]: ...
    @property
    def hits(self) -> int: ...
    def note_use(self) -> None: ...
    def take_mark(self) -> bool: ...

@final
class RowShape:
    """How a row of a block becomes a dict of Python values; immutable."""

    def __init__(
        self,
        names: list[str],
        arrays: list[Any],
        positions: list[int],
        defaults: list[Any],
        kind_position: int,
        convert: Callable[[Any], Any],
    ) -> None: ...
    def row_of(self, block: PointBlock, row: int) -> dict[str, Any]: ...
