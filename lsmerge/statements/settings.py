"""What SET says. One setting has a meaning here, the time zone; others are known to make none.

Settings that configure a cluster are kept and shown, for scripts that come from one.
"""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lsmerge import LsmergeError
from lsmerge.statements.properties import read_name, read_setting
from lsmerge.statements.tokens import Words

_ZONE = "table.local-time-zone"
_ZONE_NAMES = (_ZONE, "timezone", "time zone", "spark.sql.session.timezone")
# The only value that says what is the case here anyway.
_FIXED = {
    "table.exec.sink.upsert-materialize": "none",
    "execution.runtime-mode": "batch",
}
_OF_CLUSTERS = (
    *("execution.", "parallelism.", "pipeline.", "restart-strategy", "spark.", "sql-client."),
    *("state.", "table.exec.", "table.optimizer.", "taskmanager.", "jobmanager."),
)


class Settings:
    """The settings of a session."""

    def __init__(self) -> None:
        self._values = {_ZONE: "UTC"}

    def all(self) -> dict[str, str]:
        """Everything that is set."""
        return dict(sorted(self._values.items()))

    def of_duckdb(self) -> dict[str, str]:
        """What DuckDB must know."""
        return {"TimeZone": self._values[_ZONE]}

    def set(self, words: Words) -> None:
        """Take over what follows SET."""
        offset = words.offset
        name, value = read_setting(words)
        words.expect_end()
        refusal = _refusal(name.lower(), value)
        if refusal is not None:
            raise words.statement.error(offset, refusal)
        self._values[_canonical(name)] = value

    def reset(self, words: Words) -> None:
        """Return one setting, or all, to what it was."""
        if words.is_over:
            self._values = Settings()._values
            return
        name = read_name(words)
        words.expect_end()
        self._values.pop(_canonical(name), None)
        self._values = {**Settings()._values, **self._values}


def _canonical(name: str) -> str:
    return _ZONE if name.lower() in _ZONE_NAMES else name.lower()


def _refusal(name: str, value: str) -> str | None:
    """What is wrong with a setting."""
    if name in _ZONE_NAMES:
        return (
            None
            if _is_zone(value)
            else f"{value!r} is no time zone; say one such as 'Europe/Berlin'"
        )
    if name in _FIXED:
        is_fixed = value.lower() == _FIXED[name]
        return None if is_fixed else f"{name} = {value!r}: here it is always {_FIXED[name].upper()}"
    if name.startswith(_OF_CLUSTERS):
        return None
    return f"unknown setting {name!r}; {LsmergeError.hint(name, (*_FIXED, _ZONE))}"


def _is_zone(value: str) -> bool:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError):
        return False
    return True
