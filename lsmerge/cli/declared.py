"""Columns as SQL declares them: `id BIGINT NOT NULL, name STRING, tags ARRAY<STRING>`."""

import re
from collections.abc import Iterator

import click
import pyarrow as pa

import lsmerge

_COLUMN = re.compile(
    r"""\s*(?:`(?P<ticks>(?:[^`]|``)+)`|"(?P<quotes>(?:[^"]|"")+)"|(?P<plain>[^\s`"]+))\s+(?P<type>.+?)\s*""",
    re.DOTALL,
)
_NULLABILITY = re.compile(r"^(.*?)\s+(not\s+null|null)$", re.IGNORECASE | re.DOTALL)


def declared(text: str) -> pa.Schema:
    """The columns of a list of them."""
    return pa.schema([_field(part) for part in _parts(text)])


def _field(text: str) -> pa.Field:
    """One column: `name TYPE [NOT NULL]`; a name of several words goes into backticks or double quotes."""
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise click.UsageError(
            f"column {text.strip()!r}: write a name and a type, as in 'id BIGINT'."
        )
    nullability = _NULLABILITY.match(match["type"])
    name = _name(match)
    if nullability is None:
        return lsmerge.arrow_field(name, match["type"])
    is_null = nullability[2].lower() == "null"
    return lsmerge.arrow_field(name, nullability[1], is_null)


def _name(match: re.Match[str]) -> str:
    for group, mark in (("ticks", "`"), ("quotes", '"')):
        if match[group]:
            return match[group].replace(mark * 2, mark)
    return match["plain"]


def _parts(text: str) -> Iterator[str]:
    """What stands between commas that are in no brackets and no quotes."""
    depth, quote, start = 0, "", 0
    for position, character in enumerate(text):
        if character in '`"' and quote in ("", character):
            quote = "" if quote else character
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0 and not quote:
            yield text[start:position]
            start = position + 1
    yield text[start:]
