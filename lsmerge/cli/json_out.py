"""Values as JSON: numbers, text, booleans, lists and structs stay what they are; maps become lists of pairs, decimals
text, dates and times ISO text, binary base64. NaN and infinities, which JSON lacks, become text.

Value by value, for documents and for what is drawn; rows that go to programs are written by `json_columns.py`.
"""

import base64
import json
import math
from dataclasses import asdict, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as Python values; what Python cannot hold, nanoseconds, as text."""
    listed: list[dict[str, Any]] = _without_nanoseconds(batch).to_pylist()
    return listed


def text(value: Any, *, indent: int | None = None) -> str:
    """A JSON document in one line, or indented."""
    encoder = _encoder(indent)
    try:
        return encoder.encode(value)
    except ValueError:
        return encoder.encode(_finite(value))


@cache
def _encoder(indent: int | None) -> json.JSONEncoder:
    separators = (",", ":") if indent is None else None
    return json.JSONEncoder(
        default=_plain, allow_nan=False, ensure_ascii=False, indent=indent, separators=separators
    )


def _plain(value: Any) -> Any:
    """What JSON has no word for, in its words."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal | pa.Scalar):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _finite(value: Any) -> Any:
    """The same with text for the numbers that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _without_nanoseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    for position, field in enumerate(batch.schema):
        readable = _readable(field.type)
        if readable != field.type:
            column = batch.column(position).cast(readable)
            batch = batch.set_column(position, field.with_type(readable), column)
    return batch


def _readable(arrow: pa.DataType) -> pa.DataType:
    """The type with text for nanoseconds, at any depth."""
    if pa.types.is_temporal(arrow) and getattr(arrow, "unit", "") == "ns":
        return pa.string()
    if pa.types.is_map(arrow):
        return pa.map_(_readable(arrow.key_type), _field(arrow.item_field))
    if pa.types.is_list(arrow):
        return pa.list_(_field(arrow.value_field))
    if pa.types.is_struct(arrow):
        return pa.struct([_field(field) for field in arrow])
    return arrow


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_readable(field.type))
