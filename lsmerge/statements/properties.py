"""What stands in WITH (...), TBLPROPERTIES (...) and OPTIONS (...), and what of it is no option of a table.

Options go by the names of their documents and are checked by the table itself. A few words say what other clauses
say elsewhere: the key, a connector, the spelling of Hudi's and Fluss's own DDL.
"""

from dataclasses import dataclass

from lsmerge.statements.tokens import Words

_KEY_NAMES = (
    "primary-key",
    "primarykey",
    "hoodie.datasource.write.recordkey.field",
    "hoodie.table.recordkey.fields",
)
# Words of Hudi's and Fluss's DDL, and the option that each stands for.
_STANDS_FOR = {
    "precombinefield": "hoodie.datasource.write.precombine.field",
    "orderingfields": "hoodie.table.ordering.fields",
    "payloadclass": "hoodie.datasource.write.payload.class",
    "recordmergemode": "hoodie.write.record.merge.mode",
    "recordmergestrategyid": "hoodie.write.record.merge.strategy.id",
    "bucket.num": "bucket",
    "bucket.key": "bucket-key",
}
# What only chooses among systems or file layouts, of which there is one here.
_WITHOUT_MEANING = {
    "connector": ("lsmerge", "paimon", "fluss", "hudi"),
    "type": ("cow", "mor"),
}
PROVIDERS = ("lsmerge", "paimon", "fluss", "hudi")
# What the table is for, as Spark and Flink know it among the properties.
COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Properties:
    """Options of a table, and what of its definition the properties name: the key, the comment."""

    options: dict[str, str]
    primary_key: tuple[str, ...]
    comment: str | None = None


def read_properties(words: Words) -> dict[str, str]:
    """`('a' = 'b', c.d = 1)`, each name once."""
    found: dict[str, str] = {}

    def read() -> None:
        offset = words.offset
        name, value = read_setting(words)
        if name in found:
            raise words.statement.error(offset, f"{name!r} is given twice")
        found[name] = value

    words.in_parentheses(read)
    return found


def read_setting(words: Words) -> tuple[str, str]:
    """`'a' = 'b'`: a name and its value."""
    name = read_name(words)
    words.expect("=")
    return name, words.value(f"the value of {name!r}")


def read_name(words: Words) -> str:
    """`'a'` or `c.d-e`: a name, quoted or not."""
    name = words.value("an option")
    while sign := words.take_one_of(".", "-"):
        name += sign + words.value("an option")
    return name


def read_names(words: Words) -> list[str]:
    """`('a', c.d)`: names without values."""
    return words.in_parentheses(lambda: read_name(words))


def sorted_out(words: Words, properties: dict[str, str]) -> Properties:
    """Options apart from the key; what has no meaning here is left out."""
    options: dict[str, str] = {}
    key: tuple[str, ...] = ()
    comment = None
    for name, value in properties.items():
        lower = name.lower()
        if lower in _KEY_NAMES:
            key = tuple(part.strip() for part in value.split(","))
        elif lower == COMMENT:
            comment = value
        elif lower == "path":
            raise words.statement.error(
                0, f"'path' = {value!r}: tables lie in the warehouse of the session; leave it out"
            )
        elif value.lower() not in _WITHOUT_MEANING.get(lower, ()):
            options[_STANDS_FOR.get(lower, name)] = value
    return Properties(options, key, comment)
