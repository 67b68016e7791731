"""Options of single columns, `fields.<column>.<what>`, as one frozen value per column."""

from collections.abc import Mapping
from dataclasses import dataclass

from lsmerge.errors import InvalidOptionError
from lsmerge.schema import TableSchema, unknown_name

_PREFIX = "fields."
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_FUNCTION_ALIASES = {
    "last_value_ignore_nulls": "last_non_null_value",
    "first_not_null_value": "first_non_null_value",
    "first_value_ignore_nulls": "first_non_null_value",
    "string_agg": "listagg",
}
# Those of merge/functions.py, which layers below it may not ask.
FUNCTION_NAMES = frozenset(
    {
        *("last_value", "last_non_null_value", "first_value", "first_non_null_value", "max", "min"),
        *("bool_or", "bool_and", "sum", "product", "count", "listagg", "collect", "merge_map"),
        *("merge_map_with_keytime", "nested_update", "nested_partial_update", "rbm32", "rbm64"),
        *("hll_sketch", "theta_sketch"),
    }
)
_OF_SOME = (
    "distinct",
    "nested-key",
    "nested-sequence-field",
    "nested-key-null-strategy",
    "count-limit",
    "ts-field",
    "on-overflow",
    "listagg.delimiter",
    "string_agg.delimiter",
)


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """How values of one column are combined."""

    function: str | None = None
    delimiter: str = ","
    distinct: bool = False
    ignore_retract: bool = False
    on_overflow: str = "error"
    nested_key: tuple[str, ...] = ()
    nested_sequence: tuple[str, ...] = ()
    nested_key_nulls: str = "merge"
    count_limit: int | None = None
    ts_field: str | None = None
    given: frozenset[str] = frozenset()  # those of the options above that only some functions read


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns whose values are ordered by others than the table's rows."""

    order: tuple[str, ...]
    members: tuple[str, ...]


def field_options(schema: TableSchema) -> dict[str, FieldOptions]:
    """The options of every column."""
    given: dict[str, dict[str, str]] = {name: {} for name in schema.column_names}
    for column, what, value in _given(schema.options):
        if what == "sequence-group":
            continue
        if column not in given:
            reason = unknown_name("column", column, schema.column_names)
            raise InvalidOptionError(f"option 'fields.{column}.{what}': {reason}")
        given[column][what] = value
    return {column: _field(values) for column, values in given.items()}


def sequence_groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    """The sequence groups of a table, checked against its columns."""
    groups = tuple(
        SequenceGroup(_names(order), _names(members))
        for order, what, members in _given(schema.options)
        if what == "sequence-group"
    )
    _check_groups(schema, groups)
    return groups


def canonical_function(name: str) -> str:
    """The one name of a function that has several spellings."""
    plain = name.strip().lower().replace("-", "_")
    return _FUNCTION_ALIASES.get(plain, plain)


def default_function(options: Mapping[str, str]) -> str | None:
    """The function of columns without one of their own."""
    name = options.get(_DEFAULT_FUNCTION)
    return None if name is None else canonical_function(name)


def default_texts(options: Mapping[str, str]) -> dict[str, str]:
    """The default value of each column that has one, as it was given."""
    return {column: value for column, what, value in _given(options) if what == "default-value"}


def _given(options: Mapping[str, str]) -> list[tuple[str, str, str]]:
    found = ((split_option(name), value) for name, value in options.items())
    return [(*parts, value) for parts, value in found if parts is not None]


def split_option(name: str) -> tuple[str, str] | None:
    """The column (or columns) and the property that an option is about; None if it is not about columns."""
    if not name.startswith(_PREFIX) or name == _DEFAULT_FUNCTION:
        return None
    column, _, what = name[len(_PREFIX) :].rpartition(".")
    if what == "delimiter":
        column, _, function = column.rpartition(".")
        what = f"{function}.{what}"
    return column, what


def _field(values: Mapping[str, str]) -> FieldOptions:
    function = values.get("aggregate-function")
    return FieldOptions(
        function=None if function is None else canonical_function(function),
        # A delimiter counts only under the name that the function was given by.
        delimiter=values.get(f"{(function or '').strip().lower()}.delimiter", ","),
        distinct=values.get("distinct") == "true",
        ignore_retract=values.get("ignore-retract") == "true",
        on_overflow=values.get("on-overflow", "error"),
        nested_key=_names(values.get("nested-key", "")),
        nested_sequence=_names(values.get("nested-sequence-field", "")),
        nested_key_nulls=values.get("nested-key-null-strategy", "merge"),
        count_limit=int(values["count-limit"]) if "count-limit" in values else None,
        ts_field=values.get("ts-field"),
        given=frozenset(name for name in _OF_SOME if values.get(name, "false") != "false"),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _check_groups(schema: TableSchema, groups: tuple[SequenceGroup, ...]) -> None:
    seen: dict[str, SequenceGroup] = {}
    for group in groups:
        option = f"option 'fields.{','.join(group.order)}.sequence-group'"
        for name in group.order:
            if name in group.members:
                raise InvalidOptionError(
                    f"{option}: {name!r} orders the group; name only the columns that it orders"
                )
        for name in (*group.order, *group.members):
            if name not in schema:
                raise InvalidOptionError(
                    f"{option}: {unknown_name('column', name, schema.column_names)}"
                )
            if name in schema.fixed_columns:
                raise InvalidOptionError(
                    f"{option}: {name!r} is a key or partition column and never changes"
                )
            if name in seen:
                raise InvalidOptionError(f"{option}: {name!r} is in another group already")
            seen[name] = group
