"""Options: names, values, availability, rules, documentation."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lsmerge.errors import InvalidOptionError
from lsmerge.option_registry import OPTIONS
from lsmerge.options import TableOptions, docs_table, resolve
from lsmerge.schema import TableSchema, arrow_field

ROOT = Path(__file__).parent.parent


def schema_with(options, primary_key=("k",), partition_by=()):
    fields = pa.schema(
        [
            pa.field("k", pa.int32()),
            pa.field("p", pa.int32()),
            pa.field("s", pa.int64()),
            pa.field("t", pa.string()),
            arrow_field("op", "CHAR(2)"),
            pa.field("tags", pa.list_(pa.string())),
        ]
    )
    return TableSchema.from_arrow(fields, primary_key, partition_by, resolve(options))


def refused(options, *named):
    with pytest.raises(InvalidOptionError) as caught:
        TableOptions.of(schema_with(options))
    for part in named:
        assert part in str(caught.value)


def test_defaults():
    options = TableOptions.parse({})
    assert options.bucket == 1
    assert options.write_buffer_size == 256 * 2**20
    assert options.tombstone_retention_ms == 7 * 86_400_000
    assert options.num_levels == 6
    assert [options.format_at(level) for level in (0, 1, 5)] == ["arrow", "parquet", "parquet"]
    assert [options.compression_at(level) for level in (0, 1)] == ["none", "zstd"]


def test_every_default_is_a_value_of_its_type():
    for option in OPTIONS:
        if option.default is not None:
            assert option.is_available(option.type.canonical(option.default)), option.name


def test_names_and_aliases_are_given_once():
    names = [name for option in OPTIONS for name in (option.name, *option.aliases)]
    assert len(names) == len(set(names))


def test_aliases_lead_to_one_name():
    assert resolve({"table.merge-engine": "FIRST_ROW"})["merge-engine"] == "first-row"
    assert resolve({"partial-update.ignore-delete": True}) == {"ignore-delete": "true"}
    assert resolve({"fields.a.b.agg": "sum"}) == {"fields.a.b.aggregate-function": "sum"}
    assert resolve({"fields.v.list-agg-delimiter": " | "}) == {"fields.v.listagg.delimiter": " | "}
    assert resolve({"fields.g_1,g_2.sequence-group": "a,b"}) == {
        "fields.g_1,g_2.sequence-group": "a,b"
    }


def test_resolved_options_resolve_to_themselves():
    once = resolve({"bucket": 4, "sequence.field": ["s", "t"], "target-file-size": "1 GB"})
    assert once == {"bucket": "4", "sequence.field": "s,t", "target-file-size": "1 GB"}
    assert resolve(once) == once


def test_two_spellings_may_agree_but_not_differ():
    assert resolve({"ignore-delete": "true", "deduplicate.ignore-delete": "TRUE"})
    with pytest.raises(InvalidOptionError, match=r"'deduplicate.ignore-delete'.*'ignore-delete'"):
        resolve({"ignore-delete": "true", "deduplicate.ignore-delete": "false"})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("buckets", "'bucket'"), ("merge.engine", "'merge-engine'"), ("Bucket", "'bucket'")],
)
def test_unknown_option_names_the_nearest(name, nearest):
    with pytest.raises(InvalidOptionError, match=f"did you mean {nearest}"):
        resolve({name: "1"})


def test_an_option_like_no_other_is_answered_by_where_they_are_listed():
    with pytest.raises(
        InvalidOptionError, match=r"'lookup-wait'; docs/options.md .*paimon"
    ) as caught:
        resolve({"lookup-wait": "true"})
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "name", [3, None, "", "fields..agg", "fields.v.listagg.separator", "x" * 999]
)
def test_strange_names_are_refused(name):
    with pytest.raises(InvalidOptionError, match="unknown option"):
        resolve({name: "1"})


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64kb", 65536), ("2 MiB", 2**21), ("1 g", 2**30)]
)
def test_memory_sizes(text, size):
    assert TableOptions.parse({"target-file-size": text}).target_file_size == size


@pytest.mark.parametrize(
    ("text", "span"), [("500 ms", 500), ("2s", 2000), ("3 MIN", 180_000), ("1 h", 3_600_000)]
)
def test_durations(text, span):
    assert TableOptions.parse({"tombstone.retention": text}).tombstone_retention_ms == span


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target-file-size", "1.5 mb"),
        ("target-file-size", "-1 mb"),
        ("target-file-size", "10 parsecs"),
        ("target-file-size", "100"),
        ("target-file-size", "9999999999999999999 tb"),
        ("target-file-size", "\uff11\uff12 mb"),
        ("tombstone.retention", "7"),
        ("tombstone.retention", "7 years"),
        ("tombstone.retention", ""),
        ("bucket", "0"),
        ("bucket", "-2"),
        ("bucket", "1e3"),
        ("bucket", "one"),
        ("bucket", "9" * 5000),
        ("bucket", None),
        ("bucket", 1.5),
        ("bucket", [1]),
        ("ignore-delete", "yes"),
        ("merge-engine", "newest"),
        ("sequence.field", ""),
        ("sequence.field", "a,,b"),
        ("rowkind.field", " "),
        ("file.format.per.level", "arrow"),
        ("file.format.per.level", "0:arrow,0:parquet"),
        ("file.format.per.level", "0:orc"),
        ("fields.v.listagg.delimiter", ""),
    ],
)
def test_malformed_values_name_option_and_what_is_accepted(name, value):
    with pytest.raises(InvalidOptionError) as caught:
        resolve({name: value})
    assert name in str(caught.value)
    assert "accepted" in str(caught.value) or "give text" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("consumer-id", "me", "changelog(consumer="),
        ("scan.mode", "latest", "changelog(start="),
        ("scan.snapshot-id", "3", "scan(snapshot="),
        ("scan.timestamp-millis", "3", "scan(timestamp="),
        ("scan.tag-name", "t", "scan(tag="),
    ],
)
def test_what_readers_say_is_no_option_of_a_table(name, value, way_out):
    refused({name: value}, f"{name!r} = {value!r}", way_out)


def test_an_option_to_come_may_be_given_its_default():
    TableOptions.parse({"changelog-producer": "none", "bucket": "+1"})


DEDUPLICATED = {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}
IGNORED = "changelog-producer.row-deduplicate-ignore-fields"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sequence.field": "nope"}, "'nope'"),
        ({"sequence.field": "s,s"}, "twice"),
        ({"sequence.field": "tags"}, "ARRAY<STRING>"),
        ({"bucket": "4", "bucket-key": "s"}, "accepted: k"),
        ({"bucket": "4", "bucket-key": "k,k"}, "twice"),
        ({"rowkind.field": "nope"}, "'nope'"),
        ({"rowkind.field": "s"}, "STRING"),
        ({"file.format.per.level": "6:arrow"}, "levels 0 to 5"),
        ({"changelog-producer": "input", "merge-engine": "first-row"}, "use lookup or none"),
        ({"changelog-producer.row-deduplicate": "true"}, "compares no rows"),
        ({IGNORED: "s", "changelog-producer": "lookup"}, "row-deduplicate=true"),
        ({IGNORED: "nope"} | DEDUPLICATED, "'nope'"),
    ],
)
def test_contradictions_are_refused(options, named):
    refused(options, named, next(iter(options)))


def test_several_sequence_fields_of_any_scalar_type():
    options = TableOptions.of(
        schema_with({"sequence.field": "t, s", "sequence.field.sort-order": "Descending"})
    )
    assert options.sequence_field == ("t", "s")
    assert options.sequence_descending


def test_row_kinds_may_lie_in_a_text_column():
    assert TableOptions.of(schema_with({"rowkind.field": "op"})).rowkind_field == "op"


def test_bucket_key_is_not_a_partition_column():
    schema = schema_with({"bucket-key": "p"}, ("p", "k"), ("p",))
    with pytest.raises(InvalidOptionError, match="accepted: k"):
        TableOptions.of(schema)


def test_partition_columns_belong_to_the_key():
    with pytest.raises(InvalidOptionError, match="'p' is not part of the primary key"):
        TableOptions.of(schema_with({}, ("k",), ("p",)))


def test_formats_and_compression_by_level():
    options = TableOptions.parse(
        {
            "file.format": "parquet",
            "file.format.per.level": "1:ARROW",
            "file.compression.per.level": "0:lz4, 2:none",
        }
    )
    assert [options.format_at(level) for level in range(3)] == ["parquet", "arrow", "parquet"]
    assert [options.compression_at(level) for level in range(4)] == ["lz4", "none", "none", "zstd"]


def test_documentation_is_in_step():
    assert (ROOT / "docs" / "options.md").read_text() == docs_table()


def conformance_cases():
    for path in sorted((ROOT / "tests" / "conformance").glob("*.json")):
        yield from json.loads(path.read_text()).get("cases", [])


def test_every_option_of_the_conformance_cases_is_known():
    cases = list(conformance_cases())
    assert len(cases) > 300
    for case in cases:
        if not any("expect_error" in step for step in case["steps"]):
            resolve(case["options"])


def test_a_table_in_fluss_words_gets_fluss_defaults():
    assert resolve({"table.merge-engine": "versioned"})["delete.behavior"] == "ignore"
    assert "delete.behavior" not in resolve({"merge-engine": "versioned"})
    stored = resolve({"table.merge-engine": "versioned", "table.delete.behavior": "disable"})
    assert stored["delete.behavior"] == "disable"
    assert resolve(stored) == stored
