from collections.abc import Callable
from typing import Any, Never, NoReturn, final

_Allocator = Callable[[int], Any]

def use_allocator(allocator: _Allocator | None) -> _Allocator | None: ...

@final
class NativeBuffer:
    """Bytes made by a kernel; read-only from Python."""

    def __init__(self, *args: Never, **kwargs: Never) -> NoReturn: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class InputBuffer:
    """A caller's memory, held as long as this object lives. Of use to kernels only."""

    def __init__(self, *args: Never, **kwargs: Never) -> NoReturn: ...
