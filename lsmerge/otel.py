"""Spans and counters for OpenTelemetry, if a program asks for them: `lsmerge.otel.instrument()`.

Spans `lsmerge.commit`, `lsmerge.flush`, `lsmerge.compaction`, `lsmerge.rewrite`, `lsmerge.expiry` and `lsmerge.scan`
have the attribute `lsmerge.table` and what is known of the work. Every counter of `Table.metrics` that is not the
cache's is an observable counter `lsmerge.<name>` with the attribute `lsmerge.table`, summed over the process from the
first call on.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from lsmerge import metrics, tracing
from lsmerge.packages import needed

__all__ = ["instrument", "uninstrument"]


def instrument(tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Make spans and count from now on, with these providers or else those of the process.

    A second call replaces the first. Needs the package opentelemetry-api; without a provider of the SDK it costs
    little and gives nothing.
    """
    with needed("opentelemetry", "lsmerge.otel.instrument"):
        from opentelemetry import metrics as otel_metrics
        from opentelemetry import trace
    tracer = trace.get_tracer("lsmerge", tracer_provider=tracer_provider)
    meter = otel_metrics.get_meter("lsmerge", meter_provider=meter_provider)
    provider = meter_provider or otel_metrics.get_meter_provider()
    if provider not in _OBSERVED:
        _observe(meter)
        _OBSERVED.add(provider)
    metrics.listen(_TOTALS.add)
    tracing.install(lambda name, notes, *, is_current: _OtelSpan(tracer, name, notes, is_current))


def uninstrument() -> None:
    """Make no spans and count nothing from now on."""
    metrics.listen(None)
    tracing.install(None)


class _Totals:
    """What was added by all tables of this process, by counter and URI. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, Counter[str]] = {name: Counter() for name in metrics.NAMES}

    def add(self, uri: str, amounts: Mapping[str, int]) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self._values[name][uri] += amount

    def observer(self, name: str) -> Callable[[Any], Iterable[Any]]:
        """What OpenTelemetry calls for a reading of one counter."""
        from opentelemetry.metrics import Observation

        def observe(_options: Any) -> Iterable[Any]:
            with self._lock:
                found = list(self._values[name].items())
            return [Observation(value, {"lsmerge.table": uri}) for uri, value in found]

        return observe


# A provider knows an instrument by its name, and keeps the first of a name for ever: so the first must stay right.
_TOTALS = _Totals()
_OBSERVED: "WeakSet[Any]" = WeakSet()


def _observe(meter: Any) -> None:
    for name in metrics.NAMES:
        if not name.startswith("cache_"):
            meter.create_observable_counter(
                f"lsmerge.{name}", [_TOTALS.observer(name)], unit=_unit(name)
            )


def _unit(name: str) -> str:
    parts = name.split("_")
    if "bytes" in parts:
        return "By"
    return "{row}" if "rows" in parts else "1"


class _OtelSpan:
    """A span of OpenTelemetry as lsmerge uses it."""

    def __init__(
        self, tracer: Any, name: str, attributes: Mapping[str, tracing.Value], is_current: bool
    ) -> None:
        from opentelemetry import trace

        self._span = tracer.start_span(name, attributes=_named(attributes))
        self._current: AbstractContextManager[Any] | None = None
        if is_current:
            self._current = trace.use_span(
                self._span, record_exception=False, set_status_on_exception=False
            )

    def note(self, **attributes: tracing.Value) -> None:
        self._span.set_attributes(_named(attributes))

    def __enter__(self) -> Self:
        if self._current is not None:
            self._current.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._current is not None:
            self._current.__exit__(kind, error, trace)
        # A reader who has had enough is no failure.
        if error is not None and not isinstance(error, GeneratorExit):
            _fail(self._span, error)
        self._span.end()


def _fail(span: Any, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _named(attributes: Mapping[str, tracing.Value]) -> dict[str, tracing.Value]:
    return {f"lsmerge.{name}": value for name, value in attributes.items()}
