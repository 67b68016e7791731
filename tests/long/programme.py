"""Which experiments belong to which tier, and how large they are there.

`every` thins out long loops for a quick look; a run for the record has 1.
"""

from collections.abc import Sequence

from tests.long import faults, kills
from tests.long.figures import Experiment
from tests.long.scripts import ENGINES

TIERS = ("long", "release")


def experiments(tier: str, every: int = 1) -> Sequence[Experiment]:
    """All of a tier, in the order in which they are run."""
    is_release = tier == "release"
    engines = list(ENGINES)
    return [
        Experiment(
            "K1",
            "kill -9 at every system call that touches the table, every engine",
            kills.kill_at_syscalls,
            [("life", engine, every) for engine in engines],
        ),
        Experiment(
            "K2",
            "kill -9 at every failpoint of every step, every engine",
            kills.kill_at_failpoints,
            [(s, e, 3 if is_release else 1) for s in ("races", "whole-life") for e in engines],
        ),
        Experiment(
            "K2 (error)",
            "the store fails at every failpoint of its own",
            kills.kill_at_failpoints,
            [(script, "deduplicate", 1, "error") for script in ("races", "whole-life")],
        ),
        Experiment(
            "K2 (interrupt)",
            "Ctrl-C at every failpoint of every step",
            kills.kill_at_failpoints,
            [(script, "deduplicate", 1, "interrupt") for script in ("races", "whole-life")],
        ),
        Experiment(
            "K6",
            "EIO from every fsync",
            faults.fail_syscalls,
            [("whole-life", engine, every, "fsync") for engine in ("deduplicate", "aggregation")],
        ),
        Experiment(
            "K7",
            "an error from every system call that touches the table",
            faults.fail_syscalls,
            [("life", e, every) for e in (engines if is_release else ["deduplicate", "custom"])],
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
    ]
