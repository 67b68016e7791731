"""Options that only some merge engines look at: given to another one they would do nothing, and are refused."""

from collections.abc import Mapping

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import split_option

_COMBINING = frozenset({"aggregation", "partial-update"})
_ENGINES_OF = {
    "fields.default-aggregate-function": _COMBINING,
    "merge-engine.versioned.ver-column": frozenset({"versioned"}),
    "aggregation.remove-record-on-delete": frozenset({"aggregation"}),
    "partial-update.remove-record-on-delete": frozenset({"partial-update"}),
    "partial-update.remove-record-on-sequence-group": frozenset({"partial-update"}),
}
_OF_EVERY_ENGINE = "default-value"
_ENGINES_OF_COLUMN = {"sequence-group": frozenset({"partial-update"})}


def check_engine_options(options: Mapping[str, str]) -> None:
    """Refuse what the engine of a new table does not look at."""
    engine = options.get("merge-engine", "deduplicate")
    for name, value in options.items():
        engines = _engines_of(name)
        if engines is not None and engine not in engines and value != "false":
            raise InvalidOptionError(
                f"option {name!r} = {value!r} does nothing with merge-engine = {engine}; leave it out, or "
                f"choose merge-engine = {' or '.join(sorted(engines))}"
            )


def _engines_of(name: str) -> frozenset[str] | None:
    """The engines that look at an option, None if all do."""
    parts = split_option(name)
    if parts is None:
        return _ENGINES_OF.get(name)
    _, what = parts
    return None if what == _OF_EVERY_ENGINE else _ENGINES_OF_COLUMN.get(what, _COMBINING)
