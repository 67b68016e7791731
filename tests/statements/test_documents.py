"""Every SQL example of the documents runs as it stands, and prints what its document shows.

Cells are compared as text without their padding: the documents align numbers to the left in one table and to the right
in another, and some of their borders are not as wide as the header. What differs beyond that is listed here.
"""

import pytest

from lsmerge.statements import Session
from tests.statements.documents import (
    Example,
    Shown,
    examples,
    from_drawing,
    shown_after,
    statements,
)

EXAMPLES = list(examples())

# By example: what the document shows, what is printed here, and why.
DIFFERENCES = {
    "fluss_aggregation: test_product": [
        ("amount", "discount_factor", "the document shows a header of another table"),
        ("0.72", "0.7200000000000001", "0.9 * 0.8 in binary floats, with all digits"),
    ],
}


def outputs(example: Example, warehouse: str) -> list[tuple[Shown | None, Shown | None]]:
    """What is shown and what is printed, for each statement that shows or prints something."""
    found = []
    with Session(warehouse) as session:
        for statement, result in zip(
            statements(example.text), session.run(example.text), strict=True
        ):
            printed = from_drawing(str(result)) if result.has_rows else None
            shown = shown_after(statement)
            if printed is not None or shown is not None:
                found.append((shown, printed))
    return found


def as_shown(printed: Shown, shown: Shown) -> Shown:
    """What was printed, in the form that the document chose."""
    if shown.header is not None:
        return printed
    # Values that are told in a comment have no header, and null in small letters.
    rows = [[cell.replace("NULL", "null") for cell in row] for row in printed.rows]
    return Shown(None, rows)


def with_differences(shown: Shown, example: Example) -> Shown:
    ours = {theirs: own for theirs, own, _ in DIFFERENCES.get(str(example), ())}
    return Shown(
        shown.header and [ours.get(cell, cell) for cell in shown.header],
        [[ours.get(cell, cell) for cell in row] for row in shown.rows],
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example(example, memory_uri):
    for shown, printed in outputs(example, memory_uri):
        if shown is None:
            continue
        assert printed is not None
        assert as_shown(printed, shown) == with_differences(shown, example)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_statements_without_rows_print_nothing(example, memory_uri):
    with Session(memory_uri) as session:
        for statement, result in zip(
            statements(example.text), session.run(example.text), strict=True
        ):
            is_query = statement.text.lstrip().upper().startswith("SELECT")
            assert bool(str(result)) == is_query


def test_the_examples_are_all_there():
    pages = {page: sum(e.page == page for e in EXAMPLES) for page in {e.page for e in EXAMPLES}}
    assert pages == {
        "fluss_aggregation": 16,
        "fluss_versioned": 1,
        "paimon_merge_engine": 4,
        "paimon_primary_key_table": 6,
    }
    shown = [shown_after(s) for e in EXAMPLES for s in statements(e.text)]
    # Three of the versioned page, eight of the Paimon pages, thirteen of the aggregation page.
    assert sum(output is not None for output in shown) == 24


def test_listed_differences_are_differences(memory_uri):
    for example in EXAMPLES:
        if str(example) in DIFFERENCES:
            warehouse = f"{memory_uri}-{example.title}"
            [(shown, printed)] = outputs(example, warehouse)
            assert shown != printed
            cells = {cell for row in [shown.header, *shown.rows] for cell in row}
            assert {theirs for theirs, _, _ in DIFFERENCES[str(example)]} <= cells
