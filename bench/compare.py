"""Runs lsmerge and its peers on the same rows and prints how they compare.

    python -m bench.compare [--rows 1000000] [--repeat 3] [--stores lsmerge,duckdb,...]

Every store runs in a process of its own, under its own environment; the stores alternate, and each
figure is the best of the repetitions, because a shared machine only ever adds time. Absolute times
differ from machine to machine: read the ratios. A store whose answers are wrong, that fails, cannot
be imported or exceeds the timeout is reported by name and leaves the table.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.registry import ROOT, STORES, StoreEntry, entry
from bench.report import table_of
from bench.workload import Answers, answers, generate, save

RESULTS = ROOT / "bench" / "results"


class StoreFailed(Exception):
    """A store did not finish, or answered wrongly; the message says which and why."""


def run_once(
    store: StoreEntry, workload: Path, truth: dict[str, Any], timeout: float
) -> dict[str, Any]:
    """One life of one store in a fresh directory; its answers are checked here."""
    directory = Path(tempfile.mkdtemp(prefix=f"{store.name}-", dir=workload.parent))
    try:
        result = _run_process(store, workload, directory, timeout)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    check(store, result.pop("answers"), truth)
    return result


def check(store: StoreEntry, given: dict[str, Any], truth: dict[str, Any]) -> None:
    """Raises StoreFailed at the first answer that is not the truth."""
    for name in ("after_ingest", "lookup", "after_small_upsert"):
        if given[name] != truth[name]:
            raise StoreFailed(f"wrong answer ({name}): {given[name]}, expected {truth[name]}")
    expected_rows = truth["single_rows"][: store.gets]
    if given["single_rows"] != expected_rows or not given["absent"]:
        raise StoreFailed("wrong answer of a single get")


def rounds(stores: list[StoreEntry], repeat: int) -> Iterator[tuple[int, StoreEntry]]:
    """The order of runs: stores alternate, and a capped store sits out the later rounds."""
    for number in range(repeat):
        for store in stores:
            if number < store.repeat:
                yield number, store


def best_of(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The best of each figure: the highest rate, the smallest size."""
    names = runs[0]["figures"]
    return {
        name: (min if name.endswith("_bytes") else max)(run["figures"][name] for run in runs)
        for name in names
    }


def compare(
    stores: list[StoreEntry], workload: Path, truth: dict[str, Any], repeat: int, timeout: float
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Runs of each store that works, and the reason for each that was skipped."""
    done: dict[str, list[dict[str, Any]]] = {}
    skipped: dict[str, str] = {}
    for number, store in rounds(stores, repeat):
        if store.name in skipped:
            continue
        _progress(f"round {number + 1} of {repeat}: {store.name}")
        try:
            done.setdefault(store.name, []).append(run_once(store, workload, truth, timeout))
        except StoreFailed as failure:
            skipped[store.name] = str(failure)
            done.pop(store.name, None)
            _progress(f"skipped: {store.name}: {failure}")
    return done, skipped


def _run_process(
    store: StoreEntry, workload: Path, directory: Path, timeout: float
) -> dict[str, Any]:
    command = [store.python, "-m", "bench.run_store", store.name, workload, directory]
    try:
        process = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise StoreFailed(f"not finished after {timeout:.0f} s") from None
    if process.returncode != 0:
        raise StoreFailed((process.stderr.strip() or "no message").splitlines()[-1])
    return json.loads(process.stdout.strip().splitlines()[-1])


def _truth(workload_answers: Answers) -> dict[str, Any]:
    """The answers as they look after a journey through JSON, as the stores' own do."""
    return json.loads(json.dumps(asdict(workload_answers)))


def _progress(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _write_results(document: dict[str, Any]) -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{document['date'].replace(':', '')}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def _arguments() -> argparse.Namespace:
    everyone = ",".join(store.name for store in STORES)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the base commit")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the best counts")
    parser.add_argument("--seed", type=int, default=20_240_101)
    parser.add_argument("--stores", default=everyone, help="comma-separated names")
    parser.add_argument("--timeout", type=float, default=1_800, help="seconds for one store run")
    parser.add_argument("--directory", type=Path, help="where tables are made; must be a real disk")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    stores = [entry(name) for name in arguments.stores.split(",")]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.directory) as scratch:
        _progress(f"making {arguments.rows:,} rows and five upserts of a fifth each")
        workload_directory = Path(scratch) / "workload"
        workload_directory.mkdir()
        workload = generate(arguments.rows, arguments.seed)
        save(workload, workload_directory)
        truth = _truth(answers(workload))
        done, skipped = compare(
            stores, workload_directory, truth, arguments.repeat, arguments.timeout
        )
    document = {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "machine": {"platform": platform.platform(), "python": platform.python_version()},
        "rows": arguments.rows,
        "seed": arguments.seed,
        "repeat": arguments.repeat,
        "best": {name: best_of(runs) for name, runs in done.items()},
        "stores": {
            name: {"version": runs[0]["version"], "note": runs[0]["note"], "runs": len(runs)}
            for name, runs in done.items()
        },
        "runs": {name: [run["figures"] for run in runs] for name, runs in done.items()},
        "skipped": skipped,
    }
    print(table_of(document))
    _progress(f"written: {_write_results(document).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
