"""Directories that are watched: whatever comes or goes is seen."""

import os
import subprocess
import sys

import pytest

from lsmerge_native.watch import DirectoryEvents, DirectoryWatch

LONG = 10**9


def watch(*directories, max_age_ms=LONG, guard_ms=0, events=None):
    handles = [os.open(directory, os.O_RDONLY | os.O_DIRECTORY) for directory in directories]
    return DirectoryWatch(handles, max_age_ms, guard_ms, events)


@pytest.fixture
def events(pair):
    """Events of a kernel that tells of changes where the tests write."""
    try:
        made = DirectoryEvents()
    except OSError:
        pytest.skip("the system tells of no changes of directories")
    if not watch(*pair, events=made).hears:
        pytest.skip("the system tells of no changes on this file system")
    return made


@pytest.fixture
def pair(tmp_path):
    """Two directories that were changed before the clock of their file system ticked last."""
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "there").touch()
    tick(tmp_path, tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def tick(root, *directories):
    changed = max(directory.stat().st_ctime_ns for directory in directories)
    probe = root / "probe"
    probe.touch()
    while probe.stat().st_ctime_ns <= changed:
        os.utime(probe)


CHANGES = {
    "new": lambda a, b: (b / "new").touch(),
    "gone": lambda a, b: (a / "there").unlink(),
    "renamed": lambda a, b: (a / "there").rename(a / "here"),
    "moved in": lambda a, b: (a / "there").rename(b / "here"),
    "linked": lambda a, b: os.link(a / "there", a / "here"),
    "and its time put back": lambda a, b: (
        (b / "new").touch(),
        os.utime(b, ns=(0, 0)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("by", ["times", "events"])
def test_changes_are_seen(pair, change, by, request):
    begun = watch(*pair, events=request.getfixturevalue("events") if by == "events" else None)
    assert (begun.is_settled, begun.hears) == (True, by == "events")
    assert begun.is_unchanged()
    assert begun.is_unchanged()
    CHANGES[change](*pair)
    assert not begun.is_unchanged()


def test_a_change_is_seen_by_all_watches_that_began_before(pair, events):
    first = watch(*pair, events=events)
    (pair[0] / "new").touch()
    second = watch(*pair, events=events)
    assert [first.is_unchanged(), second.is_unchanged()] == [False, True]
    (pair[1] / "new").touch()
    assert [second.is_unchanged(), first.is_unchanged()] == [False, False]
    assert watch(*pair, events=events).is_unchanged()
    assert events.told == 2


def test_a_directory_that_moves_is_noticed(pair, events):
    begun = watch(*pair, events=events)
    pair[1].rename(pair[1].parent / "c")
    assert not begun.is_unchanged()


def test_events_vouch_for_what_was_changed_just_now(pair, events):
    (pair[0] / "new").touch()
    begun = watch(*pair, guard_ms=LONG, events=events)
    assert (begun.is_settled, begun.is_unchanged()) == (True, True)
    (pair[0] / "newer").touch()
    assert not begun.is_unchanged()


def test_more_changes_than_the_queue_takes_at_once(pair, events):
    begun = watch(*pair, events=events)
    for number in range(300):
        (pair[0] / f"{number}-{'x' * 50}").touch()
    assert not begun.is_unchanged()
    assert watch(*pair, events=events).is_unchanged()


def test_file_systems_that_others_may_change_are_judged_by_their_times(events):
    begun = watch("/proc", events=events)
    assert not begun.hears


def test_queues_are_few():
    with pytest.raises(OSError, match="tells of no changes"):
        _ = [DirectoryEvents() for _ in range(17)]


FORK = """
import os, sys
from lsmerge_native.watch import DirectoryEvents, DirectoryWatch
directory = sys.argv[1]
def watch(events):
    return DirectoryWatch([os.open(directory, os.O_RDONLY)], 10**9, 0, events)
events = DirectoryEvents()
begun = watch(events)
assert begun.hears and begun.is_unchanged() and events.is_own
child = os.fork()
if child == 0:
    open(directory + "/new", "w").close()
    # The queue is its parent's, so that it can neither look nor vouch.
    ok = not begun.is_unchanged() and not events.is_own and not watch(events).hears
    ok = ok and watch(DirectoryEvents()).hears
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not begun.is_unchanged()
"""


def test_a_forked_process_takes_nothing_away(pair, events):
    subprocess.run([sys.executable, "-c", FORK, str(pair[0])], check=True)


def test_what_was_changed_just_now_is_not_vouched_for(pair):
    begun = watch(*pair, guard_ms=LONG)
    assert (begun.is_settled, begun.is_unchanged()) == (False, False)


def test_it_vouches_for_a_while(pair):
    begun = watch(*pair, max_age_ms=0)
    assert (begun.is_settled, begun.is_unchanged()) == (True, False)


def test_handles_are_closed_with_it(pair):
    handles = [os.open(directory, os.O_RDONLY) for directory in pair]
    begun = DirectoryWatch(handles, LONG, 0)
    os.fstat(handles[0])
    del begun
    for handle in handles:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handle)


def test_who_hears_needs_no_handles(pair, events):
    handles = [os.open(directory, os.O_RDONLY) for directory in pair]
    begun = DirectoryWatch(handles, LONG, 0, events)
    for handle in handles:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handle)
    assert begun.is_unchanged()


def test_handles_that_are_none(pair):
    with pytest.raises(OSError, match="status of a directory"):
        DirectoryWatch([os.open(pair[0], os.O_RDONLY), 1_000_000], LONG, 0)
    handles = [os.open(pair[0], os.O_RDONLY) for _ in range(5)]
    with pytest.raises(ValueError, match="5 directories"):
        DirectoryWatch(handles, LONG, 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])
