"""Rows are written as they come: nothing is held back, nothing is gathered; and where they may go and come from."""

import os
import threading

import pyarrow as pa
import pytest

from lsmerge.cli import user_files
from lsmerge.cli.rows_out import Output, write_rows
from tests.s3_server import S3Server

SCHEMA = pa.schema({"k": pa.int64()})
BATCH_ROWS = 500


@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_a_batch_has_been_written_before_the_next_is_asked_for(tmp_path, form):
    """So memory holds one batch, whatever the size of the table."""
    target = tmp_path / "rows"
    sizes = []

    def batches():
        for start in range(4):
            keys = range(start * BATCH_ROWS, (start + 1) * BATCH_ROWS)
            yield pa.record_batch({"k": pa.array(keys, pa.int64())})
            [unfinished] = tmp_path.glob("rows.*.unfinished")
            sizes.append(unfinished.stat().st_size)

    write_rows(Output(form, str(target)), SCHEMA, batches(), at_once=True)
    assert len(set(sizes)) == 4
    assert sizes == sorted(sizes)


def test_two_that_write_one_file_at_once_do_not_mix_their_bytes(tmp_path, monkeypatch):
    target = tmp_path / "rows"
    with user_files.writing(str(target)) as first:
        first.write(b"first")
        monkeypatch.setattr(os, "getpid", lambda: 0)
        with user_files.writing(str(target)) as second:
            second.write(b"second")
        assert target.read_bytes() == b"second"
    assert target.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [target]


def test_output_to_a_named_pipe(lsmerge, orders, tmp_path):
    """What is no file cannot be replaced by one."""
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()))
    reader.start()
    lsmerge("scan", orders, "-F", "csv", "-O", tmp_path / "pipe")
    reader.join()
    assert found[0].splitlines()[0] == '"id","status","amount"'


def test_a_mark_of_byte_order_is_passed_over(lsmerge, orders):
    lsmerge("write", orders, "-F", "json", text=b'\xef\xbb\xbf{"id":7}\n')
    lsmerge("write", orders, "-F", "csv", text=b"\xef\xbb\xbfid\n8\n")
    assert lsmerge("scan", orders, "-f", "id > 6", "--count").out == "2\n"


def test_rows_of_many_lines_and_blocks(lsmerge, orders):
    """More lines than are read at once, and an error far behind them names its line."""
    rows = "".join(f'{{"id":{k}}}\n' for k in range(20_000))
    assert lsmerge("write", orders, "-F", "json", "--json", text=rows).document["rows"] == 20_000
    refused = lsmerge("write", orders, "-F", "json", text=f'{rows}{{"id":"x"}}\n', code=5)
    assert "line 20001: column 'id'" in refused.error


def test_a_table_in_an_object_store(lsmerge, monkeypatch):
    with S3Server() as server:
        given = [f"--storage-option={n}={v}" for n, v in server.storage_options.items()]
        lsmerge("create", "s3://bucket/t", "k INT", "-k", "k", *given)
        lsmerge("write", "s3://bucket/t", "-F", "csv", *given, text="k\n1\n2\n")
        assert lsmerge("scan", "s3://bucket/t", "--json", *given).rows == [{"k": 1}, {"k": 2}]
        pairs = " ".join(f"{name}={value}" for name, value in server.storage_options.items())
        monkeypatch.setenv("LSMERGE_STORAGE_OPTIONS", pairs)
        assert lsmerge("scan", "s3://bucket/t", "--count").out == "2\n"
