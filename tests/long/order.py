"""K4, checked against the kernel: what strace shows a commit do is what the model of power loss takes it to do.

Every file is synced before it gets its name, its directory after that, and all this before the snapshot that leads to
the file gets its own.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.long import tracing
from tests.long.figures import Tally
from tests.long.stages import fresh, scratch, stages, start

_SYNC = re.compile(r"fsync\(\d+<([^>]*)>\)")
_LINK = re.compile(r'linkat\(\d+<([^>]*)>, "([^"]*)", \d+<[^>]*>, "([^"]*)"')


class Event(NamedTuple):
    kind: str
    directory: str
    name: str
    new_name: str = ""


def events(log: str) -> Iterator[Event]:
    """Syncs and links, in order."""
    for line in log.splitlines():
        if found := _SYNC.search(line):
            directory, _, name = found[1].rpartition("/")
            yield Event("sync", directory, name)
        elif found := _LINK.search(line):
            yield Event("link", found[1], found[2], found[3])


def check_order(log: str) -> int:
    """How many links there are; AssertionError if one comes too early, or its directory is not synced in time."""
    synced: set[tuple[str, str]] = set()
    unsettled: set[str] = set()
    links = 0
    for event in events(log):
        if event.kind == "sync":
            synced.add((event.directory, event.name))
            unsettled.discard(f"{event.directory}/{event.name}")
            continue
        links += 1
        if (event.directory, event.name) not in synced:
            raise AssertionError(f"{event.new_name} got its name before it was synced")
        if event.new_name.startswith("snapshot-") and unsettled:
            raise AssertionError(f"{event.new_name} was published before {unsettled} were synced")
        unsettled.add(event.directory)
    if unsettled:
        raise AssertionError(f"{unsettled} were never synced")
    return links


def check_commits(script: str, engine: str) -> Tally:
    """All steps of a script."""
    tally = Tally()
    if not tracing.is_available():
        tally.skipped = "strace is not available"
        return tally
    with scratch() as root:
        for stage in stages(script, engine, root):
            with fresh(stage, root) as uri:
                log = Path(root / "calls")
                tracing.attached(start(stage, uri), ["-e", "trace=fsync,linkat"], log)
                links = tally.attempt(str(stage), partial(check_order, log.read_text()))
                tally.notes["links"] += links or 0
    return tally
