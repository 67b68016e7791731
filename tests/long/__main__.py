"""`python -m tests.long [--tier long|release] [--only K1,K2] [--every N] [--jobs 2] [--output FILE]`.

Prints a table of what was tried and what went wrong, row by row, then every violation. Ends with 1 if there is any.
"""

import argparse
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.long.figures import HEAD, Row, as_markdown, run_all
from tests.long.programme import TIERS, experiments


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
    rows = []
    print(" | ".join(HEAD), flush=True)
    for row in run_all(found, chosen.jobs):
        print(" | ".join(row.cells), flush=True)
        rows.append(row)
    _report(chosen.output, chosen.tier, rows)
    return 1 if any(row.tally.violations for row in rows) else 0


def _report(output: Path | None, tier: str, rows: Sequence[Row]) -> None:
    for row in rows:
        for violation in row.tally.violations:
            print(f"\n{row.experiment.id}: {violation}", file=sys.stderr)
    if output is not None:
        head = f"Tier {tier}, Python {platform.python_version()}, {platform.system()} {platform.machine()}."
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(f"{head}\n\n{as_markdown(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
