"""The API reference has every public name, and each of them, with its methods and properties, a docstring."""

import importlib
import inspect
import re
import typing
from functools import cached_property
from pathlib import Path

import pytest

import lsmerge

ROOT = Path(__file__).parent.parent
LISTED = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)


def found(name):
    """The module, class or function of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            pytest.skip(f"needs {error.name}, of an extra that is not installed")
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


@pytest.mark.parametrize("name", LISTED)
def test_what_the_reference_lists_has_docstrings(name):
    missing = [which for which, text in documented(found(name), name) if not text]
    assert missing == []


def test_the_reference_lists_every_public_name():
    assert "lsmerge.errors" in LISTED
    listed = {name.rpartition(".")[2] for name in LISTED} | set(vars(lsmerge.errors))
    assert set(lsmerge.__all__) - listed == set()


def test_the_reference_lists_what_methods_return():
    returned = (typing.get_type_hints(method).get("return") for method in methods(lsmerge.Table))
    classes = {found for hint in returned for found in classes_in(hint)}
    ours = {f"{found.__module__}.{found.__qualname__}" for found in classes if is_ours(found)}
    assert ours - set(LISTED) == set()


def methods(thing):
    members = (member for last, member in vars(thing).items() if not last.startswith("_"))
    return [getattr(member, "fget", member) for member in members]


def classes_in(hint):
    """The classes in an annotation, also those inside `list[...]` or `... | None`."""
    inner = typing.get_args(hint)
    origin = typing.get_origin(hint)
    return [origin, *(found for part in inner for found in classes_in(part))] if inner else [hint]


def is_ours(found):
    return inspect.isclass(found) and found.__module__.startswith("lsmerge.")
