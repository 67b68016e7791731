"""Spans around what takes time, for whoever switched tracing on; nothing happens otherwise.

    with span("lsmerge.commit", uri) as current:
        ...
        current.note(snapshot=7)

What a span is, the tracer says that was installed: lsmerge.otel installs one that speaks OpenTelemetry.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self, TypeAlias

Value: TypeAlias = str | int | bool


class Span(Protocol):
    """Work under way; ends with the block, and tells what the block raises."""

    def note(self, **attributes: Value) -> None:
        """Say more about the work."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Tracer(Protocol):
    """Where spans come from."""

    def __call__(self, name: str, attributes: Mapping[str, Value], *, is_current: bool) -> Span:
        """A span; a current one is the parent of those that begin inside it."""


class _NoSpan:
    def note(self, **_attributes: Value) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        return None


_NO_SPAN = _NoSpan()
_tracer: Tracer | None = None


def span(name: str, uri: str, *, is_current: bool = True, **attributes: Value) -> Span:
    """A span of work on the table at `uri`.

    Generators say `is_current=False`: what their caller does between two steps is not part of their work.
    """
    if _tracer is None:
        return _NO_SPAN
    return _tracer(name, {"table": uri, **attributes}, is_current=is_current)


def install(tracer: Tracer | None) -> None:
    """Have spans made from now on; None ends it."""
    global _tracer  # noqa: PLW0603 - one tracer a process
    _tracer = tracer
