"""What happens to retracts at the door, before any row is stored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from typing import Self

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
from lsmerge.field_options import FieldOptions
from lsmerge.merge.functions import ColumnFunction
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


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The columns whose values retracts of some kinds take back, and what their functions cannot do then."""

    stubborn: Mapping[str, str]  # columns whose functions, given by name, cannot take a value back
    factors: Sequence[str]
    kinds: int

    @classmethod
    def of(
        cls,
        columns: Iterable[str],
        functions: Mapping[str, ColumnFunction],
        fields: Mapping[str, FieldOptions],
        kinds: int = RETRACTS,
    ) -> Self:
        """Of `columns`, those that do not ignore retracts."""
        reached = [name for name in columns if not fields[name].ignore_retract]
        stubborn = [name for name in reached if not functions[name].takes_retracts]
        factors = [name for name in reached if functions[name].name == "product"]
        return cls({name: functions[name].name for name in stubborn}, factors, kinds)

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse what no row that comes later could mend."""
        if self.stubborn:
            self._refuse_retracts(batch)
        if self.factors:
            self._refuse_zeros(batch)

    def _refuse_retracts(self, batch: pa.RecordBatch) -> None:
        if not any(
            1 << kind & self.kinds for kind in batch.column(KIND_COLUMN).unique().to_pylist()
        ):
            return
        column, function = next(iter(self.stubborn.items()))
        raise SchemaMismatchError(
            f"column {column!r}: its function {function!r} cannot take back the value of a -U or -D row; "
            f"set fields.{column}.ignore-retract=true, or ignore-delete=true for the table"
        )

    def _refuse_zeros(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        bits = pc.shift_left(pa.scalar(1, pa.int8()), batch.column(KIND_COLUMN))
        wanted = pc.bit_wise_and(bits, pa.scalar(self.kinds, pa.int8()))
        retracts = pc.not_equal(wanted, pa.scalar(0, pa.int8()))
        for name in self.factors:
            values = batch.column(name)
            row = pc.and_(retracts, pc.equal(values, _zero(values.type))).index(True).as_py()
            if row >= 0:
                raise SchemaMismatchError(
                    f"column {name!r} at row {row}: a -U or -D row takes back the factor 0, and no product can be "
                    f"divided by it; leave the row out, or set fields.{name}.ignore-retract=true"
                )


def _zero(type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0) if pa.types.is_decimal(type_) else 0, type_)


def without_kind(batch: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    """The rows of all other kinds."""
    import pyarrow.compute as pc

    return batch.filter(pc.not_equal(batch.column(KIND_COLUMN), pa.scalar(int(kind), pa.int8())))
