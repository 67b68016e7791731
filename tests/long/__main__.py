"""`python -m tests.long [--tier long|release] [--only K1,K2] [--every N] [--jobs 2] [--output FILE]`.

Prints a table of what was tried and what went wrong, row by row, then every violation. Ends with 1 if there is any.
"""

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.long.figures import HEAD, Row, as_markdown
from tests.long.programme import TIERS, experiments
from tests.long.running import run_all

# After that a part is taken to hang.
MOST_S = {"long": 2400, "release": 86_400}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("--tier", choices=TIERS, default="long")
    parser.add_argument("--only", default="", help="ids, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="of long loops, only every n-th try")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, help="where the table goes too")
    chosen = parser.parse_args(arguments)
    wanted = [name for name in chosen.only.split(",") if name]
    found = [e for e in experiments(chosen.tier, chosen.every) if not wanted or e.id in wanted]
    rows, began = [], time.monotonic()
    print(" | ".join(HEAD), flush=True)
    for row in run_all(found, chosen.jobs, MOST_S[chosen.tier]):
        print(" | ".join(row.cells), flush=True)
        rows.append(row)
    order = [experiment.id for experiment in found]
    rows.sort(key=lambda row: order.index(row.experiment.id))
    return _report(chosen.output, chosen.tier, rows, time.monotonic() - began)


def _report(output: Path | None, tier: str, rows: Sequence[Row], seconds: float) -> int:
    """Print what there is to say of all, and keep the table; whether there is a violation."""
    found = [(row.experiment.id, text) for row in rows for text in row.tally.violations]
    for name, violation in found:
        print(f"\n{name}: {violation}", file=sys.stderr)
    tried = sum(row.tally.tried for row in rows)
    total = ("", "all of it, from the first to the last", f"{tried:,}", f"{len(found):,}")
    last = (*total, f"{seconds:,.0f} s")
    print(" | ".join(last), flush=True)
    if output is not None:
        head = f"Tier {tier}, Python {platform.python_version()}, {platform.system()} {platform.machine()}."
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(f"{head}\n\n{as_markdown(rows, last)}\n", encoding="utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
