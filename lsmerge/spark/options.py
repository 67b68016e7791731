"""What the options of a DataFrame reader or writer mean: where the table is, the source's own options, the table's.

Spark hands them over without regard to case. An option that is none of the source's own is one of the table, under
the name it has in `create_table`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lsmerge import InvalidOptionError

PATH = "path"
PATHS = "paths"
STORAGE_PREFIX = "storage."
FIELDS_PREFIX = "fields."
# What Spark's own machinery passes on with the options of a stream.
OF_SPARK = ("checkpointlocation", "queryname")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read or write, sorted by what they are for; names are in lower case."""

    uri: str
    storage_options: dict[str, str]
    own: dict[str, str]
    table: dict[str, str]


def source_options(options: Mapping[str, str], own: Collection[str]) -> SourceOptions:
    """Sort options; `own` names those that belong to the read or write itself."""
    given = {name.lower(): value for name, value in options.items()}
    _check_one_path(given)
    uri = location(given.pop(PATH, None))
    storage = {n: v for n, v in given.items() if n.startswith(STORAGE_PREFIX)}
    others = given.keys() - storage.keys() - set(OF_SPARK)
    return SourceOptions(
        uri,
        {name.removeprefix(STORAGE_PREFIX): value for name, value in storage.items()},
        {name: value for name, value in given.items() if name in own},
        {name: value for name, value in given.items() if name in others and name not in own},
    )


def _check_one_path(given: Mapping[str, str]) -> None:
    if PATHS in given:
        raise InvalidOptionError(
            f"paths = {given[PATHS]}: one load reads one table; load each, and unite them: "
            "spark.read.format('lsmerge').load(a).unionByName(spark.read.format('lsmerge').load(b))"
        )


def location(path: str | None) -> str:
    """A place that means the same in every process; anything else is refused."""
    if not path:
        raise InvalidOptionError(
            "path: not given; say .save(path), .load(path) or .option('path', path)"
        )
    if path.startswith("memory://"):
        raise InvalidOptionError(
            f"path = {path!r}: each Spark process has a memory of its own; "
            "give a directory or an object store that all of them see"
        )
    if path.startswith("file:/") and not path.startswith("file://"):
        return "file://" + path.removeprefix("file:")  # as Spark's catalog writes it
    if "://" not in path and not path.startswith("/"):
        raise InvalidOptionError(
            f"path = {path!r}: a relative path means another directory in each Spark process; "
            "give an absolute path, or one with file://, s3://, gs:// or az://"
        )
    return path


def cores(spark: SparkSession) -> int | None:
    """How many tasks run at once; None behind Spark Connect, which does not tell."""
    return None if is_connected(spark) else int(spark.sparkContext.defaultParallelism)


def is_connected(spark: SparkSession) -> bool:
    """Whether this is a client of Spark Connect, on a machine of its own perhaps."""
    return not hasattr(spark, "_jsparkSession")


def spelled(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Names as `columns` spell them, whatever their case, as Spark matches them; others as they are."""
    by_lower = {name.lower(): name for name in columns}
    return [by_lower.get(name.lower(), name) for name in names]


def with_column_names(options: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """Options of columns (`fields.<f>.…`) with the columns' names as the schema spells them."""
    return {_with_column_name(name, columns): value for name, value in options.items()}


def _with_column_name(option: str, columns: Sequence[str]) -> str:
    if not option.startswith(FIELDS_PREFIX):
        return option
    named, dot, rest = option.removeprefix(FIELDS_PREFIX).partition(".")
    return f"{FIELDS_PREFIX}{','.join(spelled(named.split(','), columns))}{dot}{rest}"


def names_in(text: str) -> list[str]:
    """The names in a list such as `day, id`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def whole_number(name: str, text: str) -> int:
    """The value of an option that is a number from 0 on."""
    if not text.isdecimal():
        raise InvalidOptionError(f"option {name!r} = {text!r}: accepted: a whole number from 0 on")
    return int(text)
