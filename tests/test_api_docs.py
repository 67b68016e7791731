"""The API reference has every public name, and each of them, with its methods and properties, a docstring."""

import importlib
import inspect
import re
from functools import cached_property
from pathlib import Path

import pytest

import lsmerge

ROOT = Path(__file__).parent.parent
LISTED = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
# Spark's names need pyspark to be imported; those that need no extra are looked at here.
NAMES = [name for name in LISTED if not name.startswith("lsmerge.spark.")]


def found(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        return getattr(importlib.import_module(home), last)


def documented(thing, name):
    """The name, and the names of the public methods and properties, each with its docstring."""
    yield name, inspect.getdoc(thing)
    if inspect.ismodule(thing):
        for last, member in vars(thing).items():
            if inspect.isclass(member) and member.__module__ == name:
                yield f"{name}.{last}", member.__doc__
    elif inspect.isclass(thing):
        for last, member in vars(thing).items():
            is_ours = isinstance(member, property | cached_property | classmethod | staticmethod)
            if not last.startswith("_") and (is_ours or inspect.isfunction(member)):
                yield f"{name}.{last}", member.__doc__


@pytest.mark.parametrize("name", NAMES)
def test_what_the_reference_lists_has_docstrings(name):
    missing = [which for which, text in documented(found(name), name) if not text]
    assert missing == []


def test_the_reference_lists_every_public_name():
    listed = [found(name) for name in NAMES]
    public = {name: getattr(lsmerge, name) for name in lsmerge.__all__}
    assert [name for name, thing in public.items() if not _is_listed(thing, listed)] == []


def _is_listed(thing, listed):
    return thing in listed or inspect.getmodule(thing) in listed
