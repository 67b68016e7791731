"""What the options of a read mean: which rows of which snapshot, or which changes, and in what portions.

Names are those of the tables' own options where there are such. An option that no read knows is refused: one that is
misspelt would silently read something else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from lsmerge import InvalidOptionError, Table, open_table
from lsmerge.spark.arrow_memory import choose_allocator
from lsmerge.spark.options import PATH, names_in, source_options, whole_number

COLUMNS = "columns"
FILTER = "filter"
SNAPSHOT = "scan.snapshot-id"
TAG = "scan.tag-name"
TIMESTAMP = "scan.timestamp"
TIMESTAMP_MILLIS = "scan.timestamp-millis"
MODE = "scan.mode"
END = "scan.end-snapshot-id"
SPLIT_SIZE = "source.split.target-size"
PARALLELISM = "scan.parallelism"
CONSUMER = "consumer-id"
CONSUMER_TTL = "consumer.expiration-time"
MAX_SNAPSHOTS = "read.stream.max-snapshots-per-trigger"
MAX_ROWS = "read.stream.max-rows-per-trigger"
MAX_BYTES = "read.stream.max-bytes-per-trigger"

OPTIONS = (
    COLUMNS,
    FILTER,
    SNAPSHOT,
    TAG,
    TIMESTAMP,
    TIMESTAMP_MILLIS,
    MODE,
    END,
    SPLIT_SIZE,
    PARALLELISM,
    CONSUMER,
    CONSUMER_TTL,
    MAX_SNAPSHOTS,
    MAX_ROWS,
    MAX_BYTES,
)
OF_CHANGES = (END, CONSUMER, CONSUMER_TTL, MAX_SNAPSHOTS, MAX_ROWS, MAX_BYTES)
OF_ROWS = (COLUMNS, FILTER, TAG, PARALLELISM)
DEFAULT_CONSUMER_TTL = "7 d"

LATEST_FULL, LATEST, EARLIEST = "latest-full", "latest", "earliest"
FROM_SNAPSHOT, FROM_TIMESTAMP = "from-snapshot", "from-timestamp"
COMPACTED = "compacted"
NEEDED = {FROM_SNAPSHOT: (SNAPSHOT,), FROM_TIMESTAMP: (TIMESTAMP,)}
ALTERNATIVES = {TIMESTAMP: (TIMESTAMP_MILLIS,)}
CHANGE_MODES = (LATEST_FULL, LATEST, EARLIEST, FROM_SNAPSHOT, FROM_TIMESTAMP)

CATALOG_OPTIONS = ("provider", "location", "owner", "external", "is_managed_location", "comment")

# Where a schema remembers the options of the source, for tables of Spark's catalog: it hands over no others.
REMEMBERED = "lsmerge.options"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read; all values as text, checked by `of`."""

    uri: str
    storage_options: dict[str, str]
    own: dict[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType | None = None) -> "ReadOptions":
        """Sort and check options; without a path, those that the schema remembers."""
        lower = {name.lower(): value for name, value in options.items()}
        given = {name: value for name, value in lower.items() if not _is_of_catalog(name)}
        if PATH not in given and schema is not None:
            given = {**_remembered(schema), **given}
        sorted_ = source_options(given, OPTIONS)
        _check_known(sorted_.table)
        read = cls(sorted_.uri, sorted_.storage_options, sorted_.own)
        read._check_consistent()
        return read

    @property
    def is_changes(self) -> bool:
        """Whether changes are read, not rows."""
        return self.own.get(MODE) in CHANGE_MODES

    @property
    def columns(self) -> list[str] | None:
        return names_in(self.own[COLUMNS]) if COLUMNS in self.own else None

    @property
    def split_size(self) -> str | None:
        return self.own.get(SPLIT_SIZE)

    def split_arguments(self) -> dict[str, Any]:
        """What `Scan.splits` is to be asked for."""
        readers = self.number(PARALLELISM)
        return {"target_size": self.split_size} | ({} if readers is None else {"readers": readers})

    def number(self, name: str) -> int | None:
        """The whole number that an option holds."""
        text = self.own.get(name)
        return None if text is None else whole_number(name, text)

    def open(self) -> Table:
        """The table."""
        choose_allocator()
        return open_table(self.uri, storage_options=self.storage_options or None)

    def scan_arguments(self) -> dict[str, Any]:
        """What `Table.scan` is to be asked for, but for the columns."""
        return {
            "filter": self.own.get(FILTER),
            "snapshot": self.number(SNAPSHOT),
            "tag": self.own.get(TAG),
            "timestamp": self._time(),
        }

    def start(self) -> Any:
        """Where changes begin, as `Table.changelog` takes it."""
        mode = self.own[MODE]
        if mode == FROM_SNAPSHOT:
            return self.number(SNAPSHOT)
        if mode != FROM_TIMESTAMP:
            return mode
        return self._datetime()

    def remembered(self) -> str | None:
        """The options as a schema keeps them; None where they hold what must not be written down."""
        if self.storage_options:
            return None
        return json.dumps({PATH: self.uri, **self.own})

    def _time(self) -> Any:
        millis = self.number(TIMESTAMP_MILLIS)
        return self.own.get(TIMESTAMP) if millis is None else millis

    def _datetime(self) -> Any:
        from datetime import UTC, datetime, timedelta

        time = self._time()
        if isinstance(time, int):
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)
        try:
            return datetime.fromisoformat(time)
        except ValueError as error:
            raise InvalidOptionError(
                f"option {TIMESTAMP!r} = {time!r}: give ISO text with an offset, such as '2024-01-31T12:00:00Z'"
            ) from error

    def _check_consistent(self) -> None:
        mode = self.own.get(MODE)
        if mode == COMPACTED:
            raise InvalidOptionError(
                f"option {MODE!r} = 'compacted': a data source cannot hand files to Spark's own reader; "
                "lsmerge.spark.read(spark, path, mode='compacted') does"
            )
        if mode is not None and mode not in CHANGE_MODES:
            raise InvalidOptionError(
                f"option {MODE!r} = {mode!r}: changes are read from one of {', '.join(CHANGE_MODES)}"
            )
        for name in NEEDED.get(mode or "", ()):
            if not any(other in self.own for other in (name, *ALTERNATIVES.get(name, ()))):
                raise InvalidOptionError(f"option {MODE!r} = {mode!r} needs {name!r}")
        self._check_of_changes() if self.is_changes else self._check_of_rows()

    def _check_of_changes(self) -> None:
        mode = self.own[MODE]
        for name in (MAX_SNAPSHOTS, MAX_ROWS, MAX_BYTES):
            if self.number(name) == 0:
                raise InvalidOptionError(f"option {name!r} = '0': accepted: 1 or more")
        for name in (*OF_ROWS, SNAPSHOT, TIMESTAMP, TIMESTAMP_MILLIS):
            is_needed = any(
                name in (needed, *ALTERNATIVES.get(needed, ())) for needed in NEEDED.get(mode, ())
            )
            if name in self.own and not is_needed:
                raise InvalidOptionError(
                    f"option {name!r} does not go with {MODE!r} = {mode!r}, which reads changes: leave it out"
                )

    def _check_of_rows(self) -> None:
        for name in OF_CHANGES:
            if name in self.own:
                raise InvalidOptionError(
                    f"option {name!r} is for reading changes; say where they begin with {MODE!r}: "
                    f"{', '.join(CHANGE_MODES)}"
                )


def _is_of_catalog(name: str) -> bool:
    """What CREATE TABLE adds of its own: it says nothing that `path` and the options do not say."""
    return name in CATALOG_OPTIONS or name.startswith("option.")


def _check_known(others: Mapping[str, str]) -> None:
    for name in others:
        hint = InvalidOptionError.hint(name, OPTIONS)
        raise InvalidOptionError(f"option {name!r} is none of a read of format('lsmerge'); {hint}")


def _remembered(schema: StructType) -> dict[str, str]:
    for field in schema:
        text = (field.metadata or {}).get(REMEMBERED)
        if text:
            return dict(json.loads(text))
    return {}
