"""S1, S3, S4: the searches of the suite for a history that gives a wrong answer, at full length."""

import os
import subprocess
import sys
from pathlib import Path

from tests.long.figures import Tally

ROOT = Path(__file__).parent.parent.parent


def search(file: str, examples: int) -> Tally:
    """Run the tests of a file with so many examples each; what Hypothesis printed of a failure is the violation."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"LSMERGE_EXAMPLES": str(examples)},
    )
    tally = Tally(tried=examples)
    if done.returncode != 0:
        tally.violations.append(f"{file}: {done.stdout[-6_000:]}{done.stderr[-1_000:]}")
    return tally
