from typing import final

@final
class DirectoryEvents:
    """What the kernel tells of directories, for any number of watches. Thread-safe."""

    def __init__(self) -> None: ...
    @property
    def is_own(self) -> bool: ...
    @property
    def told(self) -> int: ...

@final
class DirectoryWatch:
    """Some directories since this was made. Thread-safe."""

    def __init__(
        self,
        handles: list[int],
        max_age_ms: int,
        guard_ms: int,
        events: DirectoryEvents | None = None,
    ) -> None: ...
    @property
    def is_settled(self) -> bool: ...
    @property
    def hears(self) -> bool: ...
    def is_unchanged(self) -> bool: ...
