"""The page on SQL: its Python runs, its SQL prints what it shows; and the examples of docstrings."""

import doctest
import re

import pytest

import lsmerge.statements.session
from tests.statements.documents import Example, from_drawing, shown_after, statements
from tests.test_docs import FENCE, ROOT

PAGE = (ROOT / "docs" / "sql.md").read_text()
SQL_FENCE = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_python():
    exec(compile("\n".join(FENCE.findall(PAGE)), "sql.md", "exec"), {})


def test_sql(session):
    example = Example("sql.md", "page", "\n".join(SQL_FENCE.findall(PAGE)))
    found = zip(statements(example.text), session.run(example.text), strict=True)
    drawn = [(shown_after(s), result) for s, result in found if result.has_rows]
    assert len(drawn) == 7
    for shown, result in drawn:
        assert from_drawing(str(result)) == shown


@pytest.mark.parametrize("module", [lsmerge.statements, lsmerge.statements.session])
def test_docstrings(module):
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
