"""`lsmerge alter`: columns and options change together, or nothing does."""

import pytest


def columns(lsmerge, path):
    found = lsmerge("schema", path, "--json").document["columns"]
    return [(column["name"], column["type"]) for column in found]


def test_columns_and_options_change_at_once(lsmerge, orders):
    changes = (
        "--add",
        "note VARCHAR(9), `n 1` INT",
        "--rename",
        "amount=total",
        "--drop",
        "status",
    )
    placed = ("--move", "note=first", "--comment", "note=why, and by whom")
    found = lsmerge("alter", orders, *changes, *placed, "-o", "snapshot.num-retained.max=100")
    assert found.out == "schema 1: 4 columns\n"
    assert columns(lsmerge, orders) == [
        ("note", "VARCHAR(9)"),
        ("id", "BIGINT"),
        ("total", "DECIMAL(10,2)"),
        ("n 1", "INT"),
    ]
    definition = lsmerge("schema", orders, "--json").document
    assert definition["columns"][0]["comment"] == "why, and by whom"
    assert definition["options"]["snapshot.num-retained.max"] == "100"
    assert lsmerge("get", orders, "1", "--json").rows[0]["total"] == "10.50"


def test_wider_types_and_nulls(lsmerge, tmp_path):
    lsmerge("create", tmp_path / "t", "k INT, n INT NOT NULL, v VARCHAR(5)", "-k", "k")
    wider = ("--widen", "n=BIGINT", "--widen", "v=VARCHAR(9)", "--nullable", "n")
    found = lsmerge("alter", tmp_path / "t", *wider, "--json").document["columns"]
    assert [(column["type"], column["nullable"]) for column in found[1:]] == [
        ("BIGINT", True),
        ("VARCHAR(9)", True),
    ]


def test_options_return_to_their_defaults(lsmerge, orders):
    lsmerge("alter", orders, "-o", "snapshot.num-retained.max=100")
    lsmerge("alter", orders, "--reset", "snapshot.num-retained.max")
    options = lsmerge("schema", orders, "--json").document["options"]
    assert options == {"changelog-producer": "lookup"}


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ((), 2, "say what is to be changed"),
        (("--drop", "id"), 5, "'id'"),
        (("--drop", "stats"), 5, "did you mean 'status'"),
        (("--rename", "status"), 2, "--rename status: write it as NAME=VALUE"),
        (("--widen", "amount=TINYINT"), 5, "amount"),
        (("-o", "merge-engine=aggregation"), 2, "merge-engine"),
    ],
)
def test_what_cannot_be_changed_is_refused(lsmerge, orders, args, code, message):
    before = lsmerge("schema", orders, "--json").document
    added = ("--add", "x INT") if args else ()
    assert message in lsmerge("alter", orders, *added, *args, code=code).error
    assert lsmerge("schema", orders, "--json").document == before
