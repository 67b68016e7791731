"""Which snapshot a table in a query means: VERSION AS OF, TIMESTAMP AS OF, and Flink's OPTIONS hints.

t VERSION AS OF 3            t FOR SYSTEM_VERSION AS OF 'tag'
t TIMESTAMP AS OF '2024-01-31 12:00:00'       t FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-31 12:00:00'
t /*+ OPTIONS('scan.snapshot-id' = '3') */
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from lsmerge import LsmergeError
from lsmerge.statements.dialect import offset_of
from lsmerge.statements.properties import read_properties
from lsmerge.statements.script import Statement, statements
from lsmerge.statements.tokens import Words

_HINT = re.compile(r"OPTIONS\s*(?P<list>\(.*\))", re.IGNORECASE | re.DOTALL)
_SNAPSHOT, _TAG, _VERSION = "scan.snapshot-id", "scan.tag-name", "scan.version"
_TIMESTAMP, _MILLIS, _MODE = "scan.timestamp", "scan.timestamp-millis", "scan.mode"
_OPTIONS = (_SNAPSHOT, _TAG, _VERSION, _TIMESTAMP, _MILLIS, _MODE)
# What a batch query may say of its mode: the snapshot itself is named by another option.
_MODES = (
    "default",
    "latest",
    "latest-full",
    "full",
    "from-snapshot",
    "from-snapshot-full",
    "from-timestamp",
)

Travel = dict[str, Any]
Evaluate = Callable[[exp.Expr], Any]


def hints_of(statement: Statement) -> dict[int, dict[str, str]]:
    """The options of each OPTIONS hint, by where it begins; other hints are for other systems."""
    found = {}
    for offset, content in statement.hints():
        match = _HINT.fullmatch(content)
        if match is not None:
            [inner] = statements(match["list"])
            found[offset] = read_properties(Words(inner))
    return found


def travel(
    statement: Statement, node: exp.Table, hint: dict[str, str], zone: str, evaluate: Evaluate
) -> Travel:
    """The arguments of `Table.scan` that name the snapshot; none for the newest."""
    version = node.args.get("version")
    if version is not None:
        return _of_clause(statement, version, zone, evaluate)
    return _of_hint(statement, hint, offset_of(node), zone)


def moment(value: Any, zone: str) -> str:
    """A time as `Table.scan` takes it; one without a zone is meant in that of the session."""
    return _instant(value, zone).isoformat()


def _instant(value: Any, zone: str) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
    return datetime.fromtimestamp(value, UTC)


def _of_clause(statement: Statement, version: exp.Version, zone: str, evaluate: Evaluate) -> Travel:
    offset = offset_of(version)
    if version.args.get("kind") != "AS OF":
        raise statement.error(offset, f"{version.args.get('kind')} is not available; say AS OF")
    value = evaluate(version.expression)
    if version.name == "VERSION":
        return _of_version(value)
    try:
        return {"timestamp": moment(value, zone)}
    except (ValueError, TypeError, OverflowError) as error:
        raise _no_time(statement, offset, value) from error


def _of_version(value: Any) -> Travel:
    """A number is a snapshot, anything else a tag."""
    text = str(value)
    return {"snapshot": int(text)} if text.isdigit() else {"tag": text}


def _of_hint(statement: Statement, hint: dict[str, str], offset: int, zone: str) -> Travel:
    found: Travel = {}
    for name, value in hint.items():
        if name not in _OPTIONS:
            raise statement.error(
                offset, f"unknown option {name!r} of a read; {LsmergeError.hint(name, _OPTIONS)}"
            )
        try:
            found |= _of_option(name, value, zone)
        except (ValueError, OverflowError) as error:
            raise _no_time(statement, offset, value, name) from error
    return found


def _of_option(name: str, value: str, zone: str) -> Travel:
    if name == _SNAPSHOT:
        return {"snapshot": int(value)}
    if name == _TAG:
        return {"tag": value}
    if name == _VERSION:
        return _of_version(value)
    if name == _MILLIS:
        return {"timestamp": int(value)}
    if name == _MODE:
        if value not in _MODES:
            raise ValueError(value)
        return {}
    return {"timestamp": moment(value, zone)}


def _no_time(statement: Statement, offset: int, value: Any, name: str = "AS OF") -> Exception:
    if name == _MODE:
        reason = f"one of {', '.join(_MODES)}; changes are read from t$changelog"
    elif name in (_SNAPSHOT, _MILLIS):
        reason = "a whole number"
    else:
        reason = "a time such as '2024-01-31 12:00:00'"
    return statement.error(offset, f"{name} {value!r}: give {reason}")
