"""`lsmerge report` writes a page."""

import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lsmerge
from lsmerge.cli.app import app


@pytest.fixture
def table(tmp_path) -> str:
    uri = str(tmp_path / "orders")
    lsmerge.create_table(uri, pa.schema({"k": pa.int64()}), "k").upsert({"k": [1]})
    return uri


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_to_a_file(table, tmp_path):
    target = tmp_path / "report.html"
    done = run("report", table, "-o", str(target))
    assert (done.exit_code, done.output) == (0, f"{target}: {target.stat().st_size:,} bytes\n")
    assert target.read_text().startswith("<!doctype html>")


def test_as_json(table, tmp_path):
    target = tmp_path / "report.html"
    done = run("report", table, "-o", str(target), "--json")
    assert json.loads(done.output) == {"path": str(target), "size_bytes": target.stat().st_size}


def test_to_standard_output(table):
    done = run("report", table)
    assert done.exit_code == 0
    assert done.output.startswith("<!doctype html>")


def test_no_table_no_page(tmp_path):
    done = run("report", str(tmp_path / "nothing"), "-o", str(tmp_path / "report.html"))
    assert done.exit_code == 3
    assert not (tmp_path / "report.html").exists()
