"""C2, C3, C5, the fast part: some of the damages that tests/long does to every kind of file.

tests/test_bit_flips.py flips a bit of every byte.
"""

import pytest

from tests.long import damage


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
@pytest.mark.parametrize("kind", damage.KINDS)
def test_no_mangled_file_gives_a_wrong_answer(file_format, kind):
    tally = damage.mangle(file_format, kind, every=307)
    assert tally.violations == []
    assert tally.tried > 4


def test_a_misplaced_file_gives_no_wrong_answer():
    tally = damage.misplace("arrow")
    assert tally.violations == []
    assert tally.tried > 50


def test_verify_names_what_is_damaged():
    tally = damage.check_verify("parquet", every=293)
    assert tally.violations == []
    assert tally.tried > 50
