"""The stairs go one way: who may import whom, who may touch the outside world.

The rules are read from the syntax tree of every source file, so imports hidden in functions count
too. Each rule is also shown sources that break it and sources that keep it.
"""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "lsmerge").rglob("*.py"))
PLUGIN_SOURCES = sorted((ROOT / "pyspark_lsmerge").rglob("*.py"))
NATIVE_SOURCES = sorted(
    path
    for path in (ROOT / "lsmerge_native").iterdir()
    if path.suffix in {".py", ".pyx", ".pxd", ".pyi"}
)

MAY_IMPORT = {
    "words": {"words"},
    "storage": {"storage", "words", "native"},
    "meta": {"meta", "words", "storage"},
    "merge": {"merge", "words", "native"},
    "engine": {"engine", "words", "native", "storage", "meta", "merge"},
    "table": {"words", "meta", "engine"},
    "testing": {"words", "merge", "engine"},
    "public": {"words", "table", "statements"},
    "spark": {"spark", "public"},
    "statements": {"statements", "public"},
    "report": {"report", "public"},
    "cli": {"cli", "public", "report", "statements"},
}

# What users tell lsmerge and Arrow by variables of the environment is read here.
ENVIRONMENT = ("lsmerge.env", "lsmerge.spark.arrow_memory")
FILE_MODULES = {"os", "io", "shutil", "tempfile", "pathlib", "mmap", "fcntl", "glob"}
CHANCE_MODULES = {"time", "uuid", "random", "secrets"}
# Where the command line reads and writes files of its user; those of a table are for storage.
USER_FILES = "lsmerge.cli.user_files"
# What opens files or reads a clock without importing a module for it.
FILE_CALLS = {"open", "OSFile", "memory_map", "input_stream", "output_stream", "LocalFileSystem"}
CLOCK_CALLS = {"now", "utcnow", "today"}
CODE_FROM_DATA = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
HEAVY = {
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyarrow.dataset",
    "deltalake",
    "obstore",
    "numpy",
    "opentelemetry",
    "pandas",
    "polars",
    "pyspark",
    "duckdb",
    "sqlglot",
}
# What a layer is made of comes in with it: nobody who does not use it loads it.
OWN = {"spark": {"pyspark"}, "statements": {"duckdb", "sqlglot"}}

INSTALLED = {*sys.stdlib_module_names, "pyarrow", "pyroaring", "typing_extensions"}
OPTIONAL = {
    "click": "lsmerge.cli.",
    "datasketches": "lsmerge.merge.bitmap_functions",
    "deltalake": "lsmerge.engine.export",
    "duckdb": "lsmerge.statements",
    "obstore": "lsmerge.storage.",
    "opentelemetry": "lsmerge.otel",
    "pandas": "lsmerge.engine.frames",
    "polars": ("lsmerge.engine.frames", "lsmerge.engine.polars_predicate"),
    "prompt_toolkit": "lsmerge.cli.sql_prompt",
    "pyspark": "lsmerge.spark.",
    "rich": "lsmerge.cli.",
    "sqlglot": "lsmerge.statements",
}


def layer_of(module: str) -> str | None:
    """The layer of a dotted module name, None if it is not ours."""
    parts = module.split(".")
    if parts[0] == "lsmerge_native":
        return "native"
    if parts[0] != "lsmerge":
        return None
    if len(parts) == 1:
        return "public"
    return parts[1] if parts[1] in MAY_IMPORT else "words"


def module_of(path: Path) -> str:
    """The dotted name a source file is imported by."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every import statement anywhere in the tree, with the module it names.

    `from lsmerge.storage import layout` names lsmerge.storage.layout; `from lsmerge import Table`
    names lsmerge, as Table is not one of its modules.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; name the module in full"
            yield from ((node, _from_module(node.module or "", alias.name)) for alias in node.names)


def _from_module(module: str, name: str) -> str:
    inside = ROOT.joinpath(*module.split("."), name)
    is_module = inside.is_dir() or inside.with_suffix(".py").exists()
    return f"{module}.{name}" if is_module or layer_of(module) is None else module


def layer_violations(module: str, source: str) -> list[str]:
    """Imports of our own modules that the layer of this module may not make."""
    allowed = MAY_IMPORT[layer_of(module) or ""]
    return [
        f"{module}:{node.lineno} imports {name}"
        for node, name in imported(parsed(source))
        if layer_of(name) not in allowed | {None}
    ]


def hidden_imports(module: str, source: str) -> list[str]:
    """Imports of our own modules inside functions: the sign of a type that belongs further down."""
    tree = parsed(source)
    run_at_import = set(_run_at_import(tree))
    return [
        f"{module}:{node.lineno} hides an import of {name}"
        for node, name in imported(tree)
        if layer_of(name) is not None and node not in run_at_import
    ]


def heavy_imports(module: str, source: str) -> list[str]:
    """Third-party modules that make `import lsmerge` slow, imported when the module is."""
    tree = parsed(source)
    run_at_import = set(_run_at_import(tree))
    heavy_here = HEAVY - OWN.get(layer_of(module) or "", set())
    return [
        f"{module}:{node.lineno} imports {name} at import time"
        for node, name in imported(tree)
        if node in run_at_import and any(f"{name}.".startswith(f"{heavy}.") for heavy in heavy_here)
    ]


def foreign_packages(module: str, source: str) -> list[str]:
    """Uses of packages that installing lsmerge alone does not bring, outside the modules made for them."""
    tree = parsed(source)
    known = INSTALLED | {name for name, homes in OPTIONAL.items() if module.startswith(homes)}
    found = [
        f"{module}:{node.lineno} imports {name}"
        for node, name in imported(tree)
        if layer_of(name) is None and name.split(".")[0] not in known
    ]
    return found + [
        f"{module}:{node.lineno} calls {name}, which needs numpy"
        for node, name in _calls(tree)
        if name == "to_numpy"
    ]


def outside_world(module: str, source: str) -> list[str]:
    """Where this module touches files, clocks or chance although it may not."""
    tree = parsed(source)
    modules, calls = set(CODE_FROM_DATA), {"eval", "exec", "compile", "__import__"}
    if layer_of(module) != "storage" and module != USER_FILES:
        modules |= FILE_MODULES
        calls |= FILE_CALLS
    if module in ENVIRONMENT:
        modules -= {"os"}  # what the machine has to offer is part of the outside world
    if module != "lsmerge.env":
        modules |= CHANCE_MODULES
        calls |= CLOCK_CALLS
    found = [
        f"{module}:{node.lineno} imports {name}"
        for node, name in imported(tree)
        if name.split(".")[0] in modules
    ]
    return found + [
        f"{module}:{node.lineno} calls {name}"
        for node, name in _calls(tree)
        if name in calls and not _is_own_method(node, name)
    ]


def broad_excepts(module: str, source: str) -> list[str]:
    """Handlers that swallow what they cannot know."""
    return [
        f"{module}:{node.lineno} catches everything"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and not _reraises(node)
    ]


def _run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that importing the module runs: not the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _run_at_import(node)


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func).split(".")[-1]


def _is_own_method(call: ast.Call, name: str) -> bool:
    """`store.open(path)` and `re.compile(...)` only share a name with a builtin."""
    return isinstance(call.func, ast.Attribute) and name in {"open", "compile"}


def _reraises(handler: ast.ExceptHandler) -> bool:
    """A clean-up before a bare `raise` swallows nothing."""
    return any(isinstance(n, ast.Raise) and n.exc is None for n in ast.walk(handler))


RULES = [
    layer_violations,
    hidden_imports,
    heavy_imports,
    foreign_packages,
    outside_world,
    broad_excepts,
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_keeps_the_rules(path):
    module, source = module_of(path), path.read_text(encoding="utf-8")
    assert [violation for rule in RULES for violation in rule(module, source)] == []


@pytest.mark.parametrize("path", PLUGIN_SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_spark_looks_for_imports_nothing_of_ours(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    run_at_import = set(_run_at_import(tree))
    assert [name for node, name in imported(tree) if node in run_at_import and layer_of(name)] == []


@pytest.mark.parametrize("path", NATIVE_SOURCES, ids=lambda path: path.name)
def test_native_knows_nothing_above_it(path):
    source = path.read_text(encoding="utf-8")
    assert re.findall(r"^\s*(?:from|c?import)\s+lsmerge(?:\.|\s).*", source, re.MULTILINE) == []


@pytest.mark.parametrize(
    ("rule", "module", "source"),
    [
        (layer_violations, "lsmerge.storage.layout", "from lsmerge.meta import snapshot"),
        (layer_violations, "lsmerge.storage.layout", "def f():\n    import lsmerge.table"),
        (layer_violations, "lsmerge.meta.commit", "from lsmerge.merge.engine import Engine"),
        (layer_violations, "lsmerge.merge.engine", "import lsmerge.storage.object_store"),
        (layer_violations, "lsmerge.errors", "from lsmerge import storage"),
        (layer_violations, "lsmerge.table", "from lsmerge.storage.layout import x"),
        (layer_violations, "lsmerge.meta.commit", "from lsmerge_native import keys"),
        (layer_violations, "lsmerge.spark.source", "from lsmerge.engine import read"),
        (layer_violations, "lsmerge.spark.source", "from lsmerge.schema import TableSchema"),
        (layer_violations, "lsmerge.cli.scan", "from lsmerge.engine.read import Scan"),
        (foreign_packages, "lsmerge.engine.write", "def f():\n    import click"),
        (outside_world, "lsmerge.cli.scan", "open('x')"),
        (foreign_packages, "lsmerge.engine.write", "def f():\n    import pyspark.sql"),
        (foreign_packages, "lsmerge.engine.write", "def f():\n    import numpy as np"),
        (foreign_packages, "lsmerge.engine.read", "def f():\n    import duckdb"),
        (layer_violations, "lsmerge.statements.session", "from lsmerge.engine import read"),
        (layer_violations, "lsmerge.statements.session", "from lsmerge.errors import LsmergeError"),
        (foreign_packages, "lsmerge.engine.write", "column.to_numpy(zero_copy_only=False)"),
        (heavy_imports, "lsmerge.spark.write", "import pandas"),
        (hidden_imports, "lsmerge.engine.write", "def f():\n    from lsmerge.engine import read"),
        (hidden_imports, "lsmerge.engine.write", "class A:\n  def f():\n    import lsmerge_native"),
        (heavy_imports, "lsmerge.engine.write", "import pyarrow.compute as pc"),
        (heavy_imports, "lsmerge.engine.write", "if f():\n    from pyarrow import parquet"),
        (heavy_imports, "lsmerge.engine.write", "import numpy"),
        (outside_world, "lsmerge.engine.write", "def f():\n    import os"),
        (outside_world, "lsmerge.engine.write", "open('x')"),
        (outside_world, "lsmerge.engine.write", "pa.OSFile('x')"),
        (outside_world, "lsmerge.engine.write", "datetime.datetime.now()"),
        (outside_world, "lsmerge.storage.layout", "import uuid"),
        (outside_world, "lsmerge.storage.layout", "from time import time"),
        (outside_world, "lsmerge.env", "import os, shutil"),
        (outside_world, "lsmerge.merge.engine", "eval(text)"),
        (outside_world, "lsmerge.meta.snapshot", "import pickle"),
        (broad_excepts, "lsmerge.table", "try:\n    f()\nexcept Exception:\n    pass"),
        (broad_excepts, "lsmerge.table", "try:\n    f()\nexcept:\n    pass"),
    ],
)
def test_a_broken_rule_is_seen(rule, module, source):
    assert len(rule(module, source)) == 1


@pytest.mark.parametrize(
    ("rule", "module", "source"),
    [
        (layer_violations, "lsmerge.engine.read", "from lsmerge.meta.snapshot import Snapshot"),
        (
            layer_violations,
            "lsmerge.storage.layout",
            "import pyarrow\nfrom lsmerge.errors import E",
        ),
        (layer_violations, "lsmerge.spark.source", "from lsmerge import open_table"),
        (heavy_imports, "lsmerge.spark.source", "from pyspark.sql import DataFrame"),
        (heavy_imports, "lsmerge.statements.evaluation", "import duckdb"),
        (layer_violations, "lsmerge.statements.session", "from lsmerge import open_table"),
        (foreign_packages, "lsmerge.spark.source", "from pyspark.sql import DataFrame"),
        (hidden_imports, "lsmerge.engine.read", "def f():\n    import pyarrow.compute as pc"),
        (heavy_imports, "lsmerge.engine.read", "def f():\n    import pyarrow.compute as pc"),
        (outside_world, "lsmerge.engine.read", "store.open(path)\nre.compile('x')"),
        (outside_world, "lsmerge.storage.posix_disk", "import os\nos.open('x', 0)"),
        (outside_world, "lsmerge.cli.user_files", "import os\nopen('x')"),
        (outside_world, "lsmerge.env", "import time, uuid, random"),
        (broad_excepts, "lsmerge.table", "try:\n    f()\nexcept BaseException:\n    raise"),
    ],
)
def test_a_kept_rule_is_left_alone(rule, module, source):
    assert rule(module, source) == []


def test_import_brings_in_nothing_heavy():
    program = "import sys, lsmerge; print(*sorted(sys.modules))"
    output = subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)
    loaded = set(output.split())
    # numpy comes with pyarrow itself where it is installed.
    assert loaded & (HEAVY - {"numpy"}) == set()
