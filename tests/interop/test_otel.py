"""OpenTelemetry gets spans and counters from the call that switches it on, and none after the one that ends it."""

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import lsmerge
import lsmerge.otel


class Backend:
    """What an OpenTelemetry SDK has received."""

    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._metrics])

    def spans(self, name: str) -> list:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def counters(self, uri: str) -> dict[str, int]:
        data = self._metrics.get_metrics_data()
        return {
            metric.name: point.value
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if point.attributes["lsmerge.table"] == uri
        }


@pytest.fixture
def backend():
    backend = Backend()
    lsmerge.otel.instrument(backend.tracers, backend.meters)
    yield backend
    lsmerge.otel.uninstrument()


def create(uri: str) -> lsmerge.Table:
    schema = pa.schema({"k": pa.int64()})
    return lsmerge.create_table(uri, schema, "k", options={"write-only": True})


def test_spans(backend, memory_uri):
    table = create(memory_uri)
    table.upsert({"k": [1, 2]})
    table.upsert({"k": [2]})
    table.compact(full=True)
    table.scan().to_arrow()
    (compaction,) = backend.spans("lsmerge.compaction")
    inner = backend.spans("lsmerge.commit")[-1]
    assert inner.parent.span_id == compaction.context.span_id
    assert inner.attributes["lsmerge.snapshot"] == 3
    assert inner.attributes["lsmerge.table"] == memory_uri
    (scan,) = backend.spans("lsmerge.scan")
    assert scan.attributes["lsmerge.rows"] == 2
    assert len(backend.spans("lsmerge.flush")) == 2


def test_a_scan_is_not_the_parent_of_what_its_reader_does(backend, memory_uri):
    table = create(memory_uri)
    table.upsert({"k": [1, 2]})
    batches = table.scan().to_batches()
    next(batches)
    table.upsert({"k": [3]})
    assert backend.spans("lsmerge.commit")[-1].parent is None
    batches.close()
    (scan,) = backend.spans("lsmerge.scan")
    assert scan.status.status_code is StatusCode.UNSET


def test_failures(backend, tmp_path):
    table = create(str(tmp_path))
    table.upsert({"k": range(1000)})
    (file,) = (tmp_path / "bucket-0").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(lsmerge.CorruptFileError):
        table.scan().to_arrow()
    (scan,) = backend.spans("lsmerge.scan")
    assert scan.status.status_code is StatusCode.ERROR
    assert "CORRUPT_FILE" in scan.status.description
    assert scan.events[0].name == "exception"


def test_counters_of_all_tables_of_the_process(backend, memory_uri):
    first, second = create(memory_uri), lsmerge.open_table(memory_uri)
    first.upsert({"k": [1, 2]})
    second.upsert({"k": [3]})
    second.close()
    found = backend.counters(memory_uri)
    assert (found["lsmerge.commits"], found["lsmerge.rows_written"]) == (2, 3)
    assert found["lsmerge.bytes_flushed"] > 0


def test_nothing_comes_after_the_end(backend, memory_uri):
    lsmerge.otel.uninstrument()
    create(memory_uri).upsert({"k": [1]})
    assert backend.spans("lsmerge.commit") == []
    assert backend.counters(memory_uri) == {}


def test_a_second_call_goes_on_counting(backend, memory_uri):
    lsmerge.otel.uninstrument()
    lsmerge.otel.instrument(backend.tracers, backend.meters)
    create(memory_uri).upsert({"k": [1]})
    assert backend.counters(memory_uri)["lsmerge.commits"] == 1
