"""In which partition a key lives, where the key itself does not say.

A key lives in the partition in which a full compaction would leave rows of it: after a delete it lives nowhere, and a
retract that waits for its row keeps it where it is. So where a key lives does not depend on what was compacted when.

The hash indexes of all partitions, joined in maps (key_map.py), name the buckets that may hold the key; the rows there
tell. So nothing that is kept beside the table can make an answer differ from the table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_layers import LivingLayers
from lsmerge.engine.lookup import POSITION, merged_rows, numbered
from lsmerge.engine.merging import composed
from lsmerge.engine.places import candidates
from lsmerge.merge.groups import Groups, row_numbers
from lsmerge.merge.order import FORGET_ALL
from lsmerge.meta.data_file import BucketId, DataFile, Partition
from lsmerge.meta.version import Version
from lsmerge.rowkind import SEQUENCE_COLUMN

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Homes:
    """The partitions of a table as one commit sees them."""

    context: TableContext
    version: Version | None
    partitions: Sequence[Partition]
    layers: Sequence[LivingLayers]
    own_files: Callable[[BucketId], Sequence[DataFile]]

    def of(self, keys: pa.RecordBatch, here: pa.Array) -> pa.Array:
        """The number of the partition where each key lives, NOWHERE if it does not.

        `keys` are distinct, `here` has the number of the partition that each is written to. Living elsewhere is
        looked for; that a key lives here may also be said of one that only shares its hash with another.
        """
        import pyarrow.compute as pc

        elsewhere: list[tuple[int, pa.Array]] = []
        perhaps_here: list[tuple[int, pa.Array]] = []
        numbers = {partition: number for number, partition in enumerate(self.partitions)}
        found = list(candidates(self.context.schema, self.layers, numbered(keys)))
        if self.version is not None:
            # In one pass: one for each bucket would look at the entries of all of them every time.
            self.version.preload([place for place, _ in found])
        for place, rows in found:
            number = numbers[place.partition]
            is_here = pc.equal(here.take(rows.column(POSITION)), pa.scalar(number, pa.int32()))
            perhaps_here.append((number, rows.filter(is_here).column(POSITION)))
            elsewhere.append((number, self._living(place, rows.filter(pc.invert(is_here)))))
        return _first_of([*elsewhere, *perhaps_here], keys.num_rows)

    def _living(self, place: BucketId, keys: pa.RecordBatch) -> pa.Array:
        """The positions of the keys that live in a bucket."""
        forgotten = self._forgotten_before
        stored = self.version.files(place) if self.version else ()
        files = [f for f in (*stored, *self._own(place)) if f.sequence_max >= forgotten]
        if keys.num_rows == 0 or not files:
            return pa.array([], pa.int64())
        rows = merged_rows(self.context, files, keys, self._kept, self._read)
        return pa.array([], pa.int64()) if rows is None else rows.column(POSITION)

    def _kept(self, groups: Groups) -> pa.RecordBatch:
        """The keys of which a full compaction would keep rows, without those not written for too long."""
        import pyarrow.compute as pc

        if self._read is None:
            rows = composed(self.context, groups, FORGET_ALL)
        else:
            rows = self.context.engine.resolve(groups, [SEQUENCE_COLUMN, *self._read])
        forgotten = pa.scalar(self._forgotten_before, pa.int64())
        remembered = rows.filter(pc.greater_equal(rows.column(SEQUENCE_COLUMN), forgotten))
        return remembered.select(list(self.context.schema.trimmed_key))

    @property
    def _read(self) -> Sequence[str] | None:
        """The columns that tell whether a key lives: the key alone where what is kept of it is what is visible."""
        schema = self.context.schema
        return schema.trimmed_key if self.context.engine.one_row_per_key else None

    def _own(self, place: BucketId) -> list[DataFile]:
        """The commit's own runs of a bucket, numbered as if they were published now."""
        base = self.version.snapshot.next_sequence if self.version else 0
        based = []
        for file in self.own_files(place):
            based.append(file.based_at(base))
            base += file.run.sequence_max + 1
        return based

    @property
    def _forgotten_before(self) -> int:
        """Rows with smaller sequence numbers keep no key at home."""
        ttl_ms = self.context.options.cross_partition_upsert_index_ttl_ms
        if ttl_ms is None or self.version is None:
            return 0
        return self.version.snapshot.sequence_at(self.context.env.now_ms() - ttl_ms)


def _first_of(found: Sequence[tuple[int, pa.Array]], count: int) -> pa.Array:
    """For each of `count` positions the first number that is given with it, else NOWHERE."""
    import pyarrow.compute as pc

    positions = pa.concat_arrays([pa.array([], pa.int64()), *(some for _, some in found)])
    numbers = pa.concat_arrays(
        [
            pa.array([], pa.int32()),
            *(pa.repeat(pa.scalar(number, pa.int32()), len(some)) for number, some in found),
        ]
    )
    entries = pc.index_in(row_numbers(count), value_set=positions)
    return numbers.take(entries).fill_null(NOWHERE)
