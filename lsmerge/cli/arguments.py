"""Keys and partitions as they are written on a command line, by the types of their columns."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import pyarrow as pa

from lsmerge import Table
from lsmerge.cli import json_in
from lsmerge.cli.settings import listed

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
    for part in listed(text):
        name, equals, value = part.partition("=")
        if not equals:
            raise click.UsageError(f"--partition {text}: write it as COLUMN=VALUE.")
        # A name that is no partition column is refused by the table, with the nearest one that is.
        known = name in table.partition_by
        values[name] = _array(table, name, value)[0].as_py() if known else value
    return values


def keys_of(table: Table, texts: Sequence[str]) -> pa.Table:
    """Keys as data: one value each, or one for each key column with commas between them."""
    keys = [_parts_of_key(table, text) for text in texts]
    columns = zip(*keys, strict=True)
    return pa.table(
        {
            name: pa.concat_arrays([_array(table, name, part) for part in parts])
            for name, parts in zip(table.primary_key, columns, strict=True)
        }
    )


def _parts_of_key(table: Table, text: str) -> list[str]:
    names = table.primary_key
    parts = [text] if len(names) == 1 else listed(text)
    if len(parts) != len(names):
        raise click.UsageError(
            f"key {text}: give {len(names)} values with commas between them, for {', '.join(names)}."
        )
    return parts


def _array(table: Table, name: str, text: str) -> pa.Array:
    """One value of a column."""
    arrow = table.schema.field(name).type
    try:
        return pa.array([json_in.value_of_text(text, arrow)], arrow)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(f"{name}={text}: {error}.") from error
