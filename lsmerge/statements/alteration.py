"""ALTER TABLE: from words to what `Table.alter` and `Table.drop_partition` take.

ADD [COLUMN] c type [FIRST | AFTER d] | ADD [COLUMNS] (c type, ...)
DROP [COLUMN] c | DROP [COLUMNS] (c, ...) | RENAME [COLUMN] c TO d
MODIFY c type ... | ALTER COLUMN c {TYPE type | DROP NOT NULL | COMMENT '...' | FIRST | AFTER d}
SET (...) | SET TBLPROPERTIES (...) | RESET (...) | UNSET TBLPROPERTIES (...) | DROP PARTITION (c = value, ...)
COMMENT '...'
"""

from dataclasses import dataclass, field
from typing import Any

from lsmerge.statements.definition import read_column
from lsmerge.statements.properties import COMMENT, read_names, read_properties, sorted_out
from lsmerge.statements.tokens import Name, Words


@dataclass
class Alteration:
    """Changes of one table: arguments of `Table.alter`, or partitions to drop."""

    name: Name
    changes: dict[str, Any] = field(default_factory=dict)
    partitions: list[dict[str, str]] = field(default_factory=list)
    if_exists: bool = False

    def put(self, what: str, column: str, value: object) -> None:
        """Add to one of the arguments that map columns to something."""
        self.changes.setdefault(what, {})[column] = value

    def add_to(self, what: str, names: list[str]) -> None:
        """Add to one of the arguments that list names."""
        self.changes.setdefault(what, []).extend(names)


def read_alter(words: Words) -> Alteration:
    """The alteration that follows ALTER."""
    words.expect("TABLE")
    if_exists = words.take("IF", "EXISTS")
    alteration = Alteration(words.name("a table"), if_exists=if_exists)
    action = words.take_one_of(
        "ADD", "DROP", "RENAME", "MODIFY", "ALTER", "CHANGE", "SET", "RESET", "UNSET", "COMMENT"
    )
    if action is None:
        words.refuse("expected ADD, DROP, RENAME, MODIFY, ALTER COLUMN, SET, RESET or COMMENT")
    _ACTIONS[action](words, alteration)
    words.expect_end()
    return alteration


def _add(words: Words, alteration: Alteration) -> None:
    words.take("COLUMNS") or words.take("COLUMN")
    if words.take("("):
        words.back()
        words.in_parentheses(lambda: _added(words, alteration))
    else:
        _added(words, alteration)


def _added(words: Words, alteration: Alteration) -> None:
    column = read_column(words)
    alteration.put("add", column.name, column.field)
    _moved(words, alteration, column.name)


def _drop(words: Words, alteration: Alteration) -> None:
    if words.take("PARTITION") or words.take("IF", "EXISTS", "PARTITION"):
        alteration.partitions.append(read_properties(words))
        while words.take(",", "PARTITION") or words.take("PARTITION"):
            alteration.partitions.append(read_properties(words))
        return
    words.take("COLUMNS") or words.take("COLUMN")
    if words.take("("):
        words.back()
        names = words.in_parentheses(lambda: words.name("a column").text)
    else:
        names = [words.name("a column").text]
    alteration.add_to("drop", names)


def _rename(words: Words, alteration: Alteration) -> None:
    if words.take("TO"):
        words.deny(
            "RENAME TO is not available: a table is named by its directory; move that while nobody uses it"
        )
    words.take("COLUMN")
    old = words.name("a column").text
    words.expect("TO")
    alteration.put("rename", old, words.name("a column").text)


def _modify(words: Words, alteration: Alteration) -> None:
    """MODIFY c type [NOT NULL] [COMMENT '...'] [FIRST | AFTER d], or several in parentheses."""
    words.take("COLUMN")
    if words.take("("):
        words.back()
        words.in_parentheses(lambda: _modified(words, alteration))
    else:
        _modified(words, alteration)


def _modified(words: Words, alteration: Alteration) -> None:
    column = read_column(words)
    alteration.put("widen", column.name, column.type)
    if column.comment is not None:
        alteration.put("comments", column.name, column.comment)
    _moved(words, alteration, column.name)


def _alter_column(words: Words, alteration: Alteration) -> None:
    words.take("COLUMN")
    name = words.name("a column").text
    if words.take("DROP", "NOT", "NULL"):
        alteration.add_to("nullable", [name])
    elif words.take("TYPE") or words.take("SET", "DATA", "TYPE"):
        alteration.put("widen", name, words.type_text())
    elif words.take("COMMENT"):
        alteration.put("comments", name, words.text("a comment"))
    elif words.take("SET", "NOT", "NULL"):
        words.deny("SET NOT NULL is not available: rows that are there may hold nulls")
    elif not _moved(words, alteration, name):
        words.refuse("expected TYPE, DROP NOT NULL, COMMENT, FIRST or AFTER")


def _moved(words: Words, alteration: Alteration, name: str) -> bool:
    if words.take("FIRST"):
        alteration.put("move", name, "first")
    elif words.take("AFTER"):
        alteration.put("move", name, f"after:{words.name('a column').text}")
    else:
        return False
    return True


def _set(words: Words, alteration: Alteration) -> None:
    words.take("TBLPROPERTIES")
    properties = sorted_out(words, read_properties(words))
    if properties.primary_key:
        words.deny("the primary key of a table cannot be changed; make a new table")
    alteration.changes["options"] = properties.options
    if properties.comment is not None:
        alteration.changes["comment"] = properties.comment


def _reset(words: Words, alteration: Alteration) -> None:
    words.take("TBLPROPERTIES")
    words.take("IF", "EXISTS")
    names = read_names(words)
    if any(name.lower() == COMMENT for name in names):
        alteration.changes["comment"] = ""
    alteration.add_to("reset", [name for name in names if name.lower() != COMMENT])


def _comment(words: Words, alteration: Alteration) -> None:
    alteration.changes["comment"] = words.text("a comment")


_ACTIONS = {
    "ADD": _add,
    "DROP": _drop,
    "RENAME": _rename,
    "MODIFY": _modify,
    "ALTER": _alter_column,
    "CHANGE": _alter_column,
    "COMMENT": _comment,
    "SET": _set,
    "RESET": _reset,
    "UNSET": _reset,
}
