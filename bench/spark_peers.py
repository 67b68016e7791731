"""lsmerge on Spark beside Delta, Hudi and Paimon with the same rows: `python -m bench.spark_peers`.

    python -m bench.spark_peers --install      makes the environments, one for each version of Spark
    python -m bench.spark_peers [--rows 1000000] [--repeat 2] [--stores lsmerge,delta,...] [--master local-cluster]

Every store runs on local[2], or on a local cluster of two executors, in a process of its own (bench.spark_stores),
under the Spark that its jar is made for; stores alternate, and the best of the rounds counts. Jars come from Maven. A
store whose environment or jar is not to be had here, that fails, takes too long or answers otherwise than lsmerge is
skipped by name, with the reason.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.peers import PIP, environment
from bench.registry import ROOT
from bench.spark_registry import MASTERS, STORES, SparkStore

JARS = ROOT / "bench" / "results" / "ivy"
OURS = "lsmerge"
WORKS = (
    "first write",
    "upsert",
    "first snapshot read",
    "snapshot read",
    "changelog read",
    "compacted read",
)


class SparkStoreFailed(Exception):
    """A store cannot be measured here; the message says why."""


def install(store: SparkStore) -> None:
    """Put the store's Spark, and what else it needs, into its environment."""
    python = environment(store.environment)
    wanted = [f"pyspark=={store.spark}.*", *store.requirements]
    subprocess.run([python, *PIP, "install", "--quiet", *wanted], cwd=ROOT, check=True)


def check_installed(store: SparkStore) -> None:
    """Raises SparkStoreFailed unless there is an environment for the store; its jars are fetched by Spark."""
    if not (store.environment / "bin" / "python").exists():
        raise SparkStoreFailed(f"no {store.environment.name}; --install makes it")


def settings() -> dict[str, str]:
    """Where Python is told to keep no bytecode, each of Spark's processes would compile lsmerge anew."""
    return os.environ | {"PYTHONDONTWRITEBYTECODE": ""}


def run_once(store: SparkStore, master: str, rows: int, timeout: float) -> dict[str, Any]:
    """One life of a store in a fresh directory."""
    python = store.environment / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix=f"spark-{store.name}-") as directory:
        command = [python, "-m", "bench.spark_stores", store.name, directory]
        command += ["--rows", str(rows), "--master", master, "--jars", JARS]
        try:
            process = subprocess.run(
                command,
                cwd=ROOT,
                env=settings(),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SparkStoreFailed(f"not finished after {timeout:.0f} s") from None
    if process.returncode != 0:
        raise SparkStoreFailed(reason(process.stderr))
    return json.loads(process.stdout.strip().splitlines()[-1])


def reason(stderr: str) -> str:
    """The last line that names an error."""
    lines = [line.strip() for line in stderr.splitlines() if "rror" in line or "xception" in line]
    return (lines or ["no message"])[-1][:300]


def compare(
    stores: list[SparkStore], master: str, rows: int, repeat: int, timeout: float
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Runs of each store that works, and the reason for each that was skipped."""
    done: dict[str, list[dict[str, Any]]] = {}
    skipped: dict[str, str] = {}
    for number in range(repeat):
        for store in stores:
            if store.name in skipped:
                continue
            print(f"round {number + 1} of {repeat}: {store.name}", flush=True)
            try:
                check_installed(store)
                result = run_once(store, master, rows, timeout)
                _check_answer(result, done.get(OURS))
                done.setdefault(store.name, []).append(result)
            except SparkStoreFailed as failure:
                skipped[store.name] = str(failure)
                done.pop(store.name, None)
                print(f"skipped: {store.name}: {failure}", flush=True)
    return done, skipped


def _check_answer(result: dict[str, Any], ours: list[dict[str, Any]] | None) -> None:
    if ours and result["answer"] != ours[0]["answer"]:
        raise SparkStoreFailed(f"rows add up to {result['answer']}, not {ours[0]['answer']}")


def best(runs: list[dict[str, Any]], work: str, measure: int) -> float:
    """The least seconds of a work: on the clock (0) or of the processors (1)."""
    return min(run["taken"][work][measure] for run in runs)


def print_table(done: dict[str, list[dict[str, Any]]], rows: int) -> None:
    ours = done.get(OURS)
    print(
        f"\n{rows:,} rows, then upserts of {rows // 5:,}; seconds on the clock, and of all processors."
    )
    print(f"In brackets how many times as long as {OURS} takes.\n")
    print("| store | Spark | " + " | ".join(WORKS) + " |")
    print("|---|---|" + "---:|" * len(WORKS))
    for name, runs in done.items():
        cells = [_cell(runs, ours, work) for work in WORKS]
        print(f"| {name} | {runs[0]['spark']} | " + " | ".join(cells) + " |")


def _cell(runs: list[dict[str, Any]], ours: list[dict[str, Any]] | None, work: str) -> str:
    if work not in runs[0]["taken"]:
        return "-"
    taken = [best(runs, work, measure) for measure in (0, 1)]
    text = f"{taken[0]:.2f}, {taken[1]:.2f}"
    if ours is None or ours is runs:
        return text
    ratios = [taken[measure] / best(ours, work, measure) for measure in (0, 1)]
    return f"{text} ({ratios[0]:.2f}x, {ratios[1]:.2f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--install", action="store_true", help="make the environments and stop")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--master", choices=MASTERS, default="local")
    parser.add_argument("--timeout", type=float, default=1_800, help="seconds for one run")
    parser.add_argument("--stores", default=",".join(store.name for store in STORES))
    given = parser.parse_args()
    chosen = [store for store in STORES if store.name in given.stores.split(",")]
    if given.install:
        for store in chosen:
            install(store)
        return
    Path(JARS).mkdir(parents=True, exist_ok=True)
    done, skipped = compare(chosen, given.master, given.rows, given.repeat, given.timeout)
    print_table(done, given.rows)
    for name, reason in skipped.items():
        print(f"- skipped: {name}: {reason}")


if __name__ == "__main__":
    main()
