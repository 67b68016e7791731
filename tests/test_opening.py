"""Creating and opening: what is there, what is asked for, and what this version does with options."""

import copy
import pickle
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.option_registry import OPTIONS
from lsmerge.options import TableOptions, differences
from lsmerge.storage.local_store import LocalStore

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
ROOT = Path(__file__).parent.parent


@pytest.fixture
def location(tmp_path):
    return tmp_path / "table"


# ------------------------------------------------------------------------------------- exist_ok


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ({"target-file-size": "256 mb"}, {"target-file-size": "256mb"}),
        ({"bucket": 1}, {}),
        ({}, {"bucket": "+1", "write-only": "false"}),
        ({"tombstone.retention": "1 d"}, {"tombstone.retention": "24 h"}),
        ({"num-sorted-run.compaction-trigger": 5}, {"num-levels": 6}),
        (
            {"file.format.per.level": "1:arrow,0:parquet"},
            {"file.format.per.level": "0:PARQUET, 1:arrow"},
        ),
    ],
)
def test_options_that_mean_the_same_are_the_same(memory_uri, there, asked):
    lsmerge.create_table(memory_uri, SCHEMA, "k", options=there).upsert([{"k": 1, "v": "x"}])
    again = lsmerge.create_table(memory_uri, SCHEMA, "k", options=asked, exist_ok=True)
    assert again.get(1) == {"k": 1, "v": "x"}


def test_options_that_differ_are_named(memory_uri):
    lsmerge.create_table(memory_uri, SCHEMA, "k", options={"bucket": 2})
    with pytest.raises(lsmerge.TableExistsError) as refusal:
        lsmerge.create_table(
            memory_uri,
            SCHEMA,
            "k",
            options={"bucket": 3, "tombstone.retention": "1 h"},
            exist_ok=True,
        )
    message = str(refusal.value)
    assert "bucket" in message
    assert "tombstone.retention" in message
    assert "write-buffer-size" not in message


def test_options_of_single_columns_are_compared_too(monkeypatch):
    monkeypatch.setattr("lsmerge.options._check_available", lambda resolved: None)
    total, largest = {"fields.v.agg": "sum"}, {"fields.v.aggregate-function": "max"}
    assert differences(total, {"fields.v.aggregate-function": " sum"}) == ""
    for there, asked in ((total, largest), (total, {}), ({}, total)):
        assert "fields.v.aggregate-function" in differences(there, asked)


@pytest.mark.parametrize(
    ("schema", "key", "partition", "word"),
    [
        (pa.schema({"k": pa.int32(), "v": pa.string()}), ["k"], [], "columns"),
        (SCHEMA, ["k", "v"], [], "v"),
        (SCHEMA, ["k", "v"], ["v"], "v"),
    ],
)
def test_another_definition_is_refused(memory_uri, schema, key, partition, word):
    lsmerge.create_table(memory_uri, SCHEMA, "k")
    with pytest.raises(lsmerge.TableExistsError, match=word):
        lsmerge.create_table(memory_uri, schema, key, partition_by=partition, exist_ok=True)


# ---------------------------------------------------------------------------- what is in the way


@pytest.mark.parametrize("exist_ok", [False, True])
@pytest.mark.parametrize(
    "leftover",
    [
        "notes.txt",
        "sub/notes.txt",
        "snapshot/snapshot-1.json",
        "snapshot/LATEST",
        f"manifest/manifest-{0:032x}.arrow",
        "schema/schema-1.json",
        f"bucket-0/data-{0:032x}-0.arrow",
    ],
)
def test_a_directory_that_is_not_empty_is_left_alone(location, leftover, exist_ok):
    path = location / leftover
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(lsmerge.TableExistsError) as refusal:
        lsmerge.create_table(str(location), SCHEMA, "k", exist_ok=exist_ok)
    assert "not empty" in str(refusal.value)
    assert leftover in str(refusal.value)
    assert "create_table" not in str(refusal.value)
    assert [p for p in location.rglob("*") if p.is_file()] == [path]


def test_a_table_that_lost_its_schema_is_not_created_anew(location):
    lsmerge.create_table(str(location), SCHEMA, "k").upsert([{"k": 1, "v": "x"}])
    (location / "schema/schema-0.json").unlink()
    with pytest.raises(lsmerge.TableExistsError, match="not empty"):
        lsmerge.create_table(str(location), SCHEMA, "k")


def test_an_empty_directory_becomes_a_table(location):
    location.mkdir()
    lsmerge.create_table(str(location), SCHEMA, "k")
    assert lsmerge.open_table(str(location)).primary_key == ("k",)


@pytest.mark.parametrize("exist_ok", [False, True])
def test_a_creator_that_lost_the_race_meets_a_table(location, monkeypatch, exist_ok):
    """The winner creates the table and commits after the loser has seen nothing there."""
    original = LocalStore.list

    def list_after_winner(store, prefix):
        monkeypatch.setattr(LocalStore, "list", original)
        lsmerge.create_table(str(location), SCHEMA, "k").upsert([{"k": 1, "v": "x"}])
        return original(store, prefix)

    monkeypatch.setattr(LocalStore, "list", list_after_winner)
    if exist_ok:
        loser = lsmerge.create_table(str(location), SCHEMA, "k", exist_ok=True)
        assert loser.get(1) == {"k": 1, "v": "x"}
    else:
        with pytest.raises(lsmerge.TableExistsError, match="already holds a table"):
            lsmerge.create_table(str(location), SCHEMA, "k")


@pytest.mark.parametrize("inside", ["", "/below"])
def test_a_file_is_not_a_table(location, inside):
    location.write_text("mine")
    uri = f"{location}{inside}"
    with pytest.raises(lsmerge.TableNotFoundError, match="is a file"):
        lsmerge.open_table(uri)
    with pytest.raises(lsmerge.TableExistsError, match="is a file"):
        lsmerge.create_table(uri, SCHEMA, "k")
    with pytest.raises(lsmerge.TableExistsError, match="is a file"):
        lsmerge.create_table(uri, SCHEMA, "k", exist_ok=True)
    assert location.read_text() == "mine"


def test_a_linked_directory_inside_is_no_missing_table(location, tmp_path):
    lsmerge.create_table(str(location), SCHEMA, "k")
    (location / "schema").rename(tmp_path / "elsewhere")
    (location / "schema").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(lsmerge.StorageError, match="symbolic link"):
        lsmerge.open_table(str(location))


# -------------------------------------------------------------------------------------- arguments


def test_a_path_object_is_a_location(location):
    lsmerge.create_table(location, SCHEMA, "k").upsert([{"k": 1, "v": "x"}])
    assert lsmerge.open_table(location).get(1) == {"k": 1, "v": "x"}
    assert lsmerge.open_table(location).uri == str(location)


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"/tmp/x"


@pytest.mark.parametrize("uri", [5, None, b"/tmp/x", BytesPath()])
def test_what_is_no_location_is_named(uri):
    for use in (lambda: lsmerge.create_table(uri, SCHEMA, "k"), lambda: lsmerge.open_table(uri)):
        with pytest.raises(lsmerge.InvalidOptionError) as refusal:
            use()
        assert repr(uri) in str(refusal.value)


@pytest.mark.parametrize("options", [5, "bucket=2", [("bucket", 2)], [], ""])
def test_options_are_a_mapping(memory_uri, options):
    with pytest.raises(lsmerge.InvalidOptionError) as refusal:
        lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    assert repr(options) in str(refusal.value)


def test_storage_options_are_a_mapping_and_never_shown():
    with pytest.raises(lsmerge.InvalidOptionError) as refusal:
        lsmerge.open_table("s3://bucket/table", storage_options=[("secret_access_key", "hush")])
    assert "storage_options" in str(refusal.value)
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_table_is_opened_in_the_other_process_not_sent_there(memory_uri, duplicate):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k")
    with pytest.raises(TypeError, match=r"open_table"):
        duplicate(table)
    table.close()
    with pytest.raises(TypeError, match=r"open_table"):
        duplicate(table)


# ---------------------------------------------------------------------------------------- options


def test_every_option_of_a_table_is_read_somewhere():
    """A field that nothing reads is an option that is accepted and not honoured."""
    sources = "".join(path.read_text() for path in sorted((ROOT / "lsmerge").rglob("*.py")))
    unread = [field.name for field in fields(TableOptions) if f".{field.name}" not in sources]
    assert unread == []


def test_every_available_option_has_a_field():
    names = {field.name.removesuffix("_ms") for field in fields(TableOptions)}
    refused = {"changelog-producer"}  # of its values only the default is available
    refused |= {"record.merge.strategy-id", "record.merge.payload"}  # stored as what they stand for
    for option in OPTIONS:
        attribute = option.name.replace(".", "_").replace("-", "_")
        if attribute not in names and not option.name.startswith("fields."):
            assert not option.available or option.name in refused, option.name


@pytest.mark.parametrize("levels", ["128", "255", "1"])
def test_levels_that_a_manifest_cannot_hold_are_refused(levels):
    with pytest.raises(lsmerge.InvalidOptionError, match=r"num-levels.*2 to 127"):
        TableOptions.parse({"num-levels": levels})


def test_levels_follow_the_trigger_as_far_as_manifests_go():
    trigger = "num-sorted-run.compaction-trigger"
    levels = [TableOptions.parse({trigger: n}).num_levels for n in (5, 125, 126, 127, 1000)]
    assert levels == [6, 126, 127, 127, 127]


@pytest.mark.parametrize(
    "options", [{"num-levels": 127}, {"num-sorted-run.compaction-trigger": 400}]
)
def test_the_most_levels_there_are_can_be_compacted(memory_uri, options):
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert([{"k": 1, "v": "x"}])
    table.upsert([{"k": 1, "v": "y"}])
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": "y"}]
