from typing_extensions import Buffer

from lsmerge_native.buffers import NativeBuffer

def read_footer(data: Buffer) -> tuple[NativeBuffer, NativeBuffer]: ...
