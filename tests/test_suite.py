"""What the suite says about itself is so: units that begin, searches that the reliability programme repeats."""

from pathlib import Path

from tests.distribution import FIRST, unit_of
from tests.searches import SEARCHES

ROOT = Path(__file__).parent.parent


def test_what_begins_is_there():
    for unit in FIRST:
        path, _, test = unit.partition("::")
        assert (ROOT / path).exists(), unit
        assert not test or f"def {test}(" in (ROOT / path).read_text(), unit


def test_a_test_belongs_to_its_file_or_to_what_is_named():
    assert unit_of("tests/test_alter.py::test_x[a/b::c]") == "tests/test_alter.py"
    assert unit_of("tests/spark/test_read.py::test_x") == "tests/spark/"
    assert unit_of("tests/spark/test_connect.py::test_x") == "tests/spark/test_connect.py"


def test_every_search_is_repeated_at_length():
    files = (ROOT / "tests").rglob("test_*.py")
    found = [
        file for file in files if "\nfrom tests.searches import examples\n" in file.read_text()
    ]
    assert sorted(str(file.relative_to(ROOT)) for file in found) == sorted(SEARCHES)
