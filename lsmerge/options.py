"""Table options: from what a user spells to one frozen, typed, consistent `TableOptions`.

Two steps. `resolve` knows names and values: aliases become canonical names, unknown names and
malformed values are refused; its result is what a schema file stores. `TableOptions` knows meaning:
features this version lacks, options that contradict each other, columns that do not exist. Both
run when a table is created and again when it is opened, so a table that needs a later version is
refused rather than misread.

`python -m lsmerge.options` prints docs/options.md.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Self

from lsmerge.errors import InvalidOptionError
from lsmerge.merge_mode import CUSTOM, settle
from lsmerge.option import Option
from lsmerge.option_registry import MAX_LEVELS, OPTIONS, SECTIONS
from lsmerge.schema import TableSchema, unknown_name
from lsmerge.types import TEXT_KINDS, is_key_type


def resolve(raw: Mapping[str, object]) -> dict[str, str]:
    """Canonical names and texts; the result resolves to itself."""
    if not isinstance(raw, Mapping):
        raise InvalidOptionError(
            f"options = {raw!r}: pass a mapping from names to values, such as {{'bucket': 4}}"
        )
    resolved: dict[str, str] = {}
    spelled_as: dict[str, str] = {}
    for spelled, value in raw.items():
        option, name = find(spelled)
        text = _canonical_value(option, spelled, value)
        if resolved.get(name, text) != text:
            raise InvalidOptionError(
                f"option {spelled!r} = {text!r} contradicts {spelled_as[name]!r} = "
                f"{resolved[name]!r}: both mean {name!r}; give one of them"
            )
        resolved[name] = text
        spelled_as[name] = spelled
    _add_dialect_defaults(resolved, spelled_as)
    return settle(resolved, spelled_as)


def _add_dialect_defaults(resolved: dict[str, str], spelled_as: Mapping[str, str]) -> None:
    """A table defined in Fluss' words gets Fluss' defaults, stored as if they had been given."""
    if spelled_as.get("merge-engine") == "table.merge-engine":
        resolved.setdefault("delete.behavior", "ignore")


def check_dialect(raw: Mapping[str, object], schema: TableSchema) -> None:
    """What only a table defined in Fluss' words refuses."""
    if "table.merge-engine" not in raw:
        return
    for column in schema.columns:
        option = f"fields.{column.name}.agg"
        function = str(raw.get(option, "")).lower()
        if function and column.name in schema.primary_key:
            raise InvalidOptionError(f"option {option!r}: a primary key column has no function")
        if function in ("max", "min") and column.type.kind in _UNORDERED_IN_FLUSS:
            raise InvalidOptionError(
                f"option {option!r} = {function!r}: type {column.type} has no order there; "
                "use merge-engine instead of table.merge-engine to compare it"
            )


_UNORDERED_IN_FLUSS = frozenset({"BOOLEAN", "BINARY", "VARBINARY", "BYTES"})


@lru_cache(maxsize=1024)
def find(spelled: str) -> tuple[Option, str]:
    """The option meant by a name or alias, and its canonical name with placeholders filled in."""
    for option in OPTIONS:
        name = option.canonical_name(spelled) if isinstance(spelled, str) else None
        if name is not None:
            return option, name
    known = [name for option in OPTIONS for name in (option.name, *option.aliases)]
    raise InvalidOptionError(unknown_name("option", spelled, known, _WHERE_OPTIONS_ARE))


_WHERE_OPTIONS_ARE = (
    "docs/options.md lists them all, and docs/coming-from-paimon.md, -fluss.md and -hudi.md say what to use instead of "
    "those that are not here"
)


def _canonical_value(option: Option, spelled: str, value: object) -> str:
    text = option.type.canonical(_as_text(spelled, value))
    try:
        option.type.parse(text)
    except ValueError as error:
        raise InvalidOptionError(f"option {spelled!r} = {value!r}: {error}") from error
    return text


def _as_text(spelled: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise InvalidOptionError(
        f"option {spelled!r} = {value!r}: give text, a whole number, a boolean or a list of names"
    )


@dataclass(frozen=True)
class TableOptions:
    """Every option this version reads; sizes in bytes.

    A field is named after its option, `.` and `-` becoming `_`; durations end in `_ms`. None and ()
    mean not given; `num_levels` and `num_sorted_run_stop_trigger`, whose defaults follow another option, are always
    filled in.
    """

    merge_engine: str
    merge_engine_versioned_ver_column: str | None
    delete_behavior: str | None
    partial_update_remove_record_on_delete: bool
    partial_update_remove_record_on_sequence_group: tuple[str, ...]
    aggregation_remove_record_on_delete: bool
    sequence_field: tuple[str, ...]
    sequence_field_sort_order: str
    sequence_auto_padding: tuple[str, ...]
    ignore_delete: bool
    changelog_producer: str
    changelog_producer_row_deduplicate: bool
    changelog_producer_row_deduplicate_ignore_fields: tuple[str, ...]
    rowkind_field: str | None
    record_merge_mode: str | None
    record_merge_strategy_id: str | None
    record_merge_implementations: tuple[str, ...]
    record_merge_ordering_fields: tuple[str, ...]
    record_merge_partial_mode: str | None
    record_merge_unavailable_value: str | None
    record_merge_delete_field: str | None
    record_merge_delete_marker: str | None
    record_merge_combine_before_upsert: bool | None
    streaming_read_overwrite: bool
    bucket: int
    bucket_key: tuple[str, ...]
    dynamic_bucket_target_row_num: int
    dynamic_bucket_initial_buckets: int
    dynamic_bucket_max_buckets: int
    cross_partition_upsert_index_ttl_ms: int | None
    cross_partition_upsert_index_directory: str | None
    file_format: str | None
    file_format_per_level: tuple[tuple[int, str], ...]
    file_compression: str | None
    file_compression_per_level: tuple[tuple[int, str], ...]
    file_compression_zstd_level: int
    file_block_size: int
    file_filter_bits_per_key: int
    target_file_size: int
    write_buffer_size: int
    write_only: bool
    compaction_mode: str
    full_compaction_delta_commits: int | None
    num_sorted_run_compaction_trigger: int
    num_sorted_run_stop_trigger: int
    num_levels: int
    compaction_max_size_amplification_percent: int
    compaction_size_ratio: int
    tombstone_retention_ms: int
    changelog_num_retained_min: int | None
    changelog_num_retained_max: int | None
    changelog_time_retained_ms: int | None
    snapshot_num_retained_min: int | None
    snapshot_num_retained_max: int | None
    snapshot_time_retained_ms: int | None
    scan_memory_budget: int
    lookup_cache_max_memory_size: int
    lookup_cache_max_disk_size: int
    lookup_cache_file_retention_ms: int

    @classmethod
    def of(cls, schema: TableSchema) -> Self:
        """The options of a table, checked against its columns."""
        options = cls.parse(schema.options)
        _check_columns(options, schema)
        return options

    @classmethod
    def parse(cls, raw: Mapping[str, object]) -> Self:
        """The options of a table whose columns are not known yet."""
        resolved = resolve(raw)
        _check_available(resolved)
        values = {field.name: _value(field.name, resolved) for field in fields(cls)}
        trigger = values["num_sorted_run_compaction_trigger"]
        assert isinstance(trigger, int)
        if values["num_levels"] is None:
            values["num_levels"] = min(trigger + 1, MAX_LEVELS)
        if values["num_sorted_run_stop_trigger"] is None:
            values["num_sorted_run_stop_trigger"] = trigger + 3
        if resolved.get("changelog-producer") == "full-compaction":
            # Changes come from full compactions, so that by default each commit has its own.
            values["full_compaction_delta_commits"] = values["full_compaction_delta_commits"] or 1
        options = cls(**values)  # type: ignore[arg-type]
        _check_consistent(options)
        return options

    @property
    def sequence_descending(self) -> bool:
        """Whether the smallest sequence is the newest."""
        return self.sequence_field_sort_order == "descending"

    @property
    def has_dynamic_buckets(self) -> bool:
        """Whether an index, not the hash alone, says which bucket a key is in."""
        return self.bucket == -1

    def format_at(self, level: int) -> str:
        """File format of a level."""
        default = self.file_format or ("arrow" if level == 0 else "parquet")
        return dict(self.file_format_per_level).get(level, default)

    def compression_at(self, level: int) -> str:
        """Compression of a level."""
        natural = "none" if self.format_at(level) == "arrow" else "zstd"
        default = self.file_compression or natural
        return dict(self.file_compression_per_level).get(level, default)


def _attribute(option: Option) -> str:
    plain = option.name.replace(".", "_").replace("-", "_")
    return f"{plain}_ms" if option.type.label == "duration" else plain


_OPTION_OF: dict[str, Option] = {_attribute(option): option for option in OPTIONS}
_EMPTY_TUPLE = frozenset(
    {
        "sequence_field",
        "sequence_auto_padding",
        "partial_update_remove_record_on_sequence_group",
        "record_merge_implementations",
        "record_merge_ordering_fields",
        "bucket_key",
        "changelog_producer_row_deduplicate_ignore_fields",
        "file_format_per_level",
        "file_compression_per_level",
    }
)


def _value(attribute: str, resolved: Mapping[str, str]) -> object:
    option = _OPTION_OF[attribute]
    text = resolved.get(option.name, option.default)
    if text is None:
        return () if attribute in _EMPTY_TUPLE else None
    return option.type.parse(text)


def differences(there: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """In words, the options that mean something else in the other table; spelling does not matter."""
    found, wanted = _meanings(there, asked), _meanings(asked, there)
    return ", ".join(
        f"{name} is {found[name]!r} there, {wanted[name]!r} here"
        for name in sorted(found)
        if found[name] != wanted[name]
    )


def _meanings(raw: Mapping[str, str], other: Mapping[str, str]) -> dict[str, object]:
    """The value of every option that either table was given or that `TableOptions` holds, by name.

    Options of single columns have no field in `TableOptions`, hence both sources.
    """
    resolved = resolve(raw)
    given = {name: find(name)[0] for name in {*resolved, *resolve(other)}}
    texts = {name: resolved.get(name, option.default) for name, option in given.items()}
    values = {n: None if t is None else given[n].type.parse(t) for n, t in texts.items()}
    options = TableOptions.parse(raw)
    derived = {_OPTION_OF[f.name].name: getattr(options, f.name) for f in fields(options)}
    return {**values, **derived}


# ------------------------------------------------------------------------------------------ rules


def _check_available(resolved: Mapping[str, str]) -> None:
    for name, value in resolved.items():
        option, _ = find(name)
        if option.reader is not None:
            raise InvalidOptionError(
                f"option {name!r} = {value!r} is a matter of each reader, not of the table: say it by {option.reader}"
            )
        if not option.is_available(value):
            raise InvalidOptionError(f"{name}={value} is not available in this version of lsmerge")


def _check_consistent(options: TableOptions) -> None:
    _check_retention(options)
    for name in ("file.format.per.level", "file.compression.per.level"):
        for level, _ in getattr(options, _attribute(find(name)[0])):
            if level >= options.num_levels:
                raise InvalidOptionError(
                    f"option {name!r} names level {level}; the table has levels 0 to "
                    f"{options.num_levels - 1} (num-levels)"
                )
    trigger, stop = options.num_sorted_run_compaction_trigger, options.num_sorted_run_stop_trigger
    if stop < trigger:
        raise InvalidOptionError(
            f"option 'num-sorted-run.stop-trigger' = {stop}: fewer runs than start a compaction "
            f"(num-sorted-run.compaction-trigger = {trigger}); give {trigger} or more"
        )
    _check_producer(options)


def _check_producer(options: TableOptions) -> None:
    producer = options.changelog_producer
    compares = producer in ("lookup", "full-compaction")
    if options.merge_engine == "first-row" and producer not in ("none", "lookup"):
        raise InvalidOptionError(
            f"option 'changelog-producer' = {producer!r} contradicts merge-engine=first-row: "
            "rows after the first change nothing, which only lookup can tell; use lookup or none"
        )
    if options.changelog_producer_row_deduplicate and not compares:
        raise InvalidOptionError(
            f"option 'changelog-producer.row-deduplicate' contradicts changelog-producer={producer}, which compares "
            "no rows; use it with lookup or full-compaction"
        )
    if (
        options.changelog_producer_row_deduplicate_ignore_fields
        and not options.changelog_producer_row_deduplicate
    ):
        raise InvalidOptionError(
            "option 'changelog-producer.row-deduplicate-ignore-fields' needs "
            "changelog-producer.row-deduplicate=true"
        )
    if options.streaming_read_overwrite and compares:
        raise InvalidOptionError(
            f"option 'streaming-read-overwrite' contradicts changelog-producer={producer}: what an overwrite changed "
            "would be told twice, or out of turn; use it with none or input"
        )


def _check_retention(options: TableOptions) -> None:
    snapshots = options.snapshot_num_retained_min, options.snapshot_num_retained_max
    changes = options.changelog_num_retained_min, options.changelog_num_retained_max
    _check_at_least("snapshot", *snapshots)
    _check_at_least("changelog", *changes)
    given = {
        "changelog.num-retained.min": options.changelog_num_retained_min,
        "changelog.num-retained.max": options.changelog_num_retained_max,
        "changelog.time-retained": options.changelog_time_retained_ms,
    }
    named = next((name for name, value in given.items() if value is not None), None)
    if named is not None and options.changelog_producer == "none":
        raise InvalidOptionError(
            f"option {named!r} needs a changelog of its own to keep: without a changelog-producer the changes are "
            "in the data files; use changelog-producer = input, lookup or full-compaction, or keep more snapshots"
        )


def _check_at_least(what: str, at_least: int | None, at_most: int | None) -> None:
    if at_least is not None and at_most is not None and at_least > at_most:
        raise InvalidOptionError(
            f"option '{what}.num-retained.min' = {at_least} is more than "
            f"'{what}.num-retained.max' = {at_most}; give a smaller one"
        )


def _check_columns(options: TableOptions, schema: TableSchema) -> None:
    _check_order("sequence.field", options.sequence_field, schema)
    if options.record_merge_mode == CUSTOM:
        fields = options.record_merge_ordering_fields
        _distinct_columns("record.merge.ordering-fields", fields, schema)
    else:
        _check_order("record.merge.ordering-fields", options.record_merge_ordering_fields, schema)
    for name in _distinct_columns("bucket-key", options.bucket_key, schema):
        if name not in schema.trimmed_key:
            raise InvalidOptionError(
                f"option 'bucket-key' = {name!r}: must be a primary key column that is not a "
                f"partition column; accepted: {', '.join(schema.trimmed_key)}"
            )
    option = "changelog-producer.row-deduplicate-ignore-fields"
    _distinct_columns(option, options.changelog_producer_row_deduplicate_ignore_fields, schema)
    if options.bucket_key and options.has_dynamic_buckets:
        raise InvalidOptionError(
            "option 'bucket-key' contradicts 'bucket' = '-1': a dynamic bucket is chosen by the whole key"
        )
    if options.rowkind_field is not None:
        _check_rowkind_field(options.rowkind_field, schema)
    _check_partitions(options, schema)


def _check_order(option: str, names: tuple[str, ...], schema: TableSchema) -> None:
    for name in _distinct_columns(option, names, schema):
        if not is_key_type(schema.column(name).type):
            raise InvalidOptionError(
                f"option {option!r} = {name!r}: type {schema.column(name).type} has no "
                "order; use a column of scalar type"
            )


def _distinct_columns(option: str, names: tuple[str, ...], schema: TableSchema) -> tuple[str, ...]:
    for position, name in enumerate(names):
        if name not in schema:
            reason = unknown_name("column", name, schema.column_names)
            raise InvalidOptionError(f"option {option!r}: {reason}")
        if name in names[:position]:
            raise InvalidOptionError(f"option {option!r}: column {name!r} is listed twice")
    return names


def _check_rowkind_field(name: str, schema: TableSchema) -> None:
    _distinct_columns("rowkind.field", (name,), schema)
    if schema.column(name).type.kind not in TEXT_KINDS:
        raise InvalidOptionError(
            f"option 'rowkind.field' = {name!r}: type {schema.column(name).type} cannot hold "
            "+I, -U, +U, -D; use a STRING column"
        )


def _check_partitions(options: TableOptions, schema: TableSchema) -> None:
    """A key that may change its partition is found by an index, and the newest of its rows by arrival."""
    outside = [name for name in schema.partition_by if name not in schema.primary_key]
    if not outside:
        return
    reason = f"partition column {outside[0]!r} is not part of the primary key, so rows may move between partitions"
    if not options.has_dynamic_buckets:
        raise InvalidOptionError(
            f"option 'bucket' = '{options.bucket}': {reason}, which only dynamic buckets follow; "
            "set bucket=-1, or add the column to the primary key"
        )
    for option, is_given in (
        ("sequence.field", options.sequence_field),
        ("record.merge.mode", options.record_merge_mode),
        ("merge-engine' = 'versioned", options.merge_engine == "versioned"),
        (
            "partial-update.remove-record-on-sequence-group",
            options.partial_update_remove_record_on_sequence_group,
        ),
    ):
        if is_given:
            raise InvalidOptionError(
                f"option '{option}': {reason}, and where a key lives follows the arrival of its rows alone; "
                "add the partition column to the primary key"
            )
    if options.changelog_producer == "input":
        raise InvalidOptionError(
            f"option 'changelog-producer' = 'input': {reason}, and rows are kept as they are placed, not as they came; "
            "use lookup or none, or add the partition column to the primary key"
        )


# ------------------------------------------------------------------------------------------ docs


def docs_table() -> str:
    """The text of docs/options.md."""
    parts = [
        "# Options",
        "",
        "Made by `python -m lsmerge.options`; edit the registry instead.",
        "An unknown option is an error.",
        "Options and values marked *later* are known but not available in this version.",
        "What is marked *of readers* is refused too: it is said by each read.",
        "*Fixed* options cannot be changed after the table was created.",
    ]
    for title, options in SECTIONS.items():
        parts += ["", f"## {title}", "", "| option | values | default | | meaning |"]
        parts += ["|---|---|---|---|---|", *map(_docs_row, options)]
    return "\n".join(parts) + "\n"


def _docs_row(option: Option) -> str:
    names = [f"`{option.name}`", *(f"also `{alias}`" for alias in option.aliases)]
    values = option.type.label
    if option.later:
        values += f" (later: {', '.join(sorted(option.later))})"
    default = "" if option.default is None else f"`{option.default}`"
    state = "of readers" if option.reader else "later"
    marks = [state] * (not option.available) + ["fixed"] * (not option.mutable)
    cells = ("<br>".join(names), values, default, ", ".join(marks), option.doc)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(docs_table())
