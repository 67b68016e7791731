"""K3 and X6, the fast part: processes killed at random while they write, compact, expire and read."""

from tests.long import load


def test_random_kills_lose_and_double_nothing():
    tally = load.kill_at_random(kills=16, seed=1)
    assert tally.violations == []
    assert tally.notes["acknowledged"] > 0
    assert tally.notes["read"] > 0
