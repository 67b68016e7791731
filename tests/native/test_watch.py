"""Directories that are watched: whatever comes or goes is seen."""

import os

import pytest

from lsmerge_native.watch import DirectoryWatch

LONG = 10**9


def watch(*directories, max_age_ms=LONG, guard_ms=0):
    handles = [os.open(directory, os.O_RDONLY | os.O_DIRECTORY) for directory in directories]
    return DirectoryWatch(handles, max_age_ms, guard_ms)


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
def test_changes_are_seen(pair, change):
    begun = watch(*pair)
    assert begun.is_settled
    assert begun.is_unchanged()
    assert begun.is_unchanged()
    CHANGES[change](*pair)
    assert not begun.is_unchanged()


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


def test_handles_that_are_none(pair):
    with pytest.raises(OSError, match="status of a directory"):
        DirectoryWatch([os.open(pair[0], os.O_RDONLY), 1_000_000], LONG, 0)
    handles = [os.open(pair[0], os.O_RDONLY) for _ in range(5)]
    with pytest.raises(ValueError, match="5 directories"):
        DirectoryWatch(handles, LONG, 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handles[0])
