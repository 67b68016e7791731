from typing import Any, final, type_check_only

from typing_extensions import Buffer

@type_check_only
class OutgoingBatch:
    @property
    def address(self) -> int: ...

@final
class BlockShape:
    def __init__(self, schema: Any, nodes: list[int], buffers: list[int]) -> None: ...
    def read(
        self,
        num_rows: int,
        nodes: tuple[int, ...],
        buffers: tuple[int, ...],
        body_start: int,
        pieces: list[tuple[int, Buffer]],
    ) -> OutgoingBatch: ...
    def joined(
        self, num_rows: int, nodes: tuple[int, ...], unpacked: list[Buffer | None]
    ) -> OutgoingBatch: ...
