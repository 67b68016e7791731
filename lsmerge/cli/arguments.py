"""Keys and partitions as they are written on a command line, by the types of their columns."""

import csv
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import pyarrow as pa

from lsmerge import Table
from lsmerge.cli import json_in

Function = TypeVar("Function", bound=Callable[..., Any])


def partition_option(function: Function) -> Function:
    """--partition day=mon,hour=3, several times if wanted."""
    return click.option(
        "-p",
        "--partition",
        "partitions",
        multiple=True,
        metavar="COLUMN=VALUE,...",
        help="Only this partition; may be repeated.",
    )(function)


def partitions_of(table: Table, texts: Sequence[str]) -> list[dict[str, Any]] | None:
    """The partitions named, None if none is."""
    return [_partition(table, text) for text in texts] or None


def _partition(table: Table, text: str) -> dict[str, Any]:
    values = {}
    for part in _split(text):
        name, equals, value = part.partition("=")
        if not equals:
            raise click.UsageError(f"--partition {text}: write it as COLUMN=VALUE.")
        # A name that is no partition column is refused by the table, with the nearest one that is.
        known = name in table.partition_by
        values[name] = _value(table, name, value) if known else value
    return values


def keys_of(table: Table, texts: Sequence[str]) -> pa.Table:
    """Keys as data: one value each, or one for each key column with commas between them."""
    rows = [_key(table, text) for text in texts]
    schema = pa.schema([pa.field(name, _type(table, name)) for name in table.primary_key])
    return pa.Table.from_pylist(rows, schema=schema)


def _key(table: Table, text: str) -> dict[str, Any]:
    names = table.primary_key
    parts = [text] if len(names) == 1 else _split(text)
    if len(parts) != len(names):
        raise click.UsageError(
            f"key {text}: give {len(names)} values with commas between them, for {', '.join(names)}."
        )
    return {name: _value(table, name, part) for name, part in zip(names, parts, strict=True)}


def _split(text: str) -> list[str]:
    """The values of one line of CSV: a comma inside a value goes into double quotes."""
    return next(csv.reader([text]))


def _value(table: Table, name: str, text: str) -> Any:
    arrow = _type(table, name)
    try:
        [value] = pa.array([json_in.value_of_text(text, arrow)], arrow).to_pylist()
    except (ValueError, OverflowError) as error:
        raise click.UsageError(f"{name}={text}: {error}.") from error
    return value


def _type(table: Table, name: str) -> pa.DataType:
    return table.schema.field(name).type
