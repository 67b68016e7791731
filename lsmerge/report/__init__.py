"""A table on one page: its trees, what was done to it, and what that cost; uses public names of lsmerge only.

    html = lsmerge.report.to_html(table)

The page is one HTML document without scripts that asks for nothing else, however large the table: what there is much
of is summarised.

    figures.py   what is known of the table, read through its public methods: the only part that reads
    axis.py      keys as positions from left to right
    periods.py   history as a bounded number of periods
    markup.py    HTML with everything escaped
    drawing.py   strips and bars
    tree_view.py, timeline_view.py, tables.py, page.py   the page, from figures alone
"""

from lsmerge import Table
from lsmerge.report.figures import figures_of
from lsmerge.report.page import page

__all__ = ["to_html"]


def to_html(table: Table) -> str:
    """The report of a table as it is now.

    >>> import lsmerge, pyarrow as pa
    >>> from lsmerge.report import to_html
    >>> t = lsmerge.create_table("memory://report", pa.schema({"k": pa.int64()}), "k")
    >>> _ = t.upsert({"k": [1, 2, 3]})
    >>> to_html(t).startswith("<!doctype html>")
    True
    """
    return page(figures_of(table))
