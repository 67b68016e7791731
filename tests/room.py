"""Where tests keep their files: in memory if there is room, where no disk makes them wait for a sync."""

import os

MEMORY = "/dev/shm"
ROOM_BYTES = 1 << 30


def in_memory() -> str | None:
    """A directory in memory with room for what tests write, None where there is none."""
    if not os.access(MEMORY, os.W_OK):
        return None
    status = os.statvfs(MEMORY)
    return MEMORY if status.f_bavail * status.f_frsize >= ROOM_BYTES else None
