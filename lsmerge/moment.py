"""Points in time and spans as users give them, in milliseconds."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from lsmerge.errors import InvalidOptionError
from lsmerge.option_types import duration_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DURATION = duration_ms()


def moment_ms(what: str, value: Any) -> int:
    """Milliseconds since 1970 of a datetime with a zone, ISO 8601 text with an offset, or that number itself.

    `what` names the argument in the refusal.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise _refusal(what, value) from error
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise _refusal(what, value)
    return (moment - _EPOCH) // _MILLISECOND


def span_ms(what: str, value: Any) -> int:
    """The milliseconds of a timedelta, or of text such as `7 d`."""
    if isinstance(value, timedelta) and value >= timedelta():
        return value // _MILLISECOND
    if isinstance(value, str):
        with suppress(ValueError):
            return _span_of_text(value)
    raise InvalidOptionError(
        f"{what} = {value!r}: give a timedelta, or text such as '7 d' or '12 h'"
    )


def cutoff_ms(what: str, value: Any, now_ms: int) -> int:
    """A point in time: given as one, or as an age (a timedelta, or text such as `7 d`)."""
    if isinstance(value, timedelta):
        return now_ms - span_ms(what, value)
    if isinstance(value, str):
        with suppress(ValueError):
            return now_ms - _span_of_text(value)
    try:
        return moment_ms(what, value)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{error.args[0]}, or an age such as '7 d'") from error


def _span_of_text(text: str) -> int:
    span = _DURATION.parse(text)
    assert isinstance(span, int)
    return span


def _refusal(what: str, value: object) -> InvalidOptionError:
    return InvalidOptionError(
        f"{what} = {value!r}: give a datetime with a time zone, ISO text with an offset such as "
        "'2024-01-31T12:00:00Z', or milliseconds since 1970"
    )
