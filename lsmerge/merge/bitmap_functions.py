"""Column functions of serialized sets: Roaring bitmaps in their portable form, and sketches.

Only unions are encoded anew; a value that meets no other stays byte for byte. How a set is encoded depends a little on
the order in which it came to be, so a fold is always from the oldest to the newest, and never starts in the middle.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import FieldOptions
from lsmerge.merge.group_fold import fold_groups
from lsmerge.merge.grouped_column import GroupedColumn
from lsmerge.merge.lift import Lift, RefusedValueError
from lsmerge.schema import Column

# A set from its bytes; two sets into one; bytes from a set.
Parse = Callable[[bytes], Any]
Unite = Callable[[Any, Any], Any]
Serialize = Callable[[Any], bytes]


def rbm32(column: GroupedColumn, _options: FieldOptions) -> pa.Array:
    """The union of bitmaps of 32-bit numbers."""
    return _union(column, parse_rbm32, _unite_bitmaps, _serialize_bitmap)


def rbm64(column: GroupedColumn, _options: FieldOptions) -> pa.Array:
    """The union of bitmaps of 64-bit numbers."""
    return _union(column, parse_rbm64, _unite_bitmaps, _serialize_bitmap)


def hll_sketch(column: GroupedColumn, _options: FieldOptions) -> pa.Array:
    """The union of HyperLogLog sketches."""
    return _union(column, parse_hll, _unite_hll, lambda sketch: bytes(sketch.serialize_compact()))


def theta_sketch(column: GroupedColumn, _options: FieldOptions) -> pa.Array:
    """The union of theta sketches."""
    return _union(column, parse_theta, _unite_theta, lambda sketch: bytes(sketch.serialize()))


def parse_rbm32(data: bytes) -> Any:
    """The bitmap; ValueError or IndexError if the bytes are none."""
    from pyroaring import BitMap

    return _whole(BitMap.deserialize(data), data)


def parse_rbm64(data: bytes) -> Any:
    """The bitmap; ValueError or IndexError if the bytes are none."""
    from pyroaring import BitMap64

    return _whole(BitMap64.deserialize(data), data)


def _whole(bitmap: Any, data: bytes) -> Any:
    """The bitmap, if it is all that the bytes hold."""
    size = len(bitmap.serialize())
    if size < len(data):
        raise ValueError(f"they end after {size} bytes")
    return bitmap


def parse_hll(data: bytes) -> Any:
    """The sketch; ValueError or IndexError if the bytes are none."""
    import datasketches

    return datasketches.hll_sketch.deserialize(data)


def parse_theta(data: bytes) -> Any:
    """The sketch; ValueError or IndexError if the bytes are none."""
    import datasketches

    return datasketches.compact_theta_sketch.deserialize(data)


def refusing_unreadable(parse: Parse, what: str) -> Lift:
    """What checks values at the door, and gives them back as they are."""

    def checked(values: pa.Array, _column: Column, _options: FieldOptions) -> pa.Array:
        for row, value in enumerate(values.to_pylist()):
            try:
                if value is not None:
                    parse(value)
            except (ValueError, IndexError) as error:
                raise RefusedValueError(
                    row, f"its {len(value)} bytes are not {what} ({error})"
                ) from error
        return values

    return checked


def need_datasketches(column: Column, _options: FieldOptions) -> None:
    """Refuse a sketch column where the package that reads sketches is not installed."""
    if find_spec("datasketches") is None:
        raise InvalidOptionError(
            f"column {column.name!r}: functions of sketches need the package datasketches: "
            "pip install 'lsmerge[sketches]'"
        )


def _union(column: GroupedColumn, parse: Parse, unite: Unite, serialize: Serialize) -> pa.Array:
    def fold(values: pa.Array, starts: Sequence[int], _taken_back: Sequence[int]) -> pa.Array:
        serialized = values.to_pylist()
        unions = []
        for start, stop in pairwise(starts):
            union = parse(serialized[start])
            for data in serialized[start + 1 : stop]:
                union = unite(union, parse(data))
            unions.append(serialize(union))
        return pa.array(unions, values.type)

    # These functions take no retracts, so that what is folded are adds.
    return fold_groups(column, fold)


def _unite_bitmaps(first: Any, second: Any) -> Any:
    first |= second
    first.run_optimize()
    return first


def _serialize_bitmap(bitmap: Any) -> bytes:
    return bytes(bitmap.serialize())


def _unite_hll(first: Any, second: Any) -> Any:
    import datasketches

    # The coarser one decides: nothing finer can be known of the union.
    union = datasketches.hll_union(min(first.lg_config_k, second.lg_config_k))
    union.update(first)
    union.update(second)
    # Through bytes, as when the first two had been united by a compaction.
    return parse_hll(bytes(union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact()))


def _unite_theta(first: Any, second: Any) -> Any:
    import datasketches

    union = datasketches.theta_union()
    union.update(first)
    union.update(second)
    return union.get_result()
