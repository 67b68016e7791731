from typing import Any, final

from typing_extensions import Buffer

from lsmerge_native.point_rows import PointBlock

@final
class PointFile:
    """One file: what tells where a key may be, and the blocks in memory."""

    def __init__(
        self, file: Any, min_key: bytes, max_key: bytes, *, adds_only: bool = False
    ) -> None: ...
    @property
    def file(self) -> Any: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def one_row(self) -> bool: ...
    @property
    def adds_only(self) -> bool: ...
    @property
    def blocks(self) -> list[PointBlock | None] | None: ...
    def open(
        self,
        first_keys: list[bytes],
        last_keys: list[bytes],
        key_filter: Buffer | None,
        one_row: bool,
    ) -> None: ...
    def close(self) -> None: ...
    def put(self, number: int, block: PointBlock | None) -> None: ...

@final
class PointBucket:
    """The sorted runs of a bucket, newest first; each a list of files in key order."""

    def __init__(self, runs: list[list[PointFile]], is_by_age: bool) -> None: ...
    @property
    def runs(self) -> list[list[PointFile]]: ...
    @property
    def is_by_age(self) -> bool: ...
