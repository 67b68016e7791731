from collections.abc import Sequence

from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.keys import Keys

def ranks(bounds: Keys, keys: Keys, *, after: bool = True) -> NativeBuffer: ...
def interleave(columns: Sequence[Buffer], bits: int, *, hilbert: bool = False) -> NativeBuffer: ...
