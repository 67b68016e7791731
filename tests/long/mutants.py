"""S6: are the tests of the mergers able to fail? `python -m tests.long.mutants [--every N]`, before a release.

Each mutant is one small change in lsmerge/merge: a comparison turned, a constant moved, a condition negated. In a copy
of the sources the tests of merging run against it; a mutant that they let pass is told with its place.
"""

import argparse
import ast
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TESTS = (
    "tests/test_model.py",
    "tests/test_functions.py",
    "tests/test_record_merger.py",
    "tests/test_target_columns.py",
    "tests/test_sequence_order.py",
    "tests/test_conformance.py",
)
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


def mutants(source: str) -> Iterator[tuple[int, str]]:
    """(line, source) of every mutant of a module."""
    for number, node in enumerate(ast.walk(ast.parse(source))):
        if mutate(node):
            changed = ast.parse(source)
            mutate(next(itertools.islice(ast.walk(changed), number, None)))
            yield getattr(node, "lineno", 0), ast.unparse(changed)


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


def survives(tree: Path) -> bool:
    """Whether the tests let the mutant in this tree pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, check=False, timeout=600)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.long.mutants", description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    tried, survivors = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".venv*", ".git"))
        for path in sorted((tree / "lsmerge" / "merge").glob("*.py")):
            original = path.read_text(encoding="utf-8")
            for number, (line, source) in enumerate(mutants(original)):
                if number % every == 0:
                    tried += 1
                    path.write_text(source, encoding="utf-8")
                    if survives(tree):
                        survivors.append(f"{path.name}:{line}")
            path.write_text(original, encoding="utf-8")
    print(f"{tried} mutants, {tried - len(survivors)} killed; survivors: {', '.join(survivors)}")
    return 0 if len(survivors) <= 0.1 * tried else 1


if __name__ == "__main__":
    sys.exit(main())
