"""Arrow data of any encoding to the normal form of a column, by the rules of `cast_policy`.

Encodings (dictionary, run-end, large, view) never matter. What does not fit is refused with the
column, the first bad value and what is accepted. Work is per column, never per row; only a failing
column is searched, by halving.
"""

from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from lsmerge.engine.cast_policy import Convert, accepted_for, conversion, is_instant
from lsmerge.errors import SchemaMismatchError
from lsmerge.schema import unknown_name
from lsmerge.types import (
    TEXT_KINDS,
    UNIT_DIGITS,
    LogicalType,
    TypeField,
    is_list_like,
    to_arrow,
    unit_of,
)


@dataclass(frozen=True)
class Place:
    """Where values stand, for messages: a column or a component of one, and its first row."""

    path: str
    type: LogicalType
    first_row: int | None

    def inside(self, suffix: str, logical: LogicalType) -> "Place":
        """A component; its values have no row number of their own."""
        return Place(self.path + suffix, logical, None)

    def refuse(self, array: pa.Array, row: int, reason: str) -> NoReturn:
        """Name the value at `row` of `array` and why it cannot be taken."""
        number = None if self.first_row is None else self.first_row + row
        where = "" if number is None else f" at row {number}"
        raise SchemaMismatchError(
            f"column {self.path!r} ({self.type}): value {shown(array[row])}{where} {reason}", number
        )


# ------------------------------------------------------------------------------------------- types


def check_castable(source: pa.DataType, place: Place) -> None:
    """Refuse data of an Arrow type that the place cannot take whatever its values are."""
    source = _value_type(source)
    logical = place.type
    if pa.types.is_null(source):
        return
    if logical.kind == "ARRAY" and is_list_like(source):
        element = logical.children[0].type
        check_castable(source.value_type, place.inside("[]", element))
    elif logical.kind == "MAP" and pa.types.is_map(source):
        key, value = logical.children
        check_castable(source.key_type, place.inside(".key", key.type))
        check_castable(source.item_type, place.inside(".value", value.type))
    elif logical.kind == "ROW" and pa.types.is_struct(source):
        _check_struct(source, place)
    elif logical.is_nested or conversion(source, logical) is None:
        raise SchemaMismatchError(
            f"column {place.path!r} ({logical}): data is {source}; "
            f"accepted: {accepted_for(logical)}"
        )


def _value_type(source: pa.DataType) -> pa.DataType:
    while pa.types.is_dictionary(source) or pa.types.is_run_end_encoded(source):
        source = source.value_type
    return source


def _check_struct(source: pa.StructType, place: Place) -> None:
    given = [field.name for field in source]
    wanted = {child.name: child for child in place.type.children}
    for position, name in enumerate(given):
        if name in given[:position]:
            raise SchemaMismatchError(f"column {place.path!r}: field {name!r} appears twice")
        if name not in wanted:
            raise SchemaMismatchError(
                f"column {place.path!r}: {unknown_name('field', name, wanted)}"
            )
        check_castable(source.field(position).type, place.inside(f".{name}", wanted[name].type))
    missing = [c.name for c in wanted.values() if not c.nullable and c.name not in given]
    if missing:
        raise SchemaMismatchError(
            f"column {place.path!r}: field {missing[0]!r} is NOT NULL and missing from the data"
        )


# ------------------------------------------------------------------------------------------ values


def cast(array: pa.Array, place: Place) -> pa.Array:
    """The array in normal form; the array itself if it is already.

    Requires: `check_castable(array.type, place)` passed, and the array is valid.
    """
    target = to_arrow(place.type)
    array = decoded(array)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if place.type.is_nested:
        untouched = array.type == target and not _has_rules(place.type)
        return array if untouched else _cast_nested(array, target, place)
    if array.type != target:
        array = _cast_scalar(array, target, place)
    _check_rule(array, place)
    return array


def decoded(array: pa.Array) -> pa.Array:
    """The array without dictionary or run-end encoding."""
    while array.type != _value_type(array.type):
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        else:
            import pyarrow.compute as pc

            array = pc.run_end_decode(array)
    return array


def _cast_scalar(array: pa.Array, target: pa.DataType, place: Place) -> pa.Array:
    convert = conversion(array.type, place.type)
    assert convert is not None
    try:
        return convert(array, target)
    except pa.ArrowException as error:
        row = _first_failure(array, target, convert)
        if row is None:
            raise SchemaMismatchError(
                f"column {place.path!r} ({place.type}): {error}; pass smaller batches"
            ) from error
        place.refuse(array, row, f"does not fit; accepted: {accepted_for(place.type)}")


def _first_failure(array: pa.Array, target: pa.DataType, convert: Convert) -> int | None:
    """The first row that fails on its own; None if the array fails only as a whole."""
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fails(array.slice(start, middle - start), target, convert):
            stop = middle
        else:
            start = middle
    return start if _fails(array.slice(start, stop - start), target, convert) else None


def _fails(array: pa.Array, target: pa.DataType, convert: Convert) -> bool:
    try:
        convert(array, target)
    except pa.ArrowException:
        return True
    return False


# ------------------------------------------------------------------------------------------ nested


def _cast_nested(array: pa.Array, target: pa.DataType, place: Place) -> pa.Array:
    """Rebuild from what is visible: values outside a slice or below a null are never looked at."""
    if len(array) == 0:
        return pa.array([], target)
    nulls = array.is_null() if array.null_count else None
    if place.type.kind == "ROW":
        return _cast_struct(array, target, place, nulls)
    if place.type.kind == "MAP":
        return _cast_map(array, target, place, nulls)
    import pyarrow.compute as pc

    # Not Arrow's own cast: from list views it gives wrong lists (pyarrow 26).
    values = _cast_child(array.flatten(), place, place.type.children[0], "[]")
    offsets = _offsets(pc.list_value_length(array), nulls, place)
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=nulls)


def _cast_map(
    array: pa.MapArray, target: pa.DataType, place: Place, nulls: pa.Array | None
) -> pa.Array:
    import pyarrow.compute as pc

    lengths = pc.subtract(array.offsets[1:], array.offsets[:-1])
    offsets = _offsets(lengths, nulls, place)
    visible = array.drop_null()
    first = visible.offsets[0].as_py() if len(visible) else 0
    keys, items = (side.slice(first, offsets[-1].as_py()) for side in (visible.keys, visible.items))
    key, value = place.type.children
    return pa.MapArray.from_arrays(
        offsets,
        _cast_child(keys, place, key, ".key"),
        _cast_child(items, place, value, ".value"),
        type=target,
        mask=nulls,
    )


def _cast_struct(
    array: pa.StructArray, target: pa.StructType, place: Place, nulls: pa.Array | None
) -> pa.Array:
    # flatten() lays the parent's nulls over the children.
    given = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    children = [
        _cast_child(
            given.get(child.name, pa.nulls(len(array))), place, child, f".{child.name}", nulls
        )
        for child in place.type.children
    ]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=nulls)


def _cast_child(
    array: pa.Array,
    parent: Place,
    child: TypeField,
    suffix: str,
    parent_nulls: pa.Array | None = None,
) -> pa.Array:
    place = parent.inside(suffix, child.type)
    result = cast(array, place)
    # A null parent leaves a null in each child, declared or not.
    allowed = 0 if parent_nulls is None else parent_nulls.true_count
    if not child.nullable and result.null_count > allowed:
        raise SchemaMismatchError(
            f"column {place.path!r} ({child}): value null; accepted: values that are not null"
        )
    return result


def _offsets(lengths: pa.Array, nulls: pa.Array | None, place: Place) -> pa.Array:
    import pyarrow.compute as pc

    if nulls is not None:
        lengths = pc.if_else(nulls, 0, lengths)
    try:
        ends = pc.cumulative_sum_checked(pc.cast(lengths, pa.int32()))
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"column {place.path!r} ({place.type}): more than 2^31 elements; pass smaller batches"
        ) from error
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


# --------------------------------------------------------------------------- what types cannot say


def _has_rules(logical: LogicalType) -> bool:
    """Whether values must be looked at even if the Arrow type is right."""
    if logical.is_nested:
        return any(not c.nullable or _has_rules(c.type) for c in logical.children)
    return _lost_digits(logical) > 0 or logical.kind in ("CHAR", "VARCHAR", "VARBINARY")


def _lost_digits(logical: LogicalType) -> int:
    """Decimal digits that the Arrow unit of a time or timestamp has beyond the declared ones."""
    if logical.kind not in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return 0
    return UNIT_DIGITS[unit_of(logical)] - logical.params[0]


def _check_rule(array: pa.Array, place: Place) -> None:
    if not _has_rules(place.type):
        return
    import pyarrow.compute as pc

    limit = place.type.params[0]
    if place.type.kind == "VARBINARY":
        broken = pc.greater(pc.binary_length(array), limit)
        reason = f"is longer than {limit} bytes"
    elif place.type.kind in TEXT_KINDS:
        broken = pc.greater(pc.utf8_length(array), limit)
        reason = f"is longer than {limit} characters"
    else:
        step = 10 ** _lost_digits(place.type)
        ticks = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        broken = pc.not_equal(pc.multiply(pc.divide(ticks, step), step), ticks)
        reason = f"has more than {limit} fractional digits"
    row = first_true(broken)
    if row is not None:
        place.refuse(array, row, reason)


def first_true(mask: pa.Array) -> int | None:
    """The first row where a mask is true, not null."""
    import pyarrow.compute as pc

    row: int = pc.index(mask, True).as_py()
    return None if row < 0 else row


def shown(scalar: pa.Scalar, limit: int = 80) -> str:
    """A value for a message: short, and without failing on what Python cannot hold."""
    if pa.types.is_temporal(scalar.type) and scalar.is_valid:
        zoneless = pa.timestamp(scalar.type.unit) if is_instant(scalar.type) else scalar.type
        text = str(scalar.cast(zoneless).cast(pa.string()).as_py())
        text += "Z" if is_instant(scalar.type) else ""
    else:
        text = repr(scalar.as_py())
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
