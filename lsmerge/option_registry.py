"""Every option there is: its canonical name, other spellings, type, default and meaning.

Features that do not exist yet are switched off here and nowhere else: `available=False` for a whole
option, `later` for single values. Such an option may still be given its default, which changes
nothing; anything else is refused.
"""

from collections.abc import Iterator, Mapping

from lsmerge.option import Option
from lsmerge.option_types import (
    OptionType,
    boolean,
    choice,
    choice_list,
    duration_ms,
    integer,
    memory_size,
    name,
    name_list,
    non_empty_text,
    per_level,
    text,
)

# A manifest holds a level in one signed byte.
MAX_LEVELS = 127
# Of a partition. What work there is for each of its buckets is bounded by it, also where a file was forged.
MAX_BUCKETS = 2**15 - 1


def _merging() -> Iterator[Option]:
    yield Option(
        "merge-engine",
        choice("deduplicate", "partial-update", "aggregation", "first-row", "versioned"),
        "deduplicate",
        "What several rows with one key mean together.",
        aliases=("table.merge-engine",),
    )
    yield Option(
        "sequence.field",
        name_list(),
        None,
        "Columns that order the rows of a key before arrival does; null is oldest.",
    )
    yield Option(
        "sequence.field.sort-order",
        choice("ascending", "descending"),
        "ascending",
        "Whether the largest or the smallest sequence is the newest.",
    )
    yield Option(
        "sequence.auto-padding",
        choice_list("row-kind-flag", "second-to-micro", "millis-to-micro"),
        None,
        "How a coarse sequence is refined: retracts before adds, and by arrival within a second or millisecond.",
    )
    yield Option(
        "ignore-delete",
        boolean(),
        "false",
        "Drop `-D` and `-U` rows before anything else.",
        aliases=(
            "partial-update.ignore-delete",
            "first-row.ignore-delete",
            "deduplicate.ignore-delete",
        ),
        mutable=True,
    )
    yield Option(
        "rowkind.field",
        name(),
        None,
        "Text column that holds the row kind (`+I`, `-U`, `+U`, `-D`); overrides `_row_kind`.",
    )
    yield Option(
        "delete.behavior",
        choice("allow", "ignore", "disable"),
        None,
        "Whether deletes take effect, are dropped, or fail the commit.",
        aliases=("table.delete.behavior",),
    )
    yield Option(
        "merge-engine.versioned.ver-column",
        name(),
        None,
        "The version column of the versioned engine.",
        aliases=("table.merge-engine.versioned.ver-column",),
    )
    yield Option(
        "partial-update.remove-record-on-delete",
        boolean(),
        "false",
        "`-D` removes the row of a partial-update table.",
    )
    yield Option(
        "partial-update.remove-record-on-sequence-group",
        name_list(),
        None,
        "Sequence groups whose accepted `-D` removes the row.",
    )
    yield Option(
        "aggregation.remove-record-on-delete",
        boolean(),
        "false",
        "`-D` removes the row of an aggregation table.",
    )


def _fields() -> Iterator[Option]:
    def column(suffix: str, kind: OptionType, doc: str, *aliases: str) -> Option:
        return Option(f"fields.<f>.{suffix}", kind, None, doc, aliases)

    yield Option(
        "fields.default-aggregate-function",
        name(),
        None,
        "Function of columns without one of their own.",
    )
    yield column("sequence-group", name_list(), "Columns whose values are ordered by `<f>`.")
    yield column(
        "aggregate-function", name(), "How values of the column are combined.", "fields.<f>.agg"
    )
    yield column(
        "<function>.delimiter",
        non_empty_text(),
        "Text between joined values.",
        "fields.<f>.list-agg-delimiter",
    )
    yield column("distinct", boolean(), "Keep each value once (`listagg`, `collect`).")
    yield column("ignore-retract", boolean(), "Retracts leave the column as it is.")
    yield column("default-value", text(), "Read instead of null; never stored.")
    yield column(
        "on-overflow", choice("error", "wrap", "null"), "What `sum` and `product` do at the limit."
    )
    yield column(
        "nested-key",
        name_list(),
        "Key of the rows inside the column (`nested_update`).",
    )
    yield column(
        "nested-sequence-field",
        name_list(),
        "Order of the rows inside the column.",
    )
    yield column(
        "nested-key-null-strategy",
        choice("merge", "ignore", "error"),
        "What rows inside the column with a null key do.",
    )
    yield column("count-limit", integer(1), "Most rows that `nested_update` keeps.")
    yield column("ts-field", name(), "Timestamp field of `merge_map_with_keytime`.")


def _record_merge() -> Iterator[Option]:
    def merge(suffix: str, kind: OptionType, doc: str, *aliases: str) -> Option:
        return Option(f"record.merge.{suffix}", kind, None, doc, aliases)

    yield Option(
        "record.merge.mode",
        choice("commit-time-ordering", "event-time-ordering", "custom"),
        None,
        "Which of two rows with one key is newer (custom: a merger registered with `register_merger` says); without "
        "it, what the options below say.",
        aliases=("hoodie.write.record.merge.mode", "hoodie.record.merge.mode"),
    )
    yield merge(
        "ordering-fields",
        name_list(),
        "Event-time columns, compared in the order listed; a custom merger sees them as `record.ordering`.",
        "hoodie.table.ordering.fields",
        "hoodie.table.precombine.field",
        "hoodie.datasource.write.precombine.field",
        "hoodie.payload.ordering.field",
        "ordering.fields",
        "precombine.field",
        "write.precombine.field",
    )
    yield merge(
        "strategy-id",
        name(),
        "Id of a merge strategy; one that is not built in is that, or the registered name, of a custom merger.",
        "hoodie.write.record.merge.strategy.id",
        "hoodie.record.merge.strategy.id",
        "hoodie.datasource.write.record.merger.strategy",
        "hoodie.compaction.record.merger.strategy",
    )
    yield merge(
        "implementations",
        name_list(),
        "Registered names of custom mergers; the first with the strategy id is used. Nothing is ever imported.",
        "hoodie.write.record.merge.custom.implementation.classes",
        "hoodie.datasource.write.record.merger.impls",
        "record.merger.impls",
    )
    yield merge(
        "payload",
        name(),
        "Payload class whose meaning is taken over; stored as the options it stands for.",
        "hoodie.datasource.write.payload.class",
        "hoodie.compaction.payload.class",
        "hoodie.table.legacy.payload.class",
        "payload.class",
        "write.payload.class",
    )
    yield merge(
        "partial-mode",
        choice("ignore-defaults", "fill-unavailable"),
        "Which columns of a newer row leave the older value: null ones, or those that hold a marker.",
        "hoodie.table.partial.update.mode",
    )
    yield merge(
        "unavailable-value",
        text(),
        "Marker of a value that was not sent.",
        "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value",
    )
    yield merge(
        "delete-field",
        name(),
        "Column that marks deletes.",
        "hoodie.payload.delete.field",
        "hoodie.record.merge.property.hoodie.payload.delete.field",
    )
    yield merge(
        "delete-marker",
        text(),
        "Its value on deletes, as text.",
        "hoodie.payload.delete.marker",
        "hoodie.record.merge.property.hoodie.payload.delete.marker",
    )
    yield merge(
        "combine-before-upsert",
        boolean(),
        "Partial updates by event time: combine the rows of a commit with each other before older ones. "
        "By default only in tables defined in Hudi's words.",
        "hoodie.combine.before.upsert",
    )


def of_reader(spelled: str, kind: OptionType, reader: str) -> Option:
    """What Paimon's readers take as an option and a read says here; no option of a table."""
    doc = f"Not an option of a table, whose readers differ: `{reader}` says it."
    return Option(spelled, kind, None, doc, mutable=True, available=False, reader=reader)


def _changelog() -> Iterator[Option]:
    yield Option(
        "changelog-producer",
        choice("none", "input", "lookup", "full-compaction"),
        "none",
        "How the changelog is made.",
    )
    yield Option(
        "changelog-producer.row-deduplicate",
        boolean(),
        "false",
        "Leave out updates that change nothing.",
    )
    yield Option(
        "changelog-producer.row-deduplicate-ignore-fields",
        name_list(),
        None,
        "Columns that do not count as a change.",
    )
    yield Option(
        "full-compaction.delta-commits",
        integer(1),
        None,
        "A full compaction after every so many commits; by default none is forced, and with changelog-producer = "
        "full-compaction one after every commit.",
        mutable=True,
    )
    yield Option(
        "streaming-read-overwrite",
        boolean(),
        "false",
        "Show followers of the changelog what an overwrite took away and brought.",
        mutable=True,
    )
    yield of_reader("consumer-id", name(), "changelog(consumer=...)")


def _buckets() -> Iterator[Option]:
    yield Option(
        "bucket",
        integer(1, MAX_BUCKETS, except_for=(-1,)),
        "1",
        "Number of buckets per partition; -1: as many as the rows need (docs/buckets.md).",
    )
    yield Option(
        "bucket-key",
        name_list(),
        None,
        "Columns whose hash chooses the fixed bucket; by default the primary key.",
    )
    yield Option(
        "dynamic-bucket.target-row-num",
        integer(1),
        "2000000",
        "Keys in a dynamic bucket before the next one is opened.",
        mutable=True,
    )
    yield Option(
        "dynamic-bucket.initial-buckets",
        integer(1, MAX_BUCKETS),
        "1",
        "Dynamic buckets that a partition starts with; its first keys are spread over them.",
        mutable=True,
    )
    yield Option(
        "dynamic-bucket.max-buckets",
        integer(1, MAX_BUCKETS, except_for=(-1,)),
        "-1",
        "Most dynamic buckets of a partition, further keys are spread over all; -1: no limit.",
        mutable=True,
    )
    yield Option(
        "cross-partition-upsert.index-ttl",
        duration_ms(),
        None,
        "How long a key that is not written remembers its partition, to the hour; by default for ever.",
    )
    yield Option(
        "cross-partition-upsert.index-directory",
        non_empty_text(),
        None,
        "Local directory that keeps the map of where keys may be for the next process; by default there is none.",
        mutable=True,
    )


def _files() -> Iterator[Option]:
    formats, codecs = ("arrow", "parquet"), ("none", "lz4", "zstd")

    def tuning(suffix: str, kind: OptionType, default: str | None, doc: str) -> Option:
        return Option(suffix, kind, default, doc, mutable=True)

    yield tuning("file.format", choice(*formats), None, "Format of all levels.")
    yield tuning(
        "file.format.per.level",
        per_level(*formats),
        None,
        "Format of single levels. Without either option level 0 is arrow, the others parquet.",
    )
    yield tuning("file.compression", choice(*codecs), None, "Compression of all levels.")
    yield tuning(
        "file.compression.per.level",
        per_level(*codecs),
        None,
        "Compression of single levels. Without either option arrow has none, parquet zstd.",
    )
    yield tuning("file.compression.zstd-level", integer(1, 22), "1", "Effort of zstd.")
    yield tuning(
        "file.block-size",
        memory_size(4096),
        "2 mb",
        "Size of a block before compression: the unit of reading. Parquet files of tables with more than 30 columns "
        "have larger ones, up to twice as large, where scan.memory-budget has room for 64.",
    )
    yield tuning(
        "file.filter.bits-per-key", integer(0, 32), "10", "Size of the key filter; 0: none."
    )
    yield tuning("target-file-size", memory_size(4096), "128 mb", "Size at which files are cut.")


def _trees() -> Iterator[Option]:
    def tuning(suffix: str, kind: OptionType, default: str | None, doc: str) -> Option:
        return Option(suffix, kind, default, doc, mutable=True)

    yield tuning("write-buffer-size", memory_size(4096), "256 mb", "Memory of one writer.")
    yield Option(
        "write-only",
        boolean(),
        "false",
        "Writers leave compaction to a dedicated job, which calls `compact()`.",
        mutable=True,
    )
    yield tuning(
        "compaction.mode",
        choice("inline", "background"),
        "inline",
        "Whether a writer compacts before its commit returns, or on a thread of its own.",
    )
    yield tuning(
        "num-sorted-run.compaction-trigger",
        integer(2),
        "5",
        "Runs that start a compaction. Fewer than trigger minus 1 of level 0 may wait for more of their kind, below "
        "the stop trigger.",
    )
    yield tuning(
        "num-sorted-run.stop-trigger",
        integer(2),
        None,
        "Runs beyond which a writer waits for compaction before it commits; by default the compaction trigger plus 3.",
    )
    yield tuning(
        "num-levels",
        integer(2, MAX_LEVELS),
        None,
        f"Levels; by default the compaction trigger plus 1, {MAX_LEVELS} at most. More let as many runs wait, up to "
        "the stop trigger, until runs of like size can be joined.",
    )
    yield tuning(
        "compaction.max-size-amplification-percent",
        integer(0),
        "200",
        "Size of newer runs, in percent of the oldest, that starts a full compaction.",
    )
    yield tuning(
        "compaction.size-ratio",
        integer(0),
        "1",
        "Percent by which the next run may be larger and still join a compaction.",
    )
    yield tuning(
        "tombstone.retention",
        duration_ms(),
        "7 d",
        "How long a delete is remembered for rows that arrive late, under a sequence field.",
    )
    yield tuning(
        "changelog.num-retained.min",
        integer(1),
        None,
        "Fewest snapshots whose changes are kept, whatever their age, after they expired themselves.",
    )
    yield tuning(
        "changelog.num-retained.max",
        integer(1),
        None,
        "Most snapshots whose changes are kept after they expired themselves.",
    )
    yield tuning(
        "changelog.time-retained",
        duration_ms(),
        None,
        "How long changes are kept after their snapshots expired.",
    )
    yield tuning(
        "snapshot.num-retained.min",
        integer(1),
        None,
        "Fewest snapshots kept, whatever their age; 1 if one of the two below is given.",
    )
    yield tuning(
        "snapshot.num-retained.max",
        integer(1),
        None,
        "Most snapshots kept; writers expire the rest after each commit.",
    )
    yield tuning(
        "snapshot.time-retained",
        duration_ms(),
        None,
        "How long snapshots are kept; writers expire older ones after each commit.",
    )


def _reading() -> Iterator[Option]:
    yield Option(
        "scan.memory-budget",
        memory_size(4096),
        "256 mb",
        "Memory of one scan or compaction.",
        mutable=True,
    )
    yield of_reader(
        "scan.mode",
        choice("latest-full", "latest", "from-snapshot", "from-timestamp", "earliest"),
        "changelog(start=...)",
    )
    yield of_reader("scan.snapshot-id", integer(1), "scan(snapshot=...) or changelog(start=...)")
    yield of_reader(
        "scan.timestamp-millis", integer(0), "scan(timestamp=...) or changelog(start=...)"
    )
    yield of_reader("scan.tag-name", name(), "scan(tag=...)")
    yield Option(
        "lookup.cache-max-memory-size",
        memory_size(),
        "256 mb",
        "Memory for blocks kept for lookups by key.",
        mutable=True,
    )
    yield Option(
        "lookup.cache-max-disk-size",
        memory_size(),
        "10 gb",
        "Local disk for blocks that memory has no room for, a quarter of what is free at most; 0 for none.",
        mutable=True,
    )
    yield Option(
        "lookup.cache-file-retention",
        duration_ms(),
        "1 h",
        "How long a block on local disk is kept at least after its last use; at most twice as long.",
        mutable=True,
    )


SECTIONS: Mapping[str, tuple[Option, ...]] = {
    "Merging": tuple(_merging()),
    "Columns": tuple(_fields()),
    "Record merge modes": tuple(_record_merge()),
    "Changelog": tuple(_changelog()),
    "Buckets": tuple(_buckets()),
    "Files": tuple(_files()),
    "Trees and snapshots": tuple(_trees()),
    "Reading": tuple(_reading()),
}
OPTIONS: tuple[Option, ...] = tuple(option for group in SECTIONS.values() for option in group)
