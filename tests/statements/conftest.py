"""A session on a warehouse of its own for each test."""

import pytest

from lsmerge.statements import Session


@pytest.fixture
def session(memory_uri):
    with Session(memory_uri) as opened:
        yield opened


@pytest.fixture
def rows(session):
    """The rows of a query as tuples."""

    def run(text):
        table = session.sql(text).to_arrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    return run
