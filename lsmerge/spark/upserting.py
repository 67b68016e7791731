"""Upserts with a shuffle: rows go to the task of their key before they are written, so that tasks do all the work."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from lsmerge import InvalidOptionError, Table, open_table
from lsmerge.spark import write
from lsmerge.spark.options import PATH, STORAGE_PREFIX, cores, source_options
from lsmerge.spark.shuffle import bucket_count, can_shuffle, shuffled
from lsmerge.spark.target import as_in_table

# Options that give the rows of a key an order which is not that of their arrival.
ORDERING = ("sequence.field", "record.merge.ordering-fields")


def upsert(
    df: DataFrame,
    path: str,
    *,
    columns: Sequence[str] | None = None,
    primary_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    commit_user: str | None = None,
    commit_id: int | None = None,
    parallelism: int | None = None,
    keep_order: bool | None = None,
) -> None:
    """Write the rows of a DataFrame in one commit, each bucket by one task.

    The table is made if there is none and `primary_key` is given, as `df.write` does. `parallelism` is the number of
    tasks, by default that of the session's cores, and no more than fixed buckets of an unpartitioned table; with more
    tasks than buckets, a bucket gets several runs. `keep_order` says whether rows of one key keep their order in
    `df`, so that the last one wins; without it the winner of two rows is arbitrary, unless the table has a sequence
    field, which is why it is not kept then by default.

    With `commit_user` and `commit_id` the commit happens at most once: in foreachBatch, pass a name of the job and the
    number of the batch.
    """
    given = _spark_options(path, columns, primary_key, partition_by, options, storage_options)
    given |= _identity(commit_user, commit_id)
    write.prepared(source_options(given, write.OWN_OPTIONS), df.schema, overwrite=False)
    with open_table(path, storage_options=dict(storage_options or {})) as table:
        if _is_done(table, commit_user, commit_id):
            return
        total = _tasks(df, table, parallelism)
        df = df.toDF(*as_in_table(table, df.columns))
        if can_shuffle(table):
            keeps_order = _keeps_order(table) if keep_order is None else keep_order
            df = shuffled(df, table, total, keeps_order=keeps_order)
            given[write.SHARES] = str(total)
    df.write.format("lsmerge").mode("append").options(**given).save()


def _spark_options(
    path: str,
    columns: Sequence[str] | None,
    primary_key: str | Sequence[str] | None,
    partition_by: str | Sequence[str] | None,
    options: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
) -> dict[str, Any]:
    lists = {
        write.COLUMNS: columns,
        write.PRIMARY_KEY: primary_key,
        write.PARTITION_BY: partition_by,
    }
    return {
        **(options or {}),
        **{f"{STORAGE_PREFIX}{name}": value for name, value in (storage_options or {}).items()},
        **{name: _listed(names) for name, names in lists.items() if names is not None},
        PATH: path,
    }


def _listed(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _identity(user: str | None, number: int | None) -> dict[str, str]:
    if (user is None) != (number is None):
        raise InvalidOptionError(
            f"commit_user = {user!r}, commit_id = {number!r}: give both, or none"
        )
    return {} if user is None else {write.COMMIT_USER: user, write.COMMIT_ID: str(number)}


def _is_done(table: Table, user: str | None, number: int | None) -> bool:
    """Whether the newest commit of this user is the one asked for: no task need run then."""
    latest = table.latest_snapshot()
    if latest is None or user not in latest.users:
        return False
    return bool(latest.users[user].max_identifier == number)


def _tasks(df: DataFrame, table: Table, parallelism: int | None) -> int:
    if parallelism is not None:
        if parallelism < 1:
            raise InvalidOptionError(f"parallelism = {parallelism}: accepted: 1 or more")
        return parallelism
    buckets = bucket_count(table)
    is_bounded = buckets != -1 and not table.partition_by
    return min(buckets, _cores(df)) if is_bounded else _cores(df)


def _cores(df: DataFrame) -> int:
    """How many tasks run at once; behind Spark Connect, how many a shuffle makes."""
    session = df.sparkSession
    return cores(session) or int(session.conf.get("spark.sql.shuffle.partitions") or 1)


def _keeps_order(table: Table) -> bool:
    return not any(name in table.options for name in ORDERING)
