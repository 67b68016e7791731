"""The SQL that users of Flink and Spark write, read by sqlglot and handed to DuckDB.

Identifiers stand in backquotes or double quotes, text in single ones. ROW is a type and a constructor, arrays count
from 1, and names may hold a dollar sign, as those of system tables do.
"""

from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.hive import Hive
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lsmerge.statements.script import Statement
from lsmerge.statements.wording import of_parser

# What these mean is the same in Flink and Spark, and another spelling in DuckDB.
_SHARED_FUNCTIONS = (
    "COLLECT_LIST",
    "COLLECT_SET",
    "DATE_FORMAT",
    "FROM_UNIXTIME",
    "GET_JSON_OBJECT",
    "SIZE",
)


class UsersSQL(Dialect):
    """The union of the dialects that the documents use."""

    INDEX_OFFSET = 1
    TIME_MAPPING = Hive.TIME_MAPPING

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        COMMANDS: ClassVar[set[TokenType]] = set()
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **tokens.Tokenizer.KEYWORDS,
            "BYTES": TokenType.VARBINARY,
            "ROW": TokenType.STRUCT,
        }

    class Parser(parser.Parser):
        VERSION_PHRASES: ClassVar[dict[tuple[str, ...], str]] = {
            **parser.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
        }
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            **parser.Parser.FUNCTIONS,
            **{
                name: Hive.Parser.FUNCTIONS[name]
                for name in _SHARED_FUNCTIONS
                if name in Hive.Parser.FUNCTIONS
            },
        }


def tokens_of(statement: Statement) -> list[Token]:
    """The tokens of a statement."""
    if statement.unclosed is not None:
        offset = statement.unclosed - statement.start
        opened = "/*" if statement.text.startswith("/*", offset) else statement.text[offset]
        raise statement.error(offset, f"{opened} is never closed")
    try:
        return UsersSQL().tokenize(statement.text)
    except TokenError as error:
        raise statement.error(
            0, "a number, a quote or a sign of the statement cannot be read"
        ) from error


def parsed(statement: Statement) -> exp.Expr:
    """The syntax tree of a statement."""
    found = tokens_of(statement)
    reader = UsersSQL().parser(error_level=ErrorLevel.IMMEDIATE)
    try:
        [tree] = reader.parse(found, statement.text)
    except ParseError as error:
        raise _located(statement, error) from error
    except RecursionError:
        raise statement.error(0, "is nested too deeply; write it with fewer brackets") from None
    if tree is None or isinstance(tree, exp.Command):
        raise statement.error(0, f"cannot be read: {statement.text[:60]!r}")
    return tree


def duckdb_sql(tree: exp.Expr) -> str:
    """What DuckDB is asked. The tree is used up."""
    # What DuckDB does not know it says itself, better than a warning in a log.
    return DuckDB().generate(tree, copy=False, comments=False, unsupported_level=ErrorLevel.IGNORE)


def offset_of(node: exp.Expr) -> int:
    """Where a node begins in its statement; what was not written by the user begins where the statement does."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=0)


def _located(statement: Statement, error: ParseError) -> Exception:
    if not error.errors:
        return statement.error(0, "cannot be read")
    first = error.errors[0]
    lines = statement.text.splitlines(keepends=True)
    offset = sum(len(line) for line in lines[: first["line"] - 1]) + first["col"]
    met = first["highlight"] or ""
    return statement.error(max(0, offset - len(met)), of_parser(first["description"], met))
