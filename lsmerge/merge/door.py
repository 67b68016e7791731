"""What happens to retracts at the door, before any row is stored."""

from enum import Enum, auto

import pyarrow as pa

from lsmerge.errors import SchemaMismatchError
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
