from typing import final

@final
class DirectoryWatch:
    """Some directories since this was made. Thread-safe."""

    def __init__(self, handles: list[int], max_age_ms: int, guard_ms: int) -> None: ...
    @property
    def is_settled(self) -> bool: ...
    def is_unchanged(self) -> bool: ...
