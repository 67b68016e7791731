"""Options that would do nothing in a new table, or that contradict each other: they are refused.

What is stored already is not asked: a table that was created once can be opened for ever.
"""

from collections.abc import Mapping

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import split_option
from lsmerge.schema import TableSchema

_COMBINING = frozenset({"aggregation", "partial-update"})
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_ENGINES_OF = {
    _DEFAULT_FUNCTION: _COMBINING,
    "merge-engine.versioned.ver-column": frozenset({"versioned"}),
    "aggregation.remove-record-on-delete": frozenset({"aggregation"}),
    "partial-update.remove-record-on-delete": frozenset({"partial-update"}),
    "partial-update.remove-record-on-sequence-group": frozenset({"partial-update"}),
}
_OF_EVERY_ENGINE = "default-value"
_ENGINES_OF_COLUMN = {"sequence-group": frozenset({"partial-update"})}


def check_engine_options(schema: TableSchema) -> None:
    """Refuse the options of a new table that nothing would look at."""
    _check_engine(schema.options)
    _check_deletes(schema.options)
    _check_sequence(schema)


def _check_engine(options: Mapping[str, str]) -> None:
    engine = options.get("merge-engine", "deduplicate")
    for name, value in options.items():
        engines = _engines_of(name)
        if engines is not None and engine not in engines and value != "false":
            raise InvalidOptionError(
                f"option {name!r} = {value!r} does nothing with merge-engine = {engine}; leave it out, or "
                f"choose merge-engine = {' or '.join(sorted(engines))}"
            )
    grouped = any(_property_of(name) == "sequence-group" for name in options)
    if engine == "partial-update" and _DEFAULT_FUNCTION in options and not grouped:
        raise InvalidOptionError(
            f"option {_DEFAULT_FUNCTION!r} does nothing in a partial-update table without sequence groups; leave it "
            "out, or define one with fields.<column>.sequence-group"
        )


def _check_deletes(options: Mapping[str, str]) -> None:
    behavior = options.get("delete.behavior", "ignore")
    if options.get("ignore-delete") == "true" and behavior != "ignore":
        raise InvalidOptionError(
            f"option 'ignore-delete' = 'true' contradicts 'delete.behavior' = {behavior!r}; give one of them"
        )


def _check_sequence(schema: TableSchema) -> None:
    fields = schema.options.get("sequence.field")
    if fields is None:
        if "sequence.field.sort-order" in schema.options:
            raise InvalidOptionError(
                "option 'sequence.field.sort-order' does nothing without 'sequence.field'; name the columns too"
            )
        return
    for name in (field.strip() for field in fields.split(",")):
        if name in schema.primary_key:
            raise InvalidOptionError(
                f"option 'sequence.field' = {name!r}: a primary key column is equal in all rows of a key and orders "
                "nothing; name another column"
            )


def _property_of(name: str) -> str | None:
    parts = split_option(name)
    return None if parts is None else parts[1]


def _engines_of(name: str) -> frozenset[str] | None:
    """The engines that look at an option, None if all do."""
    what = _property_of(name)
    if what is None:
        return _ENGINES_OF.get(name)
    return None if what == _OF_EVERY_ENGINE else _ENGINES_OF_COLUMN.get(what, _COMBINING)
