"""Which type a column may be changed to: one that holds every value of the old one unchanged."""

from lsmerge.logical_type import MAX_LENGTH
from lsmerge.types import INTEGER_KINDS, LogicalType, unit_of

_WIDER = (
    "a larger integer type, DOUBLE for FLOAT, DECIMAL with at least as many digits on both sides, a longer "
    "VARCHAR or STRING, a longer VARBINARY or BYTES"
)


def is_wider(old: LogicalType, new: LogicalType) -> bool:
    """Whether values of `old` are values of `new`, and files of the one can be read as the other."""
    if old.kind in INTEGER_KINDS and new.kind in INTEGER_KINDS:
        return INTEGER_KINDS.index(old.kind) <= INTEGER_KINDS.index(new.kind)
    if (old.kind, new.kind) == ("FLOAT", "DOUBLE"):
        return True
    if (old.kind, new.kind) == ("DECIMAL", "DECIMAL"):
        return _whole_digits(old) <= _whole_digits(new) and old.params[1] <= new.params[1]
    if old.kind == new.kind and old.kind in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        # In a finer unit the largest values would not fit.
        return old.params <= new.params and unit_of(old) == unit_of(new)
    return _is_longer(old, new)


def wider_types(old: LogicalType) -> str:
    """In words, what a column may be widened to."""
    return "a nested type stays as it is" if old.is_nested else f"accepted: {_WIDER}"


def _whole_digits(decimal: LogicalType) -> int:
    precision, scale = decimal.params
    return precision - scale


# Kinds of text and bytes, each with those it may become.
_LONGER = {
    "CHAR": ("CHAR", "VARCHAR", "STRING"),
    "VARCHAR": ("VARCHAR", "STRING"),
    "STRING": ("STRING",),
    "BINARY": ("VARBINARY", "BYTES"),
    "VARBINARY": ("VARBINARY", "BYTES"),
    "BYTES": ("BYTES",),
}


def _is_longer(old: LogicalType, new: LogicalType) -> bool:
    return new.kind in _LONGER.get(old.kind, ()) and _length(old) <= _length(new)


def _length(logical: LogicalType) -> int:
    return logical.params[0] if logical.params else MAX_LENGTH
