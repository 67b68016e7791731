"""How long the searches of Hypothesis for a wrong answer are.

`make test` takes a few examples of each; the reliability programme (tests/long) sets LSMERGE_EXAMPLES and searches
for long. Every file in SEARCHES takes its number of examples from here.
"""

import os

SEARCHES = (
    "tests/test_state_machine.py",
    "tests/test_evolution_machine.py",
    "tests/test_placement.py",
    "tests/test_rescale.py",
    "tests/test_tasks.py",
    "tests/test_splits.py",
    "tests/test_changelog_law.py",
    "tests/test_functions.py",
    "tests/test_value_pruning.py",
    "tests/test_target_columns.py",
    "tests/statements/test_pushdown.py",
)


def examples(usual: int, part: float = 1) -> int:
    """What LSMERGE_EXAMPLES says, of which a costly search takes a part; `usual` if it says nothing."""
    asked = os.environ.get("LSMERGE_EXAMPLES")
    return usual if asked is None else max(1, int(int(asked) * part))
