"""K1, K6, K7, the fast part: a few of the kills and failures of system calls that tests/long makes at every one.

Needs strace (apt install strace), and leave to attach it.
"""

import pytest

from tests.long import faults, kills, order, tracing

needs_strace = pytest.mark.skipif(not tracing.is_available(), reason="strace is not available")


def is_clean(tally):
    assert tally.violations == []
    return tally.tried


@needs_strace
def test_a_kill_at_a_system_call_loses_nothing():
    tally = kills.kill_at_syscalls("life", "aggregation", every=251)
    assert is_clean(tally) > 5
    assert tally.notes["killed"] > 5


@needs_strace
def test_a_failing_system_call_loses_and_leaks_nothing():
    tally = faults.fail_syscalls("life", "deduplicate", every=127)
    assert is_clean(tally) > 5
    assert tally.notes["refused"] > 0


def test_too_few_descriptors_are_told_and_lose_nothing():
    assert is_clean(faults.limited("life", "deduplicate", "descriptors", every=9)) > 11


def test_a_file_that_may_not_grow_is_told_and_loses_nothing():
    assert is_clean(faults.limited("life", "first-row", "file size", every=50_000)) > 11


@needs_strace
def test_files_and_names_are_synced_before_the_snapshot_that_leads_to_them():
    tally = order.check_commits("life", "deduplicate")
    assert is_clean(tally) == 11
    assert tally.notes["links"] > 20


def test_a_log_out_of_order_is_seen():
    link = 'linkat(5</t/bucket-0>, ".tmp-1", 5</t/bucket-0>, "data-1", 0) = 0'
    for log in (link, f"fsync(6</t/bucket-0/.tmp-1>) = 0\n{link}"):
        with pytest.raises(AssertionError):
            order.check_order(log)
