"""Overwriting: new rows in place of whole partitions, as one snapshot.

    write runs as ever -> at publishing, the newest snapshot says which files go -> one snapshot removes and adds

What is replaced is what is live at the moment the overwrite lands, also what was written after it began: the new rows
are then all that the partitions hold, as if they had been written to empty ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.partition_spec import PartitionSpec
from lsmerge.engine.write import TableWriter, normalise_rows
from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.failpoints import failpoint
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.data_file import BucketId, CommitKind, Edit, Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import Version

STATIC, DYNAMIC = MODES = ("static", "dynamic")


def overwrite(
    context: TableContext,
    data: Any,
    partition: Any = None,
    mode: str = STATIC,
    commit_user: str | None = None,
    commit_id: int | None = None,
) -> Snapshot:
    """Replace the partitions named, those that `data` touches (dynamic), or the whole table by `data`."""
    return _write(context, data, replacement(context, partition, mode), commit_user, commit_id)


def drop_partition(
    context: TableContext,
    partition: Any,
    commit_user: str | None = None,
    commit_id: int | None = None,
) -> Snapshot:
    """Remove all rows of the partitions named."""
    if partition is None:
        raise SchemaMismatchError("partition = None: name the partitions to drop")
    replaced = Replacement(PartitionSpec.parse(context.schema, partition), STATIC)
    return _write(context, [], replaced, commit_user, commit_id)


def replacement(context: TableContext, partition: Any, mode: str) -> "Replacement":
    """What an overwrite with these arguments replaces; refused if they contradict each other or the table."""
    _check_mode(context, partition, mode)
    _check_keys_stay(context)
    spec = None if partition is None else PartitionSpec.parse(context.schema, partition)
    return Replacement(spec, mode)


def replacement_if(
    overwrite: bool, context: TableContext, partition: Any, mode: str
) -> "Replacement | None":
    """What is replaced, None where rows are added; then nothing may be said of what would be replaced."""
    if overwrite:
        return replacement(context, partition, mode)
    if partition is not None or mode != STATIC:
        raise InvalidOptionError(
            f"partition = {partition!r}, mode = {mode!r}: these say what an overwrite replaces; pass overwrite=True, "
            "or leave them out"
        )
    return None


def _write(
    context: TableContext,
    data: Any,
    replaced: "Replacement",
    commit_user: str | None,
    commit_id: int | None,
) -> Snapshot:
    writer = _Overwriter(context, replaced, commit_user, commit_id)
    done = writer.find_commit()
    if done is not None:
        return done
    writer.add(normalise_rows(context, data, None), keeps_memory=False)
    return writer.commit()


@dataclass(frozen=True, slots=True)
class Replacement:
    """The partitions that an overwrite replaces: those of `spec`, or all, or (dynamic) those that it writes to."""

    spec: PartitionSpec | None
    mode: str

    def check_inside(self, places: Iterable[BucketId]) -> None:
        """Rows of other partitions would be added to what these hold, which nobody asked for."""
        for partition in {place.partition for place in places}:
            if self.spec is not None and not self.spec.matches(partition):
                raise SchemaMismatchError(
                    f"the data has rows of partition {list(partition)}, which is not among those to be "
                    f"overwritten ({self.spec}); leave them out, or name their partition too"
                )

    def applied(self, context: TableContext, latest: Snapshot | None, edit: Edit) -> Edit:
        """The edit that also takes away whatever the partitions hold in `latest`; it leaves no changelog."""
        version = None if latest is None else context.versions.load(latest)
        live = [] if version is None else list(version.bucket_counts)
        written = {file.place.partition for file in edit.add}
        gone = [partition for partition in live if self._replaces(partition, written)]
        remove = version.partition_files(gone) if version is not None and gone else ()
        edit = replace(edit, kind=CommitKind.OVERWRITE, remove=remove)
        forgotten = [] if version is None else self._forgotten(version, written)
        if not forgotten:
            return edit
        # Rows of others that were placed by these indexes must say anew where their hashes are.
        return replace(edit, remove_index=(*edit.remove_index, *forgotten), moves_keys=True)

    def _forgotten(self, version: Version, written: set[Partition]) -> list[IndexFile]:
        """The indexes of partitions that are left empty: nothing else would ever take their hashes away."""
        left = (p for p in version.indexed_partitions if p not in written)
        empty = [partition for partition in left if self._replaces(partition, written)]
        return [file for partition in empty for file in version.index_files(partition)]

    def _replaces(self, partition: Partition, written: set[Partition]) -> bool:
        if self.mode == DYNAMIC:
            return partition in written
        return self.spec is None or self.spec.matches(partition)


class _Overwriter(TableWriter):
    """A writer whose commit replaces partitions."""

    def __init__(
        self,
        context: TableContext,
        replaced: Replacement,
        commit_user: str | None,
        commit_id: int | None,
    ) -> None:
        super().__init__(context, None, commit_user, commit_id)
        self._replaced = replaced

    def _buffer(self, batch: pa.RecordBatch, *, keeps_memory: bool) -> None:
        super()._buffer(batch, keeps_memory=keeps_memory)
        # What was spilled just now is in runs, what was not is in buckets.
        self._replaced.check_inside([*self._buffered.places, *self._runs.places])

    @property
    def _has_nothing(self) -> bool:
        """Never: rows go."""
        return False

    @property
    def _looks_up(self) -> bool:
        """Never, as with the next."""
        return False

    @property
    def _tells_input(self) -> bool:
        """Never: what followers may see of an overwrite is in its data files."""
        return False

    def _completed(self, latest: Snapshot | None, edit: Edit) -> Edit:
        failpoint("overwrite.before-publish")
        return self._replaced.applied(self._context, latest, edit)


def _check_keys_stay(context: TableContext) -> None:
    """Where a new row goes would depend on where its key lives, and that is what is being replaced."""
    if context.schema.is_cross_partition:
        raise InvalidOptionError(
            "overwrite: the primary key has not all partition columns, so its keys move between partitions; "
            "overwriting such a table is not available in this version of lsmerge: drop_partition and write instead"
        )


def _check_mode(context: TableContext, partition: Any, mode: str) -> None:
    if mode not in MODES:
        raise InvalidOptionError(f"mode = {mode!r}: accepted: {', '.join(MODES)}")
    if mode == DYNAMIC and partition is not None:
        raise InvalidOptionError(
            f"mode = 'dynamic' with partition = {partition!r}: the data says which partitions are replaced; "
            "leave one of them out"
        )
    if mode == DYNAMIC and not context.schema.partition_by:
        raise InvalidOptionError(
            "mode = 'dynamic': the table has no partition columns; leave it out to replace the whole table"
        )
