"""What sqlglot and DuckDB say, in words of the statement: what is wrong, and the name or value that it is about.

They speak of their own classes, types and of streams that no user has named. Each pattern below says what is meant;
what none of them knows is passed on in one line, without the names that only we know.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lsmerge import LsmergeError
from lsmerge.statements.duckdb_types import users_type

Match = re.Match[str]


class Told(NamedTuple):
    """A message, and the name or value that it is about, which stands in the statement."""

    message: str
    about: str | None = None


# ----------------------------------------------------------------------------------------- sqlglot


def of_parser(description: str, met: str) -> str:
    """Why a statement cannot be read; `met` is the word at which, or behind which, it could not."""
    expected = re.fullmatch(r"Expect(?:ing|ed) (\S{1,2}|[A-Z ]+)\.?", description)
    if expected:
        return f"expected {expected[1]} at or behind {met!r}"
    if description.startswith("Expected table name"):
        return f"expected the name of a table behind {met!r}"
    if description.startswith("Required keyword"):
        return f"something is missing at or behind {met!r}"
    return f"{met!r} was not expected here"


# ------------------------------------------------------------------------------------------ DuckDB


def of_duckdb(text: str, known: Iterable[str]) -> Told:
    """What DuckDB says of a query; `known` are the columns of its tables."""
    for pattern, told in _PATTERNS:
        if found := pattern.search(text):
            return told(found)
    if found := _UNKNOWN_COLUMN.search(text):
        hint = f"; {LsmergeError.hint(found['name'], known)}" if known else ""
        return Told(f"unknown column {found['name']!r}{hint}", found["name"])
    line = _ERROR_KIND.sub("", text.strip().splitlines()[0])
    about = _QUOTED.search(line)
    return Told(_OWN_STREAM.sub("a table", line.rstrip(".")), about["name"] if about else None)


_UNKNOWN_COLUMN = re.compile(
    r'(?:Referenced column|does not have a column named) "(?P<name>[^"]+)"'
)
_QUOTED = re.compile(r"""['"](?P<name>[^'"]+)['"]""")
_ERROR_KIND = re.compile(r"^[A-Z][A-Za-z ]+ Error: ")
_OWN_STREAM = re.compile(r'"?lsmerge_\d+"?(?: AS "[^"]*")?')


def _unknown_function(found: Match) -> Told:
    hint = f"; did you mean {found['near']!r}?" if found["near"] else ""
    return Told(f"unknown function {found['name']!r}{hint}", found["name"])


def _unfit_arguments(found: Match) -> Told:
    name, arguments = found["name"], users_type(found["arguments"])
    return Told(f"{name!r} does not take ({arguments}); a CAST makes them fit", name)


def _not_of_type(found: Match) -> Told:
    column = f" of column {found['column']!r}" if found["column"] else ""
    # DuckDB names the number that it keeps a timestamp as; what it underlines says what was asked for.
    wanted = "TIMESTAMP" if "AS TIMESTAMP" in _underlined(found.string) else found["type"]
    message = f"{found['value']!r}{column} cannot be read as {users_type(wanted)}"
    return Told(message, found["value"])


def _underlined(text: str) -> str:
    """The part of its query that DuckDB shows as the culprit."""
    *_, query, marks = "", "", *text.splitlines()
    return query[marks.find("^") : marks.rfind("^") + 1]


def _out_of_range(found: Match) -> Told:
    return Told(f"{found['value']} is out of range for {users_type(found['type'])}", found["value"])


def _no_moment(found: Match) -> Told:
    return Told(f"{found['value']!r} is no {found['kind']}", found["value"])


def _unexpected(found: Match) -> Told:
    word = found["word"].split()[0]
    return Told(f"{word!r} was not expected here, or something is missing behind it", word)


def _two_sources(found: Match) -> Told:
    name = found["name"]
    return Told(f"two tables of the query are called {name!r}; give one another name with AS", name)


def _not_grouped(found: Match) -> Told:
    name = found["name"]
    return Told(f"column {name!r} is neither in GROUP BY nor inside an aggregate function", name)


def _rule(
    pattern: str, told: Callable[[Match], Told]
) -> tuple[re.Pattern[str], Callable[..., Told]]:
    return re.compile(pattern, re.DOTALL), told


_PATTERNS = (
    _rule(
        r'Referenced table "(?P<name>[^"]+)" not found',
        lambda found: Told(f"no table of the query is called {found['name']!r}", found["name"]),
    ),
    _rule(
        r'[Ff]unction with name "?(?P<name>\w+)"? does not exist!(?:.*?Did you mean "(?P<near>[^"]+)")?',
        _unknown_function,
    ),
    _rule(
        r"No function matches the given name and argument types '(?P<name>[^(']+)\((?P<arguments>[^']*)\)'",
        _unfit_arguments,
    ),
    _rule(
        r"Could not convert string '(?P<value>.*?)' to (?P<type>\w+)"
        r"(?: when casting from source column (?P<column>\w+))?",
        _not_of_type,
    ),
    _rule(
        r"Type \w+ with value (?P<value>\S+) can't be cast .*destination type (?P<type>\w+)",
        _out_of_range,
    ),
    _rule(
        r'(?:invalid )?(?P<kind>date|time|timestamp) field (?:format|value out of range): "(?P<value>[^"]*)"',
        _no_moment,
    ),
    _rule(r'syntax error at or near "(?P<word>[^"]+)', _unexpected),
    _rule(r'Ambiguous reference to table "(?P<name>[^"]+)"', _two_sources),
    _rule(r'column "(?P<name>[^"]+)" must appear in the GROUP BY', _not_grouped),
    _rule(r"SELECT clause without selection list", lambda _: Told("SELECT names no columns")),
    _rule(
        r"ORDER term out of range - should be between 1 and (?P<last>\d+)",
        lambda found: Told(f"ORDER BY takes numbers of columns from 1 to {found['last']}"),
    ),
    _rule(
        r"VALUES lists must all be the same length",
        lambda _: Told("rows of VALUES must have the same number of values"),
    ),
)
