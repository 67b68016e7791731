"""`write` and `delete`: rows in every format, in one commit, or refused by line and column."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DATA = pa.table({"id": [4, 5], "status": ["a", None], "amount": ["1.00", None]})


def stored(lsmerge, path):
    return lsmerge("scan", path, "-f", "id > 3", "--json").rows


def as_parquet(path):
    table = DATA.set_column(2, "amount", DATA["amount"].cast(pa.decimal128(10, 2)))
    pq.write_table(table, path)


def as_arrow(path, make=pa.ipc.new_file):
    table = DATA.set_column(2, "amount", DATA["amount"].cast(pa.decimal128(10, 2)))
    with pa.OSFile(str(path), "wb") as file, make(file, table.schema) as writer:
        writer.write_table(table)


def as_stream(path):
    as_arrow(path, pa.ipc.new_stream)


def as_csv(path):
    path.write_text("id,status,amount\n4,a,1.00\n5,,\n")


def as_json(path):
    path.write_text('{"id":4,"status":"a","amount":1.00}\n\n{"id":5,"status":null}\n')


FORMATS = {
    "rows.parquet": as_parquet,
    "rows.arrow": as_arrow,
    "rows.arrows": as_stream,
    "rows.csv": as_csv,
    "rows.jsonl": as_json,
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_one_commit(lsmerge, orders, tmp_path, name):
    FORMATS[name](tmp_path / name)
    assert lsmerge("write", orders, tmp_path / name).out == "snapshot 3: 2 rows written\n"
    assert stored(lsmerge, orders) == DATA.to_pylist()


@pytest.mark.parametrize("name", FORMATS)
def test_standard_input(lsmerge, orders, tmp_path, name):
    FORMATS[name](tmp_path / name)
    form = {"arrows": "arrow", "jsonl": "json"}.get(name[5:], name[5:])
    found = lsmerge(
        "write", orders, "-F", form, "--json", text=(tmp_path / name).read_bytes()
    ).document
    assert found == {"snapshot": 3, "rows": 2}
    assert stored(lsmerge, orders) == DATA.to_pylist()


ALL_TYPES = (
    "k BIGINT, bo BOOLEAN, ti TINYINT, fl FLOAT, db DOUBLE, de DECIMAL(20,4), ch CHAR(3), st STRING, bi BYTES, "
    "fb BINARY(2), da DATE, tm TIME(3), ts TIMESTAMP(9), tz TIMESTAMP_LTZ(6), li ARRAY<DECIMAL(5,1)>, "
    "ma MAP<STRING, TIMESTAMP(9)>, ro ROW<x INT, y ARRAY<STRING>>"
)
FULL = (
    '{"k":1,"bo":true,"ti":-7,"fl":"nan","db":1e300,"de":"-12.3400","ch":"abc","st":"","bi":"/wA=","fb":"AQI=",'
    '"da":"2024-01-31","tm":"12:00:00.125","ts":"2024-01-31 12:00:00.123456789","tz":"2024-01-31T12:00:00+00:00",'
    '"li":["1.5",null],"ma":[["a","2024-01-31T00:00:00.000000001"]],"ro":{"x":1,"y":["p,q","\\""]}}\n'
)


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_what_scan_writes_write_reads(lsmerge, tmp_path, form):
    """Every type, nulls, empty text and numbers that JSON lacks survive the way out and in."""
    for name in ("old", "new"):
        lsmerge("create", tmp_path / name, ALL_TYPES, "-k", "k")
    lsmerge(
        "write",
        tmp_path / "old",
        "-F",
        "json",
        text=FULL + '{"k":2}\n{"k":3,"db":"-inf","li":[]}\n',
    )
    path = tmp_path / f"rows.{form}"
    lsmerge("scan", tmp_path / "old", "-O", path)
    lsmerge("write", tmp_path / "new", path)
    old, new = (lsmerge("scan", tmp_path / name, "--json").out for name in ("old", "new"))
    assert len(old.splitlines()) == 3
    assert new == old


def test_changes_can_be_written_as_they_are_told(lsmerge, orders, tmp_path):
    """A second table follows the first by its changelog."""
    lsmerge("delete", orders, "1")
    lsmerge("create", tmp_path / "copy", "--like", orders, "-k", "id")
    changes = lsmerge("tail", orders, "--once", "--json").out
    lsmerge("write", tmp_path / "copy", "-F", "json", text=changes)
    both = [lsmerge("scan", path, "--json").rows for path in (orders, tmp_path / "copy")]
    assert both[0] == both[1]
    assert [row["id"] for row in both[0]] == [2, 3]


def test_kinds_of_rows_in_csv(lsmerge, orders):
    lsmerge("write", orders, "-F", "csv", text="_row_kind,id,status\n-D,1,\n+I,9,x\n")
    assert [row["id"] for row in lsmerge("scan", orders, "--json").rows] == [2, 3, 9]


def test_some_columns_leave_the_others_alone(lsmerge, orders):
    lsmerge("write", orders, "-c", "id,status", "-F", "json", text='{"id":1,"status":"sent"}\n')
    [row] = lsmerge("get", orders, "1", "--json").rows
    assert row == {"id": 1, "status": "sent", "amount": "10.50"}


def test_other_delimiters_and_nulls(lsmerge, orders):
    text = "id;status\n7;NULL\n8;\n"
    lsmerge("write", orders, "-F", "csv", "--delimiter", ";", "--null", "NULL", text=text)
    found = lsmerge("scan", orders, "-f", "id > 6", "--json").rows
    assert [row["status"] for row in found] == [None, ""]


def test_a_commit_happens_once(lsmerge, orders):
    args = ("write", orders, "-F", "json", "--commit-user", "job", "--commit-id", "1", "--json")
    for _ in range(2):
        assert lsmerge(*args, text='{"id":9}\n').document["snapshot"] == 3
    assert lsmerge("info", orders, "--json").document["snapshot"] == 3


def test_overwriting_a_partition(lsmerge, tmp_path):
    path = tmp_path / "t"
    lsmerge("create", path, "day DATE, k INT", "-k", "day,k", "--partition-by", "day")
    header, csv = "day,k\n", ("-F", "csv")
    lsmerge("write", path, *csv, text=f"{header}2024-01-01,1\n2024-01-02,2\n")
    one_day = ("--overwrite", "-p", "day=2024-01-01")
    lsmerge("write", path, *csv, *one_day, text=f"{header}2024-01-01,9\n")
    assert [row["k"] for row in lsmerge("scan", path, "--json").rows] == [9, 2]
    lsmerge("write", path, *csv, "--overwrite", "--dynamic", text=f"{header}2024-01-02,8\n")
    assert [row["k"] for row in lsmerge("scan", path, "--json").rows] == [9, 8]
    lsmerge("write", path, *csv, "--overwrite", text=f"{header}2024-01-03,7\n")
    assert [row["k"] for row in lsmerge("scan", path, "--json").rows] == [7]
    refused = lsmerge("write", path, *csv, "-p", "day=2024-01-01", text=header, code=2)
    assert "go with --overwrite" in refused.error
    unknown = lsmerge("write", path, *csv, "--overwrite", "-p", "dy=1", text=header, code=5)
    assert "dy" in unknown.error


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (
            "json",
            '{"id":1}\n{"id":"x"}\n',
            "standard input, line 2: column 'id': \"x\" is not a whole number",
        ),
        (
            "json",
            '{"id":1,"stats":"x"}\n',
            "line 1: unknown column 'stats'; did you mean 'status'?",
        ),
        ("json", '{"id":1}\n{"id":\n', "line 2: not JSON"),
        ("json", "[1]\n", "line 1: a line must hold one object"),
        ("json", '{"id":1,"amount":"a"}\n', "column 'amount': \"a\" is not a decimal number"),
        ("json", '{"id":1,"amount":"1.234"}\n', "column 'amount'"),
        ("json", '{"id":99999999999999999999}\n', "column 'id'"),
        (
            "json",
            '{"id":1}\n\n{"status":"x"}\n',
            "line 3: primary key column 'id' (BIGINT NOT NULL): value null;",
        ),
        ("csv", "id,status\n1,a\nx,b\n", "standard input, line 3: column 'id': 'x' is not int64"),
        ("csv", "id,stats\n1,a\n", "did you mean 'status'"),
        (
            "csv",
            "id,status\n1\n",
            "standard input, line 2: 1 values where the header names 2 columns",
        ),
        ("csv", "status\na\n", "primary key column 'id' is missing"),
        ("parquet", "no parquet", "standard input: "),
        ("arrow", "no arrow", "standard input: "),
        ("json", '{"id":1,"_row_kind":"?"}\n', "line 1: row kind column '_row_kind': value '?';"),
    ],
)
def test_rows_that_do_not_fit_leave_nothing(lsmerge, orders, form, text, message):
    refused = lsmerge("write", orders, "-F", form, text=text, code=5)
    assert message in refused.error
    assert lsmerge("info", orders, "--json").document["snapshot"] == 2


def test_a_format_must_be_known(lsmerge, orders, tmp_path):
    assert "say what it is with --format" in lsmerge("write", orders, text="", code=2).error
    (tmp_path / "rows.txt").write_text("id\n7\n")
    assert "rows.txt" in lsmerge("write", orders, tmp_path / "rows.txt", code=2).error
    lsmerge("write", orders, tmp_path / "rows.txt", "-F", "csv")
    assert "does not exist" in lsmerge("write", orders, tmp_path / "none.csv", code=2).error


def test_deleting_keys(lsmerge, orders):
    assert lsmerge("delete", orders, "1", "8").out == "snapshot 3: 2 deletes written\n"
    assert lsmerge("delete", orders, "2", "--json").document == {"snapshot": 4, "keys": 1}
    assert [row["id"] for row in lsmerge("scan", orders, "--json").rows] == [3]


@pytest.mark.parametrize(
    ("form", "text"), [("csv", "id\n1\n3\n"), ("json", '{"id":1}\n{"id":3}\n')]
)
def test_deleting_the_keys_in_a_file(lsmerge, orders, form, text):
    found = lsmerge("delete", orders, "--from", "-", "-F", form, "--json", text=text).document
    assert found == {"snapshot": 3, "keys": 2}
    assert [row["id"] for row in lsmerge("scan", orders, "--json").rows] == [2]


def test_deletes_with_a_sequence(lsmerge, tmp_path):
    """A delete has its place among the rows of its key, so it needs the column that gives it."""
    path = tmp_path / "t"
    lsmerge("create", path, "k INT, at INT, v STRING", "-k", "k", "-o", "sequence.field=at")
    lsmerge("write", path, "-F", "csv", text="k,at,v\n1,5,a\n2,5,b\n")
    lsmerge("delete", path, "--from", "-", "-F", "json", text='{"k":1,"at":9}\n{"k":2,"at":1}\n')
    assert [row["k"] for row in lsmerge("scan", path, "--json").rows] == [2]


def test_a_delete_needs_keys(lsmerge, orders):
    assert "give keys" in lsmerge("delete", orders, code=2).error
    assert "give keys" in lsmerge("delete", orders, "1", "--from", "-", text="", code=2).error


def test_a_quote_that_nothing_closes_is_refused(lsmerge, orders, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('id,status\n7,"x\n8,y\n9,z\n')
    found = lsmerge("write", orders, path, code=5)
    assert "rows.csv at line 4: a quote is not closed" in found.error
    assert stored(lsmerge, orders) == []


def test_a_quote_inside_of_a_value_is_a_letter(lsmerge, orders):
    lsmerge("write", orders, "-", "-F", "csv", text='id,status\n7,5" pipe\n8,"a ""b"""\n')
    assert [row["status"] for row in stored(lsmerge, orders)] == ['5" pipe', 'a "b"']


def test_a_bad_value_far_down_in_a_csv_names_file_and_column(lsmerge, orders, tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"{number},{'x' * 30}" for number in range(200_000)]
    path.write_text("id,status\n" + "\n".join([*lines, "abc,y\n"]))
    found = lsmerge("write", orders, path, code=5)
    assert "rows.csv, line 200002: column 'id': " in found.error
    assert "'abc'" in found.error


@pytest.mark.parametrize("form", ["csv", "json"])
def test_no_rows_make_no_snapshot(lsmerge, tmp_path, form):
    lsmerge("create", tmp_path / "t", "k INT, v STRING", "-k", "k")
    assert lsmerge("write", tmp_path / "t", "-", "-F", form, text="").out == (
        "0 rows: nothing written\n"
    )
    found = lsmerge("write", tmp_path / "t", "-", "-F", form, "--json", text="").document
    assert found == {"snapshot": None, "rows": 0}
    assert lsmerge("history", tmp_path / "t", "--json").document == []


def test_no_rows_under_a_header_make_no_snapshot(lsmerge, orders):
    assert lsmerge("write", orders, "-", "-F", "csv", text="id,status\n").out == (
        "0 rows: nothing written\n"
    )
    assert len(lsmerge("history", orders, "--json").document) == 2


def test_no_rows_with_an_identity_are_a_commit(lsmerge, orders):
    identity = ("--commit-user", "job", "--commit-id", "1")
    found = lsmerge("write", orders, "-", "-F", "json", *identity, "--json", text="").document
    assert found == {"snapshot": 3, "rows": 0}


def test_an_overwrite_without_rows_empties_the_table(lsmerge, orders):
    lsmerge("write", orders, "-", "-F", "json", "--overwrite", text="")
    assert lsmerge("scan", orders, "--count").out == "0\n"


def test_no_keys_delete_nothing(lsmerge, orders):
    assert lsmerge("delete", orders, "--from", "-", "-F", "json", text="").out == (
        "0 keys: nothing written\n"
    )


def test_half_a_character_is_refused_with_its_line(lsmerge, orders):
    text = '{"id":4}\n{"id":5,"status":"a\\ud800"}\n'
    error = lsmerge("write", orders, "-", "-F", "json", text=text, code=5).error
    assert "standard input, line 2: column 'status': \"a\\ud800\" is not text" in error
    assert lsmerge("scan", orders, "--count").out == "3\n"


@pytest.mark.parametrize("member", ['"status":"a","status":"b"', '"id":5,"id":5'])
def test_a_member_that_is_there_twice_is_refused(lsmerge, orders, member):
    text = '{"id":4}\n{"id":5,' + member + "}\n"
    error = lsmerge("write", orders, "-", "-F", "json", text=text, code=5).error
    assert "standard input, line 2: " in error
    assert "is there twice in one object" in error
    assert lsmerge("scan", orders, "--count").out == "3\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,status\n4,a\nx,b\n", "standard input, line 3: column 'id': 'x' is not int64"),
        (
            '\ufeffid,status\r\n4,"a\nb"\r\n5\r\n',
            "standard input, line 4: 1 values where the header names 2 columns",
        ),
        (
            "id,amount\n4,1.00\n5,\n6,1.005\n",
            "standard input, line 4: column 'amount': '1.005' is not decimal128(10, 2)",
        ),
    ],
)
def test_places_in_csv_that_cannot_be_read(lsmerge, orders, text, message):
    assert message in lsmerge("write", orders, "-", "-F", "csv", text=text, code=5).error


def test_nulls_that_the_table_refuses_are_told_with_their_line(lsmerge, orders, tmp_path):
    """Rows on several lines and lines without a row lie before it."""
    text = 'id,status\n4,"a\nb"\n\n,c\n'
    error = lsmerge("write", orders, "-", "-F", "csv", text=text, code=5).error
    assert "standard input, line 5: primary key column 'id' (BIGINT NOT NULL): value null;" in error
    from_csv = ("--from", "-", "-F", "csv", "--null", "none")
    error = lsmerge("delete", orders, *from_csv, text="id\n4\nnone\n", code=5).error
    assert "standard input, line 3: primary key column 'id'" in error
    lsmerge("create", tmp_path / "t", "k INT, v STRING NOT NULL", "-k", "k")
    lines = [f'{{"k":{number},"v":"x"}}\n' for number in range(20_000)]
    text = "".join(["\n", *lines, '{"k":1}\n'])
    error = lsmerge("write", tmp_path / "t", "-", "-F", "json", text=text, code=5).error
    assert "standard input, line 20002: column 'v' (STRING NOT NULL): value null;" in error


def test_lists_of_csv_that_cannot_be_read_are_told_with_their_line(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "id BIGINT, l ARRAY<INT>", "--key", "id")
    text = 'id,l\n1,"[1,2]"\n2,"[""x""]"\n'
    error = lsmerge("write", tmp_path / "t", "-", "-F", "csv", text=text, code=5).error
    assert "standard input, line 3: column 'l': \"x\" is not a whole number" in error


def test_what_stands_for_null_is_no_value_that_cannot_be_read(lsmerge, orders):
    text = "id,amount\n4,none\n5,1.005\n"
    error = lsmerge("write", orders, "-", "-F", "csv", "--null", "none", text=text, code=5).error
    assert "line 3: column 'amount': '1.005' is not" in error


def test_numbers_of_json_that_are_too_large(lsmerge, orders):
    text = '{"id":4}\n{"id":99999999999999999999}\n'
    error = lsmerge("write", orders, "-", "-F", "json", text=text, code=5).error
    assert "line 2: column 'id': 99999999999999999999 is out of range for int64" in error
