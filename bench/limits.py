"""How near lsmerge comes to what its files allow: `python -m bench.limits`.

Each figure is a ratio of two works taken in turn in one process, in processor time and by the clock:

- a scan, merged and compacted, against decoding the same blocks with the same reader, checks and threads
- a full compaction against decoding its inputs and encoding its output (bench.compaction)
- a scan with checksums against one whose stripes pass unread
- a scan on one thread against the kernel and Arrow calls that it makes, recorded once and made again with the same
  arguments on one thread, with what they give for the result kept as the scan keeps it
"""

import argparse
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa

import lsmerge
import lsmerge.engine.context
import lsmerge.engine.merging
import lsmerge.merge.deduplicate
import lsmerge.merge.groups
import lsmerge.storage.arrow_message
import lsmerge.storage.local_file
from bench import compaction
from bench.measuring import Spent, in_turn
from bench.workload import KEY, SCHEMA, generate
from lsmerge.engine import parallel
from lsmerge.engine.parallel import ordered_map
from lsmerge.storage.stripes import StripedSource
from lsmerge_native.gather import gather_batches

SEED = 20_240_101
# Six runs stay apart until `compact`, so that the scan before it measures the merge.
KEEP_RUNS = {"bucket": "1", "num-sorted-run.compaction-trigger": "20"}


def table(uri: str, rows: int) -> lsmerge.Table:
    """The table of `make bench`: a base, and five upserts of a fifth each that overlap it and each other."""
    made = lsmerge.create_table(uri, SCHEMA, KEY, options=KEEP_RUNS)
    for commit in generate(rows, SEED).commits:
        made.upsert(commit)
    return made


def scan(made: lsmerge.Table) -> None:
    made.scan().to_arrow()


def decode(made: lsmerge.Table, columns: pa.Schema) -> None:
    """Decode every block of the table once, on all cores, and keep the rows as a scan does."""
    context = made._context
    blocks = compaction.blocks(context, compaction.live_files(context))
    work = ordered_map(lambda block: compaction.decoded(context, *block, columns), blocks)
    pa.Table.from_batches(list(work), columns)


# ---------------------------------------------------------------------------------------- checksums


def scan_unchecked(made: lsmerge.Table) -> None:
    with mock.patch.object(StripedSource, "_read_checked", read_unchecked):
        scan(made)


def read_unchecked(self: StripedSource, low: int, high: int, *_: int) -> pa.Buffer:
    """Stripes, whatever they are."""
    return self._source.read(low, high - low)


# ------------------------------------------------------------------------- the layer above the kernels

Call = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]
NATIVE = [
    (lsmerge.storage.local_file, "read_stripes"),
    (lsmerge.storage.arrow_message, "read_head"),
    (lsmerge.storage.arrow_message, "view_block"),
    (lsmerge.engine.context, "viewed_batch"),
    (lsmerge.engine.context, "encode_keys"),
    (lsmerge.merge.groups, "merge_runs"),
    (lsmerge.merge.deduplicate, "pick_last"),
    (lsmerge.merge.deduplicate, "keep_adds"),
    (lsmerge.merge.groups, "gather_batches"),
]


def recorded_calls(made: lsmerge.Table) -> list[Call]:
    """What a scan asks of the kernels and of Arrow."""
    calls: list[Call] = []
    with ExitStack() as patches:
        for owner, name in NATIVE:
            patches.enter_context(_recording(owner, name, calls))
        scan(made)
    return calls


def replay(calls: list[Call]) -> None:
    kept = []
    for function, arguments, named in calls:
        given = function(*arguments, **named)
        if function is gather_batches:
            kept.append(given)


def scan_on_one_thread(made: lsmerge.Table) -> None:
    with mock.patch.object(parallel, "CORES", 1):
        scan(made)


@contextmanager
def _recording(owner: Any, name: str, calls: list[Call]) -> Iterator[None]:
    function = getattr(owner, name)
    lock = threading.Lock()

    def wrapper(*arguments: Any, **named: Any) -> Any:
        with lock:
            calls.append((function, arguments, named))
        return function(*arguments, **named)

    with mock.patch.object(owner, name, wrapper):
        yield


# ------------------------------------------------------------------------------------------- report


def limit(name: str, ours: Spent, least: Spent, goal: str) -> str:
    shares = f"{least.processor / ours.processor:.0%} | {least.clock / ours.clock:.0%}"
    times = f"{ours.processor * 1e3:.0f} / {least.processor * 1e3:.0f}"
    return f"| {name} | {shares} | {times} | {goal} |"


def cost(name: str, whole: Spent, without: Spent, goal: str) -> str:
    def more(a: float, b: float) -> str:
        return f"{a / b - 1:+.1%}" if b else ""

    shares = f"{more(whole.processor, without.processor)} | {more(whole.clock, without.clock)}"
    times = f"{whole.processor * 1e3:.0f} / {without.processor * 1e3:.0f}"
    return f"| {name} | {shares} | {times} | {goal} |"


def scan_lines(made: lsmerge.Table, kind: str, goal: str, repeat: int) -> Iterator[str]:
    """What a scan of the table costs beside its limit, without checks, and without the layer above the kernels."""
    merged = kind == "merged"
    columns = made._context.schema.file_schema if merged else made._context.fields(SCHEMA.names)
    works = {
        "scan": lambda: scan(made),
        "decode": lambda: decode(made, columns),
        "unchecked": lambda: scan_unchecked(made),
    }
    if merged:
        calls = recorded_calls(made)
        works["kernels"] = lambda: replay(calls)
        works["one thread"] = lambda: scan_on_one_thread(made)
    best = in_turn(works, repeat)
    ours = best["scan"]
    yield limit(f"{kind} scan, of decoding the same blocks", ours, best["decode"], goal)
    yield cost(f"checksums, {kind} scan", ours, best["unchecked"], "3 % or less")
    if merged:
        alone, kernels = best["one thread"], best["kernels"]
        yield cost("layer above the kernels, merged scan", alone, kernels, "10 % or less")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the base commit")
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    print("| figure | processor | clock | ms of the processor, whole / without | goal |")
    print("|---|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory(prefix="limits-") as directory:
        made = table(f"{directory}/table", given.rows)
        for line in scan_lines(made, "merged", "60 % or more", given.repeat):
            print(line, flush=True)
        made.compact(full=True)
        for line in scan_lines(made, "compacted", "90 % or more", given.repeat):
            print(line, flush=True)
        _, share = compaction.throughput(directory, given.rows // 3, 1, 3)
        print(f"| full compaction, of decoding and encoding | | {share:.0%} | | 50 % or more |")


if __name__ == "__main__":
    main()
