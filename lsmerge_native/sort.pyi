from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.keys import Keys

def argsort(keys: Keys, order: Keys | None = None) -> NativeBuffer: ...
