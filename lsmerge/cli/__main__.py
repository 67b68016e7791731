"""`python -m lsmerge.cli` is `lsmerge`."""

from lsmerge.cli.entry import run

run()
