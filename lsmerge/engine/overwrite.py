"""Overwriting: new rows in place of whole partitions, as one snapshot.

    write runs as ever -> at publishing, the newest snapshot says which files go -> one snapshot removes and adds

What is replaced is what is live at the moment the overwrite lands, also what was written after it began: the new rows
are then all that the partitions hold, as if they had been written to empty ones.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.partition_spec import PartitionSpec
from lsmerge.engine.write import TableWriter, normalise_rows
from lsmerge.errors import InvalidOptionError, SchemaMismatchError
from lsmerge.meta.data_file import CommitKind, Edit, Partition
from lsmerge.meta.snapshot import Snapshot

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
    _check_mode(context, partition, mode)
    _check_keys_stay(context)
    return _replace(context, data, partition, mode, commit_user, commit_id)


def drop_partition(
    context: TableContext,
    partition: Any,
    commit_user: str | None = None,
    commit_id: int | None = None,
) -> Snapshot:
    """Remove all rows of the partitions named."""
    if partition is None:
        raise SchemaMismatchError("partition = None: name the partitions to drop")
    return _replace(context, [], partition, STATIC, commit_user, commit_id)


def _replace(
    context: TableContext,
    data: Any,
    partition: Any,
    mode: str,
    commit_user: str | None,
    commit_id: int | None,
) -> Snapshot:
    spec = None if partition is None else PartitionSpec.parse(context.schema, partition)
    writer = _Overwriter(context, spec, mode, commit_user, commit_id)
    done = writer.find_commit()
    if done is not None:
        return done
    writer.add(normalise_rows(context, data, None), keeps_memory=False)
    return writer.commit()


class _Overwriter(TableWriter):
    """A writer whose commit replaces partitions."""

    def __init__(
        self,
        context: TableContext,
        spec: PartitionSpec | None,
        mode: str,
        commit_user: str | None,
        commit_id: int | None,
    ) -> None:
        super().__init__(context, None, commit_user, commit_id)
        self._spec = spec
        self._mode = mode

    def _buffer(self, batch: pa.RecordBatch, *, keeps_memory: bool) -> None:
        super()._buffer(batch, keeps_memory=keeps_memory)
        # What was spilled just now is in runs, what was not is in buckets.
        self._check_inside({place.partition for place in self._buckets})
        self._check_inside({place.partition for place in self._runs.places})

    def _check_inside(self, partitions: set[Partition]) -> None:
        """Rows of other partitions would be added to what these hold, which nobody asked for."""
        for partition in partitions:
            if self._spec is not None and not self._spec.matches(partition):
                raise SchemaMismatchError(
                    f"the data has rows of partition {list(partition)}, which is not among those to be "
                    f"overwritten ({self._spec}); leave them out, or name their partition too"
                )

    @property
    def _looks_up(self) -> bool:
        """Never, as with the next."""
        return False

    @property
    def _tells_input(self) -> bool:
        """Never: what followers may see of an overwrite is in its data files."""
        return False

    def _completed(self, latest: Snapshot | None, edit: Edit) -> Edit:
        """Takes away whatever the partitions hold in `latest`; leaves no changelog."""
        version = None if latest is None else self._context.versions.load(latest)
        live = [] if version is None else list(version.bucket_counts)
        gone = [partition for partition in live if self._replaces(partition)]
        remove = version.partition_files(gone) if version is not None and gone else ()
        return replace(edit, kind=CommitKind.OVERWRITE, remove=remove)

    def _replaces(self, partition: Partition) -> bool:
        if self._mode == DYNAMIC:
            return any(place.partition == partition for place in self._runs.places)
        return self._spec is None or self._spec.matches(partition)


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
