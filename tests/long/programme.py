"""Which experiments belong to which tier, and how large they are there.

`every` thins out long loops for a quick look; a run for the record has 1. The long tier is sized for an hour on two
cores (docs/reliability.md has what each part takes); where that is too short for every point, it takes every third or
so, and the release tier all of them.
"""

from collections.abc import Sequence
from itertools import pairwise

from tests.long import (
    allocations,
    damage,
    faults,
    fuzz,
    hostile,
    kills,
    load,
    metamorphic,
    object_store,
    order,
    power,
    resources,
    schedules,
    searches,
    spark_stream,
    threads,
)
from tests.long.figures import Experiment, Place
from tests.long.scripts import ENGINES
from tests.searches import SEARCHES

TIERS = ("long", "release")


def experiments(tier: str, every: int = 1) -> Sequence[Experiment]:
    """All of a tier, in the order in which they are run."""
    is_release = tier == "release"
    engines = list(ENGINES)
    return [
        Experiment(
            "K1",
            "kill -9 at every system call that touches the table, every engine"
            + ("" if is_release else " (of calls between which no file changes every fifth)"),
            kills.kill_at_syscalls,
            [("life", engine, every, 1 if is_release else 5) for engine in engines],
        ),
        Experiment(
            "K2",
            "kill -9 at every failpoint of every step, every engine"
            + ("" if is_release else " (of all but deduplicate every second)"),
            kills.kill_at_failpoints,
            [
                (script, e, 3, "kill", every)
                if is_release
                else (script, e, 1, "kill", every if e == "deduplicate" else 2 * every)
                for script in ("races", "whole-life")
                for e in engines
            ],
        ),
        Experiment(
            "K2 (error)",
            "the store fails at every failpoint of its own",
            kills.kill_at_failpoints,
            [(script, "deduplicate", 1, "error", every) for script in ("races", "whole-life")],
        ),
        Experiment(
            "K2 (interrupt)",
            "Ctrl-C at every failpoint of every step",
            kills.kill_at_failpoints,
            [(script, "deduplicate", 1, "interrupt", every) for script in ("races", "whole-life")],
        ),
        Experiment(
            "K3",
            "kill -9 at random under load: 4 writers, compactor, expirer, 2 readers; accounts add up",
            load.kill_at_random,
            [((10_000 if is_release else 400) // every + 1, 1)],
            place=Place.ALONE,
        ),
        Experiment(
            "K4",
            "power loss at every call that changes the disk, many outcomes each",
            power.lose_power,
            [
                (script, max(3, (100 if is_release else 20) // every))
                for script in ("asked", "by-itself", "clustered", "expiry")
            ],
        ),
        Experiment(
            "K4 (order)",
            "strace: every file synced, linked, its directory synced, before the snapshot",
            order.check_commits,
            [("life", engine) for engine in engines],
        ),
        Experiment("K5", "torn hints", power.tear_hints, [("deduplicate",)]),
        Experiment(
            "K6",
            "EIO from every fsync",
            faults.fail_syscalls,
            [("whole-life", engine, every, "fsync") for engine in ("deduplicate", "aggregation")],
        ),
        Experiment(
            "K6 (slow)",
            "reads beside a writer whose every fsync takes a second",
            faults.slow_sync,
            [("deduplicate",)],
            place=Place.ALONE,
        ),
        Experiment(
            "K7",
            "an error from every system call that touches the table",
            faults.fail_syscalls,
            [("life", e, every) for e in (engines if is_release else ["deduplicate"])],
        ),
        Experiment(
            "K7 (short)",
            "every step with writes and reads of 1, 7 or 512 bytes at most",
            faults.in_pieces,
            [("life", engine) for engine in ("deduplicate", "aggregation")],
        ),
        Experiment(
            "K7 (descriptors)",
            "every step with 0, 1, 2 ... descriptors to spare",
            faults.limited,
            [("life", engine, "descriptors", every) for engine in ("deduplicate", "aggregation")],
        ),
        Experiment(
            "K7 (file size)",
            "every step with files that may grow to ever more bytes",
            faults.limited,
            [("life", engine, "file size", every) for engine in ("deduplicate", "aggregation")],
        ),
        Experiment(
            "K7 (full disk)",
            "every step with ever more pages free",
            faults.full_disk,
            [("life", "deduplicate", every)],
        ),
        Experiment(
            "K8",
            f"no memory at every{'' if is_release else ' third'} allocation of a kernel, every engine",
            allocations.run_out,
            [("life", engine, every if is_release else 3 * every) for engine in engines],
        ),
        Experiment(
            "C1",
            f"every bit of every byte of {'every' if is_release else 'a'} file of every kind, readers in turn",
            damage.flip_bits,
            [
                (f, kind, 8 if is_release else 1, every)
                for f in ("arrow", "parquet")
                for kind in damage.KINDS
                if f == "arrow" or "bucket" in kind
            ],
        ),
        Experiment(
            "C2",
            f"cut to every{'' if is_release else ' third'} length, longer, sectors zeroed, garbage, swapped, "
            "from other files",
            damage.mangle,
            [
                (f, kind, every if is_release else 3 * every)
                for f in ("arrow", "parquet")
                for kind in damage.KINDS
            ],
        ),
        Experiment(
            "C3",
            "files missing, empty, a directory, exchanged; all readers",
            damage.misplace,
            [("arrow",), ("parquet",)],
        ),
        Experiment(
            "C5",
            "verify names the file that a bit is changed in",
            damage.check_verify,
            [(f, every if is_release else 12 * every) for f in ("arrow", "parquet")],
        ),
        Experiment(
            "C5 (speed)",
            "verify reads a table of some large runs",
            damage.verify_speed,
            [(4 if is_release else 1,)],
            place=Place.ALONE,
        ),
        Experiment(
            "X1",
            "8 processes commit as fast as they can, one compacts",
            load.many_writers,
            [(8, (12_500 if is_release else 2_500) // every)],
            place=Place.ALONE,
        ),
        Experiment(
            "X1 (object store)",
            "4 processes commit to one table on a server that loses answers",
            object_store.race,
            [(4, max(5, (2_500 if is_release else 60) // every))],
            place=Place.ALONE,
        ),
        Experiment(
            "X4",
            "seeded schedules of 2 writers, compactor, expirer, tagger, reader, with faults and deaths",
            schedules.explore_many,
            _ranges((100_000 if is_release else 1_500) // every, 8),
        ),
        Experiment(
            "X2",
            "3 writers, compactor, expirer with vacuum, readers, two of which hold tags for 30 s",
            load.side_by_side,
            [(600 / every,)],
            place=Place.BESIDE,
        ),
        Experiment(
            "S1",
            "table, changelog and tasks beside the model under histories that Hypothesis searches",
            searches.search,
            [(file, (1_000 if is_release else 7) // every + 1) for file in SEARCHES],
        ),
        Experiment(
            "S2",
            "one list of operations under 20 sets of options, every engine",
            metamorphic.compare,
            [(e, 1, max(2, 20 // every), 5_000 if is_release else 150) for e in engines],
        ),
        Experiment(
            "H1",
            "hostile tables under an audit hook, 256 MiB of memory and 20 s of processor time",
            hostile.try_case,
            [(case,) for case in hostile.CASES],
        ),
        Experiment(
            "H3",
            "decoders of every kind of file, mutated, all checksums fitting",
            fuzz.fuzz,
            [
                (f, kind, (100_000 if is_release else 1_500) // every)
                for f in ("arrow", "parquet")
                for kind in damage.KINDS
            ],
        ),
        Experiment(
            "X5",
            "8 threads write, read, look up, follow and verify one open table",
            threads.together,
            [(2_000 if is_release else 60 // every + 1,)],
        ),
        Experiment(
            "X7",
            "micro-batches of one snapshot through Spark, out of a table and into another",
            spark_stream.batches,
            [((1_000 if is_release else 200) // every + 1,)],
        ),
        Experiment(
            "X7 (driver)",
            "a driver of Spark killed before and after the commit of each micro-batch, and started again",
            spark_stream.kill_drivers,
            [(10 if is_release else 2 if every == 1 else 1,)],
        ),
        Experiment(
            "M1",
            f"write, scan, export, compact and look up {'10' if is_release else '1'} million rows, cluster 300,000, "
            "within budgets that the kernel enforces",
            resources.ceilings,
            [(10_000_000 if is_release else 1_000_000 if every == 1 else 300_000,)],
        ),
        Experiment(
            "M2",
            "open, write, read, close: memory and descriptors stay",
            resources.cycles,
            [((10_000 if is_release else 2_000) // every + 10,)],
        ),
        Experiment(
            "M3",
            "a value of 64 MiB, a key of 64 KiB, 10,000 columns, 4,096 partitions, 1,024 buckets",
            resources.limit,
            [(number,) for number in range(len(resources.LIMITS))],
        ),
        Experiment(
            "M3 (snapshots)",
            f"a table with {'100,000' if is_release else '3,000'} snapshots, all kept",
            resources.long_history,
            [(100_000 if is_release else 3_000,)],
        ),
    ]


def _ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """The numbers below `count`, in parts."""
    ends = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(ends))
