from lsmerge_native.keys import Keys
from lsmerge_native.reduce import Selection

def touched_blocks(
    probes: Keys, firsts: list[bytes], lasts: list[bytes]
) -> list[tuple[int, int, int]]: ...
def find_rows(blocks: list[Keys], probes: list[Keys]) -> tuple[Selection, list[int]]: ...
