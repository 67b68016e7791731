"""`get`, `scan`, `history` and `diff`: which rows, and in which clothes."""

import csv
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = [
    {"id": 1, "status": "new", "amount": "10.50"},
    {"id": 2, "status": "paid", "amount": "7.00"},
    {"id": 3, "status": None, "amount": None},
]


def test_scan_as_json_lines(lsmerge, orders):
    assert lsmerge("scan", orders, "--json").rows == ROWS
    assert lsmerge("--json", "scan", orders).rows == ROWS
    assert lsmerge("scan", orders, "-F", "json").rows == ROWS


def test_scan_as_a_table(lsmerge, orders):
    lines = [line.rstrip() for line in lsmerge("scan", orders).out.splitlines()]
    assert lines[0].split() == ["id", "status", "amount"]
    assert lines[2:] == ["  1   new       10.50", "  2   paid       7.00", "  3   null       null"]


def test_scan_as_csv(lsmerge, orders):
    found = list(csv.DictReader(io.StringIO(lsmerge("scan", orders, "-F", "csv").out)))
    assert found[1] == {"id": "2", "status": "paid", "amount": "7.00"}


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.arrows"])
def test_scan_to_a_file(lsmerge, orders, tmp_path, name):
    path = tmp_path / name
    assert lsmerge("scan", orders, "-O", path).out == ""
    if name.endswith("parquet"):
        found = pq.read_table(path)
    else:
        opened = pa.ipc.open_file if name.endswith("arrow") else pa.ipc.open_stream
        with pa.OSFile(str(path)) as file:
            found = opened(file).read_all()
    assert found.schema.field("amount").type == pa.decimal128(10, 2)
    assert found["id"].to_pylist() == [1, 2, 3]


def test_a_file_appears_when_it_is_complete(lsmerge, orders, tmp_path):
    """A scan that fails leaves what was there."""
    target = tmp_path / "rows.json"
    target.write_text("kept")
    damaged = next(orders.rglob("data-*"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x00")
    lsmerge("scan", orders, "-O", target, code=6)
    assert target.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


def test_columns_filter_and_limit(lsmerge, orders):
    found = lsmerge("scan", orders, "-c", "status,id", "-f", "id >= 2", "-n", "1", "--json")
    assert [list(row.items()) for row in found.rows] == [[("status", "paid"), ("id", 2)]]


def test_time_travel(lsmerge, orders):
    assert lsmerge("scan", orders, "--snapshot", "1", "--json").rows[1]["status"] == "new"
    lsmerge("tag", "create", orders, "before", "--snapshot", "1")
    assert lsmerge("scan", orders, "--tag", "before", "--json").rows[1]["status"] == "new"
    time = lsmerge("history", orders, "--json").document[0]["time"]
    assert lsmerge("scan", orders, "--at", time, "--json").rows[1]["status"] == "new"
    assert lsmerge("get", orders, "2", "--snapshot", "1", "--json").rows[0]["status"] == "new"
    assert "[SNAPSHOT_NOT_FOUND]" in lsmerge("scan", orders, "--snapshot", "9", code=3).error


def test_count_and_explain(lsmerge, orders):
    assert lsmerge("scan", orders, "--count").out == "3\n"
    assert lsmerge("scan", orders, "--count", "--json").document == {"rows": 3}
    assert lsmerge("scan", orders, "--explain", "--json").document["snapshot"] == 2
    assert "bucket-0" in lsmerge("scan", orders, "--explain").out


def test_an_empty_table_has_a_header(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k INT, v STRING", "-k", "k")
    assert lsmerge("scan", tmp_path / "t").out.splitlines()[0].split() == ["k", "v"]
    assert lsmerge("scan", tmp_path / "t", "--json").out == ""
    assert lsmerge("scan", tmp_path / "t", "-F", "csv").out == '"k","v"\n'
    assert lsmerge("tail", tmp_path / "t", "--once", "--json").out == ""
    assert "_row_kind" in lsmerge("tail", tmp_path / "t", "--once").out
    assert lsmerge("levels", tmp_path / "t").out == "no files\n"


def test_many_rows_are_drawn_page_by_page_under_one_header(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k INT, v STRING", "-k", "k")
    rows = "".join(f'{{"k":{k},"v":"v{k}"}}\n' for k in range(1000))
    lsmerge("write", tmp_path / "t", "-", "-F", "json", text=rows)
    lines = lsmerge("scan", tmp_path / "t").out.splitlines()
    assert len(lines) == 1002
    assert [line.split() for line in lines[2:]] == [[str(k), f"v{k}"] for k in range(1000)]


def test_values_cannot_steer_the_terminal(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k INT, v STRING", "-k", "k")
    lsmerge("write", tmp_path / "t", "-F", "json", text='{"k":1,"v":"\\u001b[2Ja\\nb [red]c"}\n')
    shown = lsmerge("scan", tmp_path / "t").out
    assert r"\x1b[2Ja\nb [red]c" in shown


def test_get_shows_one_row_column_by_column(lsmerge, orders):
    lines = [line.split() for line in lsmerge("get", orders, "2").out.splitlines()]
    assert lines == [["id", "2"], ["status", "paid"], ["amount", "7.00"]]


def test_get_of_many_keys_keeps_their_order(lsmerge, orders):
    assert [row["id"] for row in lsmerge("get", orders, "3", "1", "--json").rows] == [3, 1]


def test_a_key_without_a_row_is_told_by_the_exit_code(lsmerge, orders):
    found = lsmerge("get", orders, "1", "7", "--json", code=1)
    assert [row["id"] for row in found.rows] == [1]
    assert found.error == "lsmerge: 1 key without a row"


def test_a_key_asked_for_twice_is_one_key(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k DECIMAL(5,2)", "-k", "k")
    lsmerge("write", tmp_path / "t", "-F", "csv", text="k\n1.50\n")
    assert lsmerge("get", tmp_path / "t", "1.5", "1.50", "--json").rows == [{"k": "1.50"}]


def test_keys_of_several_columns(lsmerge, tmp_path):
    path = tmp_path / "t"
    lsmerge("create", path, "day DATE, city STRING, n INT", "-k", "day,city")
    text = 'day,city,n\n2024-01-31,"Oslo, Norway",1\n2024-02-01,Rome,2\n'
    lsmerge("write", path, "-F", "csv", text=text)
    found = lsmerge("get", path, '2024-01-31,"Oslo, Norway"', "2024-02-01,Rome", "--json")
    assert [row["n"] for row in found.rows] == [1, 2]
    assert "give 2 values" in lsmerge("get", path, "Rome", code=2).error
    assert "day=today" in lsmerge("get", path, "today,Rome", code=2).error


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("BOOLEAN", "true"),
        ("TINYINT", "-7"),
        ("DOUBLE", "1.5"),
        ("DECIMAL(20,2)", "1.50"),
        ("TIMESTAMP(3)", "2024-01-31T12:00:00.123"),
        ("TIMESTAMP_LTZ(9)", "2024-01-31T12:00:00.123456789Z"),
        ("TIME(3)", "12:00:00.5"),
        ("BYTES", "/w=="),
        ("STRING", "a,b"),
    ],
)
def test_keys_of_every_type(lsmerge, tmp_path, declared, text):
    lsmerge("create", tmp_path / "t", f"k {declared}", "-k", "k")
    lsmerge("write", tmp_path / "t", "-F", "csv", text=f'k\n"{text}"\n')
    assert len(lsmerge("get", tmp_path / "t", "--json", "--", text).rows) == 1
    lsmerge("delete", tmp_path / "t", "--", text)
    assert lsmerge("scan", tmp_path / "t", "--count").out == "0\n"


def test_history(lsmerge, orders):
    found = lsmerge("history", orders, "--json").document
    assert [(e["id"], e["kind"], e["rows_added"]) for e in found] == [
        (1, "append", 3),
        (2, "append", 1),
    ]
    assert [e["id"] for e in lsmerge("history", orders, "-n", "1", "--json").document] == [2]
    assert "append" in lsmerge("history", orders).out


def test_diff(lsmerge, orders):
    found = lsmerge("diff", orders, "1", "2", "--json").rows
    assert [(row["_row_kind"], row["status"]) for row in found] == [("-U", "new"), ("+U", "paid")]
    assert lsmerge("diff", orders, "1", "--json").rows == found
    lsmerge("tag", "create", orders, "first", "--snapshot", "1")
    assert lsmerge("diff", orders, "first", "--json").rows == found
    assert lsmerge("diff", orders, "1", "-n", "1", "--json").rows == found[:1]
    assert "tags: first" in lsmerge("diff", orders, "second", code=2).error
    [document] = lsmerge("diff", orders, "1", "-F", "debezium").rows
    assert (document["op"], document["before"]["status"]) == ("u", "new")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("-f", "stats = 1"), 2, "did you mean 'status'"),
        (("-c", "idd"), 5, "did you mean 'id'"),
        (("-F", "parquet"), 2, "needs a file"),
        (("--json", "-F", "csv"), 2, "contradict each other"),
        (("--snapshot", "1", "--tag", "x"), 2, "give one of them"),
        (("--tag", "x"), 3, "unknown tag 'x'"),
        (("--at", "2024-01-31"), 2, "--at '2024-01-31': give a time with its offset"),
        (("--at", "yesterday"), 2, "--at 'yesterday': give a time with its offset"),
    ],
)
def test_reads_that_cannot_be_are_refused_in_one_line(lsmerge, orders, args, code, message):
    found = lsmerge("scan", orders, *args, code=code)
    assert message in found.error
    assert found.out == ""
