"""Ways out that tables name in words of Python, in those of the command line and of SQL.

Tables do not know who uses them, so their messages speak of methods and arguments. Whoever shows a message elsewhere
says here what the same is called there.
"""

import re
from typing import NamedTuple


class _Phrase(NamedTuple):
    python: re.Pattern[str]
    command_line: str
    sql: str


def for_command_line(message: str) -> str:
    """The message with commands and options of `lsmerge`."""
    for phrase in _PHRASES:
        message = phrase.python.sub(phrase.command_line, message)
    return message


def for_sql(message: str) -> str:
    """The message with statements and clauses."""
    for phrase in _PHRASES:
        message = phrase.python.sub(phrase.sql, message)
    return message


def _phrase(python: str, command_line: str, sql: str) -> _Phrase:
    return _Phrase(re.compile(python), command_line, sql)


_PHRASES = (
    _phrase(
        r"docs/options\.md lists them all, and docs/coming-from-paimon\.md, -fluss\.md and -hudi\.md say .*? not here",
        "`lsmerge options` lists them all",
        "`lsmerge options` lists them all",
    ),
    _phrase(
        r"open it with open_table, or pass exist_ok=True",
        "--if-not-exists is content with one of the same definition",
        "IF NOT EXISTS is content with it",
    ),
    _phrase(
        r"ask for the same, or open it with open_table",
        "ask for the same, or use it as it is",
        "ask for the same, or use it as it is",
    ),
    _phrase(
        r"create one with create_table", "`lsmerge create` makes one", "CREATE TABLE makes one"
    ),
    _phrase(
        r"call compact\(full=True\) first",
        "run `lsmerge compact --full` first",
        "run `lsmerge compact --full` first",
    ),
    _phrase(r"\brescale\(\)", "`lsmerge rescale`", "`lsmerge rescale`"),
    _phrase(
        r"drop_partition and write instead",
        "ALTER TABLE ... DROP PARTITION of `lsmerge sql`, then write",
        "ALTER TABLE ... DROP PARTITION, then INSERT",
    ),
    _phrase(
        r"\bdelete\(\) takes keys to delete; use write\(\) for",
        "`lsmerge delete` takes keys to delete; `lsmerge write` is for",
        "DELETE takes keys to delete; INSERT is for",
    ),
    _phrase(r"scan\(\)\.count\(\) tells", "--count tells", "count(*) tells"),
    _phrase(
        r"through options=\{'([^']+)': \.\.\.\}",
        r"through -o \1=VALUE",
        r"through SET ('\1' = '...')",
    ),
    _phrase(r"\balter\(widen=\.\.\.\)", "`lsmerge alter --widen`", "ALTER TABLE ... MODIFY"),
    _phrase(
        r"snapshot = .*?, tag = .*?, timestamp = .*?: give one of them",
        "--snapshot, --tag and --at: give one of them",
        "the snapshot is named twice: give one of number, tag and time",
    ),
    _phrase(
        r"give a datetime with a time zone, ISO text with an offset such as",
        "give a time with its offset such as",
        "give a time with its offset such as",
    ),
    _phrase(r"\btimestamp = ", "--at ", "time "),
    _phrase(r"\bolder_than = ", "--older-than ", r"\g<0>"),
    _phrase(r"\bretain_(max|min) = ", r"--retain-\1 ", r"\g<0>"),
    _phrase(r"\bcommit_user\b(?! =)", "--commit-user", "commit_user"),
    _phrase(
        r"\bcommit_user = (\S+) with commit_id = (\S+):",
        r"--commit-user \1 --commit-id \2:",
        r"\g<0>",
    ),
    _phrase(r"\bcommit_id = (\S+) of", r"--commit-id \1 of", r"\g<0>"),
    _phrase(r"\bcommit_id\b(?! =)", "--commit-id", "commit_id"),
    _phrase(r"\bstorage_options\b", "--storage-option", "storage_options"),
)
