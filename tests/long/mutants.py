"""S6: are the tests able to fail? `python -m tests.long.mutants [--sample N] [--seed S] [--only meta/]`.

Each mutant is one small change in a module that decides: a comparison turned, a constant moved, a condition negated.
In a copy of the sources the tests of that module run against it, quickest first, until one fails; a mutant that they
let pass is told with its place and what was changed. `--sample 0` takes all of them, which is for a night.
"""

import argparse
import ast
import itertools
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import pyarrow.compute
import pyarrow.parquet  # noqa: F401 - loaded once, for all mutants
import pytest

OURS = ("lsmerge", "lsmerge_native", "tests")
ROOT = Path(__file__).parent.parent.parent
MERGING = (
    "tests/test_model.py",
    "tests/test_sequence_order.py",
    "tests/test_record_merger.py",
    "tests/test_target_columns.py",
    "tests/test_conformance.py",
    "tests/test_functions.py",
)
COMMITTING = ("tests/test_commit.py", "tests/test_snapshots.py", "tests/test_regressions.py")
EXPIRING = (
    "tests/test_expiry.py",
    "tests/test_tags_and_rollback.py",
    "tests/test_expiry_faults.py",
)
COMPACTING = ("tests/test_pick.py", "tests/test_move.py", "tests/test_compact.py")
# The modules that decide, and the tests that should notice a wrong decision.
TESTS: dict[str, Sequence[str]] = {
    "lsmerge/merge/user*.py": ("tests/test_user_functions.py", "tests/test_custom_merger.py"),
    "lsmerge/merge/custom.py": ("tests/test_custom_merger.py", "tests/test_testing.py"),
    "lsmerge/merge/merger_rows.py": ("tests/test_custom_merger.py",),
    "lsmerge/merge/record_merge.py": ("tests/test_custom_merger.py", "tests/test_testing.py"),
    "lsmerge/merge/batch_merge.py": ("tests/test_custom_merger.py", "tests/test_testing.py"),
    "lsmerge/merge/door.py": ("tests/test_regressions.py", *MERGING),
    "lsmerge/merge/changelog.py": ("tests/test_changelog.py", "tests/test_changelog_law.py"),
    "lsmerge/merge/*.py": MERGING,
    "lsmerge/meta/commit.py": (
        *COMMITTING,
        "tests/test_expiry.py",
        "tests/test_fault_loop.py",
        "tests/test_rescale.py",
    ),
    "lsmerge/meta/snapshot.py": (*COMMITTING, "tests/test_expiry.py", "tests/test_fault_loop.py"),
    "lsmerge/meta/version.py": (*COMMITTING, *COMPACTING),
    "lsmerge/meta/manifest.py": (*COMMITTING, "tests/test_format.py", "tests/test_bad_input.py"),
    "lsmerge/meta/expire.py": (*EXPIRING, "tests/test_changelog_retention.py"),
    "lsmerge/meta/expiry_mark.py": (*EXPIRING, "tests/test_regressions.py"),
    "lsmerge/meta/references.py": EXPIRING,
    "lsmerge/engine/pick.py": COMPACTING,
    "lsmerge/engine/move.py": COMPACTING,
    "lsmerge/engine/sections.py": ("tests/test_sections.py", "tests/test_compact.py"),
    "lsmerge/engine/pruning.py": (
        "tests/test_key_pruning.py",
        "tests/test_predicate.py",
        "tests/test_value_pruning.py",
    ),
    "lsmerge/engine/value_pruning.py": ("tests/test_value_pruning.py",),
    "lsmerge/storage/turns.py": ("tests/test_turns.py",),
    "lsmerge/storage/block_index.py": ("tests/test_block_index.py", "tests/test_run_file.py"),
}
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
TIMEOUT_S = 900


class Mutant(NamedTuple):
    """A module with one change."""

    path: str
    line: int
    change: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a module."""
    for number, node in enumerate(ast.walk(ast.parse(source))):
        before = ast.unparse(node)
        if mutate(node):
            changed = ast.parse(source)
            mutate(next(itertools.islice(ast.walk(changed), number, None)))
            change = f"{_short(before)} -> {_short(ast.unparse(node))}"
            yield Mutant(path, getattr(node, "lineno", 0), change, ast.unparse(changed))


def _short(text: str) -> str:
    return " ".join(text.split())[:80]


def mutate(node: ast.AST) -> bool:
    """Change a node in place, if it is one that can be."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
        node.ops[0] = TURNED[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        node.value = not node.value
    else:
        return False
    return True


def tests_of(path: str) -> Sequence[str]:
    """The tests of a module: those of the first pattern that it fits."""
    return next((tests for pattern, tests in TESTS.items() if Path(path).match(pattern)), ())


def all_mutants(only: str = "") -> list[Mutant]:
    """Those of all modules that decide, or of those whose path below lsmerge begins with `only`."""
    paths = sorted({path for pattern in TESTS for path in ROOT.glob(pattern)})
    names = [str(path.relative_to(ROOT)) for path in paths]
    return [
        mutant
        for name in names
        if name.removeprefix("lsmerge/").startswith(only)
        for mutant in mutants(name, (ROOT / name).read_text(encoding="utf-8"))
    ]


def survives(tree: Path, mutant: Mutant, trusted: set[str]) -> bool:
    """Whether the tests let a mutant pass. `trusted` are those known to pass without one."""
    path = tree / mutant.path
    original = path.read_text(encoding="utf-8")
    path.write_text(mutant.source, encoding="utf-8")
    try:
        killer = next((test for test in tests_of(mutant.path) if not _passes(tree, test)), None)
    finally:
        path.write_text(original, encoding="utf-8")
    if killer is not None and killer not in trusted:
        if not _passes(tree, killer):
            raise RuntimeError(f"{killer} fails without a mutant, so it tells nothing")
        trusted.add(killer)
    return killer is None


def _passes(tree: Path, test: str) -> bool:
    # Forked, so that what tests need of others is loaded once and not for every mutant.
    process = multiprocessing.get_context("fork").Process(target=_run, args=(tree, test))
    process.start()
    process.join(TIMEOUT_S)
    process.kill()
    process.join()
    return process.exitcode == 0


def _run(tree: Path, test: str) -> NoReturn:
    """In a process of its own: a file of tests, against the sources in `tree`."""
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    os.chdir(tree)
    sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(ROOT)))]
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    os._exit(int(pytest.main([*options, test])))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=100, help="how many, 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="modules below lsmerge/ whose path begins so")
    chosen = parser.parse_args()
    found = all_mutants(chosen.only)
    print(
        f"{len(found)} mutants; a sample of {chosen.sample or 'all'}, seed {chosen.seed}",
        flush=True,
    )
    random.Random(chosen.seed).shuffle(found)
    tried, survivors = found[: chosen.sample or None], 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".venv*", ".git"))
        sys.dont_write_bytecode = True  # a mutant may have the time and length of another
        trusted: set[str] = set()
        for number, mutant in enumerate(tried, 1):
            lives = survives(tree, mutant, trusted)
            survivors += lives
            print(f"{number} {'SURVIVED' if lives else 'killed'} {mutant}", flush=True)
    print(f"{len(tried)} mutants, {len(tried) - survivors} killed, {survivors} survived")
    return 0 if survivors <= 0.1 * len(tried) else 1


if __name__ == "__main__":
    sys.exit(main())
