"""Counters, log records and spans: what happened, told to whoever asks, and to nobody else."""

import dataclasses
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lsmerge
from lsmerge import metrics, tracing
from lsmerge.metrics import NAMES, Counters, TableMetrics

ROOT = Path(__file__).parent.parent
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


def create(uri: str, **options) -> lsmerge.Table:
    options = {name.replace("_", "-"): value for name, value in options.items()}
    return lsmerge.create_table(uri, SCHEMA, "k", options={"write-only": True, **options})


def rows(*keys: int) -> list[dict]:
    return [{"k": key, "v": f"v{key}"} for key in keys]


# ----------------------------------------------------------------------------------------- counters


def test_a_new_table_has_done_nothing(memory_uri):
    assert create(memory_uri).metrics() == TableMetrics()


def test_writes_and_commits(memory_uri):
    table = create(memory_uri, bucket=2)
    table.upsert(rows(1, 2, 3, 3))
    table.delete([1])
    found = table.metrics()
    assert (found.rows_written, found.commits, found.flushes) == (5, 2, 3)
    assert found.rows_flushed == 4  # one of the rows with key 3 was merged away
    assert found.bytes_flushed == sum(run.size_bytes for run in table.stats().runs)


def test_repeated_commits(memory_uri):
    table = create(memory_uri)
    for _ in range(2):
        with table.writer(commit_user="me", commit_id=1) as writer:
            writer.write(rows(1))
    assert (table.metrics().commits, table.metrics().commits_repeated) == (1, 1)


def test_lost_races(memory_uri):
    table, other = create(memory_uri), lsmerge.open_table(memory_uri)
    publish = table._context.snapshots.publish

    def overtaken(snapshot):
        table._context.snapshots.publish = publish
        other.upsert(rows(2))
        publish(snapshot)

    table._context.snapshots.publish = overtaken
    table.upsert(rows(1))
    assert (table.metrics().commits, table.metrics().commit_retries) == (1, 1)
    assert other.metrics().commit_retries == 0


def test_compactions(memory_uri):
    table = create(memory_uri)
    table.upsert(rows(1, 2))
    table.upsert(rows(2, 3))
    report = table.compact(full=True)
    found = table.metrics()
    assert found.compactions == 1
    assert (found.compaction_rows_read, found.compaction_rows_written) == (4, 3)
    assert found.compaction_bytes_read == report.bytes_read > 0
    assert found.compaction_bytes_written == report.bytes_written > 0
    assert table.compact(full=True).snapshot_id is None
    assert table.metrics().compactions == 1


def test_reads(memory_uri):
    table = create(memory_uri)
    table.upsert(rows(*range(100)))
    table.scan(filter="k < 30").to_arrow()
    assert table.scan(limit=5).count() == 5
    assert table.get_many([1, 2, 1000]).num_rows == 2
    found = table.metrics()
    assert (found.scans, found.rows_read) == (2, 35)
    assert (found.keys_looked_up, found.rows_found) == (3, 2)
    assert found.files_opened == 1
    assert 0 < found.file_bytes_read < 10 * found.bytes_flushed
    assert found.cache_misses == 1


def test_a_reader_who_stops_early_counts_what_he_got(memory_uri):
    table = create(memory_uri, bucket=4)
    table.upsert(rows(*range(100)))
    batches = table.scan().to_batches()
    first = next(batches).num_rows
    batches.close()
    assert table.metrics().rows_read == first


def test_changes(memory_uri):
    table = create(memory_uri, changelog_producer="lookup")
    table.upsert(rows(1, 2))
    table.upsert([{"k": 1, "v": "new"}])
    assert sum(batch.num_rows for batch in table.changelog()) == 4
    found = table.metrics()
    assert (found.changelog_files, found.changelog_rows, found.changes_read) == (2, 4, 4)
    assert found.changelog_bytes > 0


def test_damage(tmp_path):
    table = create(str(tmp_path))
    table.upsert(rows(*range(1000)))
    (file,) = (tmp_path / "bucket-0").iterdir()
    data = bytearray(file.read_bytes())
    data[2000] ^= 4
    file.write_bytes(data)
    with pytest.raises(lsmerge.CorruptFileError):
        table.scan().to_arrow()
    assert table.metrics().corrupt_reads == 1


def test_rewrites_and_expiry(memory_uri):
    table = create(memory_uri)
    table.upsert(rows(1, 2, 3))
    table.rescale(2)
    table.upsert(rows(4))
    report = table.expire_snapshots(retain_max=1)
    found = table.metrics()
    assert (found.rewrites, found.rewrite_rows_written) == (1, 3)
    assert found.snapshots_expired == len(report.snapshots) == 2
    assert found.files_deleted == report.files + report.manifests
    table.expire_snapshots(retain_max=1, dry_run=True)
    assert table.metrics() == found


def test_automatic_compactions_that_fail(memory_uri, monkeypatch):
    options = {"num-sorted-run.compaction-trigger": 2}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert(rows(1))
    monkeypatch.setattr(
        "lsmerge.engine.auto_compact.compact_places",
        lambda *_, **__: (_ for _ in ()).throw(lsmerge.CommitConflictError("too late")),
    )
    table.upsert(rows(1))
    assert (table.metrics().compactions_left, table.metrics().compactions) == (1, 0)


def test_a_reading_is_a_value():
    reading = Counters("memory://x").reading(cache_hits=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        reading.commits = 7
    assert reading.as_dict() == {**dict.fromkeys(NAMES, 0), "cache_hits": 3}


def test_every_counter_is_documented():
    page = (ROOT / "docs" / "observability.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == []


def test_threads_lose_no_count():
    counters = Counters("memory://x")

    def count():
        for _ in range(2000):
            counters.add(commits=1, rows_read=2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counters.reading().commits, counters.reading().rows_read) == (8000, 16000)


def test_a_listener_hears_of_every_table(memory_uri):
    heard: list[tuple[str, dict]] = []
    metrics.listen(lambda uri, amounts: heard.append((uri, dict(amounts))))
    try:
        create(memory_uri).upsert(rows(1))
    finally:
        metrics.listen(None)
    create(f"{memory_uri}-other").upsert(rows(1))
    assert (memory_uri, {"commits": 1}) in heard
    assert {uri for uri, _ in heard} == {memory_uri}


# --------------------------------------------------------------------------------------- log records


def test_log_records(memory_uri, caplog):
    caplog.set_level(logging.DEBUG, "lsmerge")
    table = create(memory_uri)
    table.upsert(rows(1))
    table.upsert(rows(1))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    by_name = {(record.name, record.levelname) for record in caplog.records}
    assert by_name == {
        ("lsmerge.commit", "INFO"),
        ("lsmerge.flush", "DEBUG"),
        ("lsmerge.compaction", "INFO"),
        ("lsmerge.expiry", "INFO"),
    }
    assert all(memory_uri in record.getMessage() for record in caplog.records)


def test_nothing_is_printed_unless_asked_for(tmp_path):
    program = """
import lsmerge, pyarrow as pa, sys
options = {"num-sorted-run.compaction-trigger": 2}
t = lsmerge.create_table(sys.argv[1], pa.schema({"k": pa.int64()}), "k", options=options)
for _ in range(3):
    t.upsert({"k": [1]})
t.compact(full=True)
t.expire_snapshots(retain_max=1)
t.scan().to_arrow()
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# ---------------------------------------------------------------------------------------------- spans


class Recorder:
    """A tracer that remembers."""

    def __init__(self) -> None:
        self.spans: list[dict] = []
        self.open: list[str] = []

    def __call__(self, name, attributes, *, is_current):
        recorder = self

        class Span:
            def note(self, **more):
                attributes.update(more)

            def __enter__(self):
                recorder.open.append(name)
                return self

            def __exit__(self, kind, error, trace):
                recorder.open.remove(name)
                recorder.spans.append({"name": name, "error": kind, **attributes})

        return Span()

    def named(self, name: str) -> list[dict]:
        return [span for span in self.spans if span["name"] == name]


@pytest.fixture
def recorder():
    recorder = Recorder()
    tracing.install(recorder)
    yield recorder
    tracing.install(None)


def test_spans(memory_uri, recorder):
    table = create(memory_uri, bucket=2)
    table.upsert(rows(1, 2, 3))
    table.upsert(rows(1, 2, 3))
    table.compact(full=True)
    table.scan().to_arrow()
    table.expire_snapshots(retain_max=1)
    assert [span["kind"] for span in recorder.named("lsmerge.commit")] == [
        "append",
        "append",
        "compact",
    ]
    assert [span["buckets"] for span in recorder.named("lsmerge.flush")] == [2, 2]
    (scan,) = recorder.named("lsmerge.scan")
    assert (scan["table"], scan["rows"], scan["snapshot"]) == (memory_uri, 3, 3)
    assert recorder.named("lsmerge.compaction")[0]["buckets"] == 2
    assert recorder.named("lsmerge.expiry")[0]["snapshots"] == 2
    assert recorder.open == []


def test_spans_end_when_work_fails(memory_uri, recorder, monkeypatch):
    table = create(memory_uri)
    table.upsert(rows(1))
    batches = table.scan().to_batches()
    next(batches)
    batches.close()
    assert recorder.named("lsmerge.scan")[0]["error"] is GeneratorExit
    monkeypatch.setattr(
        table._context.committer, "_attempt", lambda *_: (_ for _ in ()).throw(OSError("gone"))
    )
    with pytest.raises(OSError, match="gone"):
        table.upsert(rows(2))
    assert recorder.named("lsmerge.commit")[-1]["error"] is OSError
    assert recorder.open == []
