"""How far long work is: called back, or drawn as a bar; nothing unless asked for."""

import io
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.engine.progress import CompactionProgress, FileProgress, hook_of
from lsmerge.engine.progress_bar import ProgressBar

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})


LATER = datetime(2100, 1, 1, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def table(uri, **options):
    named = {"write-only": "true"} | options
    made = lsmerge.create_table(uri, SCHEMA, "k", options=named)
    for seed in range(4):
        made.upsert({"k": range(seed, 100 + seed), "v": [seed] * 100})
    return made


def test_a_terminal_gets_one_line_that_grows():
    terminal = Terminal()
    bar = ProgressBar("compact", terminal)
    for done in range(0, 1001, 10):
        bar(CompactionProgress(0, 1, done, 1000))
    shown = terminal.getvalue()
    lines = shown.split("\r")[1:]
    assert len(lines) == 101
    assert lines[50] == f"[{'#' * 15}{'.' * 15}] compact:  50 % of 1,000 rows"
    assert shown.endswith("100 % of 1,000 rows\n")
    assert shown.count("\n") == 1


def test_what_changes_nothing_is_not_drawn_again():
    terminal = Terminal()
    bar = ProgressBar("verify", terminal)
    for done in range(1, 10):
        bar(FileProgress(done, 10_000))
    assert terminal.getvalue().count("\r") == 1


def test_a_file_gets_a_line_for_each_tenth():
    stream = io.StringIO()
    bar = ProgressBar("expire", stream)
    for done in range(1, 201):
        bar(FileProgress(done, 200))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[-1] == "expire: 100 % of 200 files"
    assert "\r" not in stream.getvalue()


def test_nothing_to_do_is_done():
    stream = io.StringIO()
    ProgressBar("compact", stream)(CompactionProgress(0, 0, 0, 0))
    assert stream.getvalue() == "compact: 100 % of 0 rows\n"


WORK = {
    "compact": lambda t, p: t.compact(full=True, progress=p),
    "rescale": lambda t, p: t.rescale(3, progress=p),
    "sort-compact": lambda t, p: t.sort_compact("v", buckets=2, progress=p),
    "verify": lambda t, p: t.verify(progress=p),
    "expire": lambda t, p: t.expire_snapshots(retain_max=1, progress=p),
    "orphans": lambda t, p: t.remove_orphan_files(older_than=LATER, dry_run=False, progress=p),
}


@pytest.fixture(params=WORK)
def work(request, memory_uri):
    made = table(memory_uri, bucket="-1" if request.param == "sort-compact" else "2")
    if request.param == "expire":
        made.compact(full=True)
    if request.param == "orphans":
        writer = made.writer()
        writer.write({"k": range(10), "v": range(10)})
        writer._finish()  # its runs are there, and nobody refers to them
    return lambda progress: WORK[request.param](made, progress)


def test_all_long_work_tells_how_far_it_is(work):
    told = []
    work(told.append)
    assert told[-1].done == told[-1].total > 0
    assert [reading.done for reading in told] == sorted(reading.done for reading in told)


def test_nothing_is_written_unless_asked(work, capsys):
    work(None)
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_drawn_if_asked(work, capsys):
    work(True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].split(":")[1].startswith(" 100 %")


def test_what_cannot_be_called_is_refused():
    assert hook_of(False, "compact") is None
    with pytest.raises(lsmerge.InvalidOptionError, match="progress = 'yes'"):
        hook_of("yes", "compact")
