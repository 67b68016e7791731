"""Searches for rows that show a merger to break what merging relies on: `check_merger` is for the tests of mergers.

The laws, for the rows of one key, oldest first:

    pure          the same rows give the same outcome, and stay as they are
    left fold     merging the first rows before the others changes nothing, and keys do not affect each other
    batches       merge_batch gives what merge does
    associative   merging rows in the middle first changes nothing
    partial       nor does combining them with partial_merge
    forgets       nor does a delete that is older than all others, if the merger says so
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import pyarrow as pa

from lsmerge.engine.ingest import normalise
from lsmerge.errors import MergerLawError, MergeValueError
from lsmerge.merge.batch_merge import BatchMerge
from lsmerge.merge.merger_rows import Operands
from lsmerge.merge.record_merge import RecordMerge
from lsmerge.mergers import Merger, Record, merger_of
from lsmerge.rowkind import ROW_KIND_COLUMN
from lsmerge.sample_rows import Rows, SampleRows
from lsmerge.schema import TableSchema

MAX_SHRINKS = 1000

# How a law is broken by rows that give the expected outcome, None if it is not.
Law = Callable[["_Merging", Rows, str], str | None]


@dataclass(frozen=True, slots=True)
class MergerReport:
    """What a search found: the laws that a merger must keep held for all examples.

    `is_associative` says whether no counterexample was found; one is in `counterexample`. It does no harm unless the
    merger claims to be associative.
    """

    examples: int
    is_associative: bool
    counterexample: str | None = None


def check_merger(
    merger: Any,
    schema: pa.Schema,
    primary_key: str | Sequence[str],
    *,
    ordering_fields: Sequence[str] = (),
    values: Mapping[str, Sequence[Any]] | None = None,
    examples: int = 100,
    seed: int = 0,
) -> MergerReport:
    """Try a merger on random rows; raise MergerLawError with the fewest rows found that break a law it must keep.

    `values` gives the values to try in some columns. The same seed tries the same rows.

    >>> import pyarrow as pa
    >>> from lsmerge.testing import check_merger
    >>> class Adding:
    ...     associative, sees_deletes = True, False
    ...     def merge(self, older, newer):
    ...         return newer.replace(n=older["n"] + newer["n"])
    >>> schema = pa.schema([pa.field("k", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    >>> check_merger(Adding, schema, "k").is_associative
    True
    >>> class Subtracting(Adding):
    ...     def merge(self, older, newer):
    ...         return newer.replace(n=older["n"] - newer["n"])
    >>> check_merger(Subtracting, schema, "k", values={"n": [0, 1]})
    Traceback (most recent call last):
    lsmerge.errors.MergerLawError: [MERGER_LAW] merger 'Subtracting' is not associative: +I {'k': 0, 'n': 0}, \
+I {'k': 0, 'n': 0}, +I {'k': 0, 'n': 1} give {'k': 0, 'n': -1}; with rows 2 to 3 merged first {'k': 0, 'n': 1}
    """
    name = getattr(merger, "__name__", type(merger).__name__)
    checked = merger_of(name, merger)
    merging = _Merging.of(checked, schema, primary_key, tuple(ordering_fields))
    samples = SampleRows(
        merging.schema,
        values or {},
        seed,
        ordering=merging.call.ordering,
        deletes=checked.sees_deletes,
    )
    doubts: dict[Law, str] = {}
    for _ in range(examples):
        rows = samples.rows()
        for law, title in _LAWS.items():
            if law not in doubts and _broken(law, merging, rows) is not None:
                fewest = _shrunk(rows, samples, partial(_broken, law, merging))
                doubts[law] = f"merger {name!r} is not {title}: {_broken(law, merging, fewest)}"
                if law is not _associative or checked.is_associative:
                    raise MergerLawError(doubts[law])
    return MergerReport(examples, _associative not in doubts, doubts.get(_associative))


# ------------------------------------------------------------------------------------------- merging


@dataclass(frozen=True, slots=True)
class _Merging:
    """A merger and the table it is tried on."""

    merger: Merger
    schema: TableSchema
    call: BatchMerge | RecordMerge
    by_record: RecordMerge

    @classmethod
    def of(
        cls,
        merger: Merger,
        schema: pa.Schema,
        primary_key: str | Sequence[str],
        ordering: tuple[str, ...],
    ) -> "_Merging":
        table = TableSchema.from_arrow(schema, primary_key, (), {})
        for name in ordering:
            table.column(name)
        by_record = RecordMerge(merger, table, ordering, normalise)
        batches = BatchMerge(merger, table, ordering, normalise)
        return cls(merger, table, batches if merger.has_batches else by_record, by_record)

    def operands(self, *groups: Rows) -> Operands:
        """Rows as a table stores them."""
        rows = [record for group in groups for record in group]
        columns: dict[str, Any] = {
            name: [record[name] for record in rows] for name in self.schema.column_names
        }
        columns[ROW_KIND_COLUMN] = [record.kind for record in rows]
        ((batch, _),) = normalise(columns, self.schema)
        system = [
            pa.array(range(len(rows)), pa.int64()),
            pa.array([int(record.row_kind) for record in rows], pa.int8()),
        ]
        batch = pa.RecordBatch.from_arrays(
            [*system, *batch.columns], schema=self.schema.file_schema
        )
        starts = [0]
        for group in groups:
            starts.append(starts[-1] + len(group))
        return Operands(batch, pa.array(starts, pa.int32()))

    def fold(self, *groups: Rows) -> Rows:
        """The outcome of each group; a single row is its own."""
        several = [group for group in groups if len(group) > 1]
        folded = iter(
            self.call.records(self.call.folded(self.operands(*several))) if several else ()
        )
        return tuple(next(folded) if len(group) > 1 else group[0] for group in groups)

    def shortened(self, rows: Rows) -> Rows:
        return tuple(self.call.records(self.by_record.shortened(self.operands(rows))))


# ---------------------------------------------------------------------------------------------- laws


def _broken(law: Law, merging: _Merging, rows: Rows) -> str | None:
    """How these rows break a law, None if they do not."""
    try:
        return law(merging, rows, _visible(merging.fold(rows)[0]))
    except MergeValueError as error:
        return f"{_shown(rows)}: {error.args[0]}"


def _works(_merging: _Merging, _rows: Rows, _expected: str) -> str | None:
    return None  # there would be no outcome to expect


def _pure(merging: _Merging, rows: Rows, expected: str) -> str | None:
    given = merging.merger.given
    for merge in filter(
        None, (getattr(given, "merge", None), getattr(given, "partial_merge", None))
    ):
        older, newer = rows[:2]
        before = repr((older, newer))
        with merging.call.blaming(older, newer):
            outcomes = [repr(merge(older, newer)) for _ in range(2)]
        if repr((older, newer)) != before:
            return f"it changed the rows it was given, {_shown(rows[:2])}"
        if outcomes[0] != outcomes[1]:
            return f"{_shown(rows[:2])} give {outcomes[0]}, and then {outcomes[1]}"
    return _unequal(rows, expected, "asked again", merging.fold(rows)[0])


def _left_fold(merging: _Merging, rows: Rows, expected: str) -> str | None:
    for cut in range(2, len(rows)):
        first = merging.fold(rows[:cut])
        found = merging.fold((*first, *rows[cut:]))[0]
        reason = _unequal(rows, expected, f"with rows 1 to {cut} merged first", found)
        if reason is not None:
            return reason
    together = merging.fold(rows[:2], rows)[1]
    return _unequal(rows, expected, "beside another key", together)


def _batches(merging: _Merging, rows: Rows, expected: str) -> str | None:
    if not (merging.merger.has_batches and merging.merger.has_records):
        return None
    by_record = replace(merging, call=merging.by_record)
    return _unequal(rows, expected, "by merge", by_record.fold(rows)[0])


def _associative(merging: _Merging, rows: Rows, expected: str) -> str | None:
    for start, stop in combinations(range(1, len(rows) + 1), 2):
        if stop - start > 1:
            middle = merging.fold(rows[start:stop])
            found = merging.fold((*rows[:start], *middle, *rows[stop:]))[0]
            how = f"with rows {start + 1} to {stop} merged first"
            reason = _unequal(rows, expected, how, found)
            if reason is not None:
                return reason
    return None


def _partial(merging: _Merging, rows: Rows, expected: str) -> str | None:
    if not merging.merger.has_partial_merge:
        return None
    for start, stop in combinations(range(len(rows) + 1), 2):
        if stop - start > 1:
            middle = merging.shortened(rows[start:stop])
            found = merging.fold((*rows[:start], *middle, *rows[stop:]))[0]
            how = f"with rows {start + 1} to {stop} combined by partial_merge"
            reason = _unequal(rows, expected, how, found)
            if reason is not None:
                return reason
    return None


def _forgets(merging: _Merging, rows: Rows, _expected: str) -> str | None:
    if not merging.merger.forgets_deletes:
        return None
    delete, newer = rows[0].merged(is_delete=True), rows[1]
    found = merging.fold((delete, newer))[0]
    return _unequal((delete, newer), _visible(newer), "merged", found)


# Those further down are asked of rows that kept the ones above.
_LAWS: Mapping[Law, str] = {
    _works: "able to merge all rows",
    _pure: "pure",
    _left_fold: "a left fold",
    _batches: "the same by merge and merge_batch",
    _partial: "the same with partial_merge",
    _forgets: "the same without an old delete",
    _associative: "associative",
}


def _unequal(rows: Rows, expected: str, how: str, found: Record) -> str | None:
    if _visible(found) == expected:
        return None
    return f"{_shown(rows)} give {expected}; {how} {_visible(found)}"


def _visible(record: Record) -> str:
    return "a deletion" if record.is_delete else str(dict(record))


def _shown(rows: Rows) -> str:
    return ", ".join(f"{record.kind} {dict(record)}" for record in rows)


# ------------------------------------------------------------------------------------------ shrinking


def _shrunk(rows: Rows, samples: SampleRows, broken: Callable[[Rows], str | None]) -> Rows:
    """The simplest rows found that break the law as well."""
    tries = MAX_SHRINKS
    is_simpler = True
    while is_simpler and tries > 0:
        is_simpler = False
        for candidate in samples.simpler(rows):
            tries -= 1
            if tries > 0 and broken(candidate) is not None:
                rows, is_simpler = candidate, True
                break
    return rows
