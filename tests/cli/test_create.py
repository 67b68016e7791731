"""`lsmerge create`, and what it made as `schema`, `info` and `options` tell it."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_columns_are_written_as_in_sql(lsmerge, tmp_path):
    columns = (
        "`order id` BIGINT, name VARCHAR(5) NOT NULL, m MAP<STRING, DECIMAL(10, 2)>, x DOUBLE null"
    )
    made = lsmerge("create", tmp_path / "t", columns, "-k", "order id")
    assert made.out == f"{tmp_path / 't'}: 4 columns, key order id\n"
    found = lsmerge("schema", tmp_path / "t", "--json").document
    assert [(c["name"], c["type"], c["nullable"]) for c in found["columns"]] == [
        ("order id", "BIGINT", False),
        ("name", "VARCHAR(5)", False),
        ("m", "MAP<STRING NOT NULL, DECIMAL(10,2)>", True),
        ("x", "DOUBLE", True),
    ]


def test_keys_partitions_and_options(lsmerge, tmp_path):
    args = ("day DATE, k STRING, n INT", "-k", "day,k", "--partition-by", "day", "-o", "bucket=4")
    made = lsmerge("create", tmp_path / "t", *args, "--json").document
    assert made["uri"] == str(tmp_path / "t")
    assert made["primary_key"] == ["day", "k"]
    assert made["partition_by"] == ["day"]
    assert made["options"]["bucket"] == "4"
    shown = lsmerge("schema", tmp_path / "t").out
    assert "key, partition" in shown
    assert "bucket" in shown


@pytest.mark.parametrize("extension", ["parquet", "arrow", "csv", "jsonl"])
def test_like_a_file(lsmerge, tmp_path, extension):
    path = tmp_path / f"rows.{extension}"
    table = pa.table({"k": pa.array([1], pa.int64()), "v": ["a"], "_row_kind": ["+I"]})
    if extension == "parquet":
        pq.write_table(table, path)
    elif extension == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        text = "k,v,_row_kind\n1,a,+I\n"
        path.write_text(text if extension == "csv" else '{"k":1,"v":"a","_row_kind":"+I"}\n')
    lsmerge("create", tmp_path / "t", "--like", path, "-k", "k")
    found = lsmerge("schema", tmp_path / "t", "--json").document
    assert [(c["name"], c["type"]) for c in found["columns"]] == [("k", "BIGINT"), ("v", "STRING")]


def test_like_another_table(lsmerge, tmp_path, orders):
    lsmerge("create", tmp_path / "copy", "--like", orders, "-k", "id")
    old, new = (lsmerge("schema", path, "--json").document for path in (orders, tmp_path / "copy"))
    assert old["columns"] == new["columns"]


def test_a_table_that_is_there_is_left_alone(lsmerge, orders):
    again = ("create", orders, "id BIGINT, status STRING, amount DECIMAL(10,2)", "-k", "id")
    assert "[TABLE_EXISTS]" in lsmerge(*again, code=4).error
    lsmerge(*again, "-o", "changelog-producer=lookup", "--if-not-exists")
    assert len(lsmerge("scan", orders, "--json").rows) == 3


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("id BIGINT", "-k", "idd"), 5, "did you mean 'id'"),
        (("id", "-k", "id"), 2, "column 'id': write a name and a type"),
        (("id NUMBER", "-k", "id"), 5, "number is not a type"),
        (("id BIGINT", "-k", "id", "-o", "buckets=2"), 2, "did you mean 'bucket'"),
        (("id BIGINT", "-k", "id", "-o", "bucket"), 2, "write it as NAME=VALUE"),
        (("-k", "id"), 2, "give the columns, or --like"),
        (("--like", "nowhere.csv", "-k", "id"), 7, "nowhere.csv: No such file or directory"),
    ],
)
def test_what_cannot_be_a_table_is_refused(lsmerge, tmp_path, args, code, message):
    assert message in lsmerge("create", tmp_path / "t", *args, code=code).error
    assert not (tmp_path / "t").exists()


def test_info_tells_what_there_is(lsmerge, orders):
    found = lsmerge("info", orders, "--json").document
    assert found["snapshot"] == 2
    assert found["rows_stored"] == 4
    assert found["primary_key"] == ["id"]
    assert found["options"] == {"changelog-producer": "lookup"}
    shown = lsmerge("info", orders).out
    assert "read amplification   2" in shown
    assert "changelog-producer=lookup" in shown


def test_info_of_an_empty_table(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k INT", "-k", "k")
    found = lsmerge("info", tmp_path / "t", "--json").document
    assert (found["snapshot"], found["committed"], found["rows_stored"]) == (None, None, 0)
    assert "null" in lsmerge("info", tmp_path / "t").out


def test_options_are_found_by_a_word(lsmerge):
    found = lsmerge("options", "bucket", "--json").document
    assert "bucket-key" in found
    assert "merge-engine" not in found
    assert "bucket-key" in lsmerge("options", "bucket").out


def test_columns_whose_names_have_commas(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", '"a,b" INT, c INT, "x ""y""" INT', "-k", '"a,b"')
    lsmerge("write", tmp_path / "t", "-", "-F", "json", text='{"a,b":1,"c":2,"x \\"y\\"":3}\n')
    for args in (("-c", 'c,"a,b"'), ("-c", "c", "-c", '"a,b"'), ("-c", 'c, "a,b"')):
        assert lsmerge("scan", tmp_path / "t", *args, "--json").rows == [{"c": 2, "a,b": 1}]
    assert lsmerge("scan", tmp_path / "t", "-c", '"x ""y"""', "--json").rows == [{'x "y"': 3}]
    refused = lsmerge("scan", tmp_path / "t", "-c", "a,b", code=5).error
    assert "unknown column 'a'" in refused


def test_comments_of_tables(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k INT", "-k", "k", "--comment", "what for")
    assert lsmerge("info", tmp_path / "t", "--json").document["comment"] == "what for"
    assert "what for" in lsmerge("schema", tmp_path / "t").out
    lsmerge("alter", tmp_path / "t", "--table-comment", "")
    assert lsmerge("info", tmp_path / "t", "--json").document["comment"] is None
    assert "comment" not in lsmerge("schema", tmp_path / "t", "--json").document


def test_names_in_quotes(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", 'k INT, "ü, ""x""" STRING, `a b` INT', "-k", "k")
    columns = lsmerge("schema", tmp_path / "t", "--json").document["columns"]
    assert [column["name"] for column in columns] == ["k", 'ü, "x"', "a b"]
