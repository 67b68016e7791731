"""Reads on Spark with all stores in turn: `python -m bench.spark_turns [--rows 1000000] [--repeat 40]`.

bench.spark_peers lets one store live after the other, and a machine that others use may be half as fast for one of
them. Here each store has its session, all of them at once with the same rows, and they read one after the other, so
that whatever comes over the machine comes over all. The environments are those of bench.spark_peers.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.registry import ROOT
from bench.spark_peers import JARS, OURS, SparkStoreFailed, check_installed, reason, settings
from bench.spark_registry import STORES, SparkStore

WORKS = ("snapshot", "changes")
DEFAULT_STORES = "lsmerge,lsmerge.spark,delta"

Times = list[tuple[float, float]]


class Session:
    """A store that has its rows, and reads them when it is asked."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def answer(self) -> list[int]:
        """What its rows add up to, once they are there."""
        line = ""
        while not line.startswith('{"ready"'):
            line = self._line()
        return json.loads(line)["ready"]

    def read(self, work: str) -> tuple[float, float]:
        """Seconds on the clock and of the processors."""
        assert self._process.stdin is not None
        print(work, file=self._process.stdin, flush=True)
        clock, processor = json.loads(self._line())
        return clock, processor

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SparkStoreFailed(reason(self._errors.read_text(errors="replace")))
        return line.strip()


@contextmanager
def session(store: SparkStore, rows: int) -> Iterator[Session]:
    check_installed(store)
    with tempfile.TemporaryDirectory(prefix=f"spark-{store.name}-") as directory:
        command = [store.environment / "bin" / "python", "-m", "bench.spark_stores", store.name]
        command += [directory, "--rows", str(rows), "--jars", JARS, "--serve"]
        errors = Path(directory) / "errors"
        with (
            errors.open("w") as sink,
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=settings(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
            ) as process,
        ):
            yield Session(process, errors)


def in_turn(sessions: dict[str, Session], work: str, repeat: int) -> dict[str, Times]:
    taken: dict[str, Times] = {name: [] for name in sessions}
    for _ in range(repeat):
        for name, one in sessions.items():
            taken[name].append(one.read(work))
    return taken


def print_table(work: str, taken: dict[str, Times]) -> None:
    """The best, and the middle one of the later half, by when Java has compiled what it will."""
    print(f"\n| {work}, seconds | best | middle | of the processors | of {OURS} |")
    print("|---|---:|---:|---:|---:|")
    ours = _middle(taken[OURS]) if OURS in taken else None
    for name, times in taken.items():
        clock, processor = _middle(times)
        ratio = "-" if ours is None else f"{clock / ours[0]:.2f}x"
        print(f"| {name} | {min(times)[0]:.3f} | {clock:.3f} | {processor:.2f} | {ratio} |")


def _middle(times: Times) -> list[float]:
    """On the clock and of the processors."""
    later = times[len(times) // 2 :]
    return [statistics.median(column) for column in zip(*later, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--stores", default=DEFAULT_STORES)
    given = parser.parse_args()
    known = {store.name: store for store in STORES}
    chosen = [known[name] for name in given.stores.split(",")]
    Path(JARS).mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        sessions = {s.name: stack.enter_context(session(s, given.rows)) for s in chosen}
        answers = {name: one.answer() for name, one in sessions.items()}
        if len(set(map(tuple, answers.values()))) > 1:
            raise SparkStoreFailed(f"rows add up differently: {answers}")
        for work in WORKS:
            print_table(work, in_turn(sessions, work, given.repeat))


if __name__ == "__main__":
    main()
