"""X1, X3 on an object store: processes that commit to one table on a server that loses answers again and again.

A request whose answer is lost has taken effect or not, and a writer that is told so makes its commit again under the
same identity. In the end every commit is there once.
"""

from collections import Counter
from concurrent.futures import ProcessPoolExecutor, wait
from functools import partial
from multiprocessing import get_context

import lsmerge
from tests.long.figures import Tally
from tests.long.load import OPTIONS, SCHEMA, transfer
from tests.s3_server import S3Server

URI = "s3://bucket/accounts"
FEW_SNAPSHOTS = {"snapshot.num-retained.max": "5", "snapshot.num-retained.min": "1"}
FAULTS_APART_S = 0.2
UNCERTAIN = (lsmerge.StorageError, lsmerge.CommitUnknownError, lsmerge.CommitConflictError)
MOST_ATTEMPTS = 100


def race(processes: int, commits: int) -> Tally:
    """So many processes, so many commits each; every fifth of a second the next answer to a PUT is lost."""
    tally = Tally()
    with S3Server() as server, ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        options = server.storage_options
        lsmerge.create_table(
            URI, SCHEMA, "k", options=OPTIONS | FEW_SNAPSHOTS, storage_options=options
        ).close()
        futures = [pool.submit(commit_all, options, n, commits) for n in range(processes)]
        while wait(futures, timeout=FAULTS_APART_S).not_done:
            server.fail("drop_response", "PUT")
            tally.notes["answers lost"] += 1
            server.requests.clear()
        for number, future in enumerate(futures):
            again = tally.attempt(f"writer {number}", future.result)
            tally.notes["made again"] += again or 0
        tally.attempt("afterwards", partial(_check, options, processes, commits))
    tally.tried = processes * commits
    return tally


def commit_all(options: dict[str, str], writer: int, commits: int) -> int:
    """In a process of its own; how many commits were made again because their fate was unknown."""
    with lsmerge.open_table(URI, storage_options=options) as table:
        return sum(_attempts(table, writer, commit) - 1 for commit in range(commits))


def _attempts(table: lsmerge.Table, writer: int, commit: int) -> int:
    for attempt in range(1, MOST_ATTEMPTS):
        try:
            table.write(transfer(writer, commit), commit_user=f"w{writer}", commit_id=commit)
        except UNCERTAIN:
            continue
        return attempt
    raise AssertionError(f"{MOST_ATTEMPTS} failures in a row")


def _check(options: dict[str, str], processes: int, commits: int) -> None:
    wanted: Counter[int] = Counter()
    for writer in range(processes):
        for commit in range(commits):
            for row in transfer(writer, commit):
                wanted[row["k"]] += row["n"]
    with lsmerge.open_table(URI, storage_options=options) as table:
        rows = {row["k"]: row["n"] for row in table.scan().to_arrow().to_pylist()}
        if rows != wanted:
            raise AssertionError(f"rows {rows} instead of {wanted}")
        if table.verify().problems:
            raise AssertionError(f"damaged: {table.verify().problems}")
