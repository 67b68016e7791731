"""What happens to retracts at the door, before any row is stored."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum, auto

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.merge.grouped_column import RETRACTS
from lsmerge.merge.groups import adds_only
from lsmerge.options import TableOptions
from lsmerge.rowkind import KIND_COLUMN, SYMBOLS, RowKind


class Retracts(Enum):
    """What a table does with `-U` and `-D` rows."""

    TAKE = auto()
    DROP = auto()
    REFUSE = auto()


def retracts_of(options: TableOptions, otherwise: Retracts) -> Retracts:
    """What the options say of retracts; `otherwise` is the engine's own way."""
    if options.ignore_delete or options.delete_behavior == "ignore":
        return Retracts.DROP
    if options.delete_behavior == "disable":
        return Retracts.REFUSE
    return otherwise


def admit(batch: pa.RecordBatch, retracts: Retracts, engine: str) -> pa.RecordBatch:
    """The rows that may enter; a commit with a row that may not is refused as a whole."""
    if retracts is Retracts.TAKE:
        return batch
    adds = adds_only(batch)
    if retracts is Retracts.REFUSE and adds.num_rows < batch.num_rows:
        raise SchemaMismatchError(
            f"row kind {_first_retract(batch)}: a {engine} table with these options takes only +I and +U; "
            "set ignore-delete=true to drop -U and -D rows, or leave them out"
        )
    return adds


def _first_retract(batch: pa.RecordBatch) -> str:
    kinds = batch.column(KIND_COLUMN).to_pylist()
    return next(SYMBOLS[RowKind(kind)] for kind in kinds if kind & 1)


def refuse_untakeable(
    batch: pa.RecordBatch, stubborn: Mapping[str, str], kinds: int = RETRACTS
) -> None:
    """Refuse retracts of columns whose functions, given by name, cannot take a value back."""
    if not stubborn or not any(
        1 << kind & kinds for kind in set(batch.column(KIND_COLUMN).unique().to_pylist())
    ):
        return
    column, function = next(iter(stubborn.items()))
    raise SchemaMismatchError(
        f"column {column!r}: its function {function!r} cannot take back the value of a -U or -D row; "
        f"set fields.{column}.ignore-retract=true, or ignore-delete=true for the table"
    )


def refuse_zero_factors(
    batch: pa.RecordBatch, factors: Sequence[str], kinds: int = RETRACTS
) -> None:
    """Refuse retracts that would divide a product by zero: no row that comes later could mend it."""
    import pyarrow.compute as pc

    if not factors:
        return
    bits = pc.shift_left(pa.scalar(1, pa.int8()), batch.column(KIND_COLUMN))
    retracts = pc.not_equal(
        pc.bit_wise_and(bits, pa.scalar(kinds, pa.int8())), pa.scalar(0, pa.int8())
    )
    for name in factors:
        values = batch.column(name)
        row = pc.and_(retracts, pc.equal(values, _zero(values.type))).index(True).as_py()
        if row >= 0:
            raise SchemaMismatchError(
                f"column {name!r} at row {row}: a -U or -D row takes back the factor 0, and no product can be divided "
                f"by it; leave the row out, or set fields.{name}.ignore-retract=true"
            )


def _zero(type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(type_) else 0, type_)


def without_kind(batch: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    """The rows of all other kinds."""
    import pyarrow.compute as pc

    return batch.filter(pc.not_equal(batch.column(KIND_COLUMN), pa.scalar(int(kind), pa.int8())))
