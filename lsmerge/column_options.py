"""Which columns the options of a table name: those are renamed with the column, and keep it from being dropped."""

from collections.abc import Mapping

from lsmerge.field_options import split_option

# Options whose values are names of columns.
_NAMING = frozenset(
    {
        "sequence.field",
        "rowkind.field",
        "merge-engine.versioned.ver-column",
        "partial-update.remove-record-on-sequence-group",
        "bucket-key",
        "record.merge.ordering-fields",
        "record.merge.delete-field",
        "changelog-producer.row-deduplicate-ignore-fields",
    }
)
_SEQUENCE_GROUP = "sequence-group"
_DEFAULT_VALUE = "default-value"


def options_of(column: str, options: Mapping[str, str]) -> list[str]:
    """The options that give the column a meaning which other rows depend on."""
    return [
        name for name, value in options.items() if column in _columns(name, value) and _binds(name)
    ]


def without_column(column: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options without the default value of a column that goes."""
    return {n: v for n, v in options.items() if split_option(n) != (column, _DEFAULT_VALUE)}


def renamed(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The options with new names for columns."""
    return {
        _renamed_option(name, names): _list(value, names) if _names_columns(name) else value
        for name, value in options.items()
    }


def is_about(option: str, columns: Mapping[str, object]) -> bool:
    """Whether an option is one of a single column among these."""
    parts = split_option(option)
    return parts is not None and parts[0] in columns


def _columns(option: str, value: str) -> list[str]:
    parts = split_option(option)
    own = [] if parts is None else [parts[0], *_split(parts[0])]
    return own + (_split(value) if _names_columns(option) else [])


def _binds(option: str) -> bool:
    parts = split_option(option)
    return parts is None or parts[1] != _DEFAULT_VALUE


def _names_columns(option: str) -> bool:
    parts = split_option(option)
    return option in _NAMING or (parts is not None and parts[1] == _SEQUENCE_GROUP)


def _renamed_option(option: str, names: Mapping[str, str]) -> str:
    parts = split_option(option)
    if parts is None:
        return option
    column, what = parts
    # Only the name of a sequence group is a list.
    new = _list(column, names) if what == _SEQUENCE_GROUP else names.get(column, column)
    return f"fields.{new}.{what}"


def _list(text: str, names: Mapping[str, str]) -> str:
    return ",".join(names.get(name, name) for name in _split(text))


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
