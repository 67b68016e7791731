"""What all commands share: how to print, how to open a table, and the arguments that mean the same everywhere."""

import csv
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import update_wrapper
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

import lsmerge

if TYPE_CHECKING:
    from lsmerge import Table

# What others may not see does not belong on a command line.
STORAGE_VARIABLE = "LSMERGE_STORAGE_OPTIONS"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(slots=True)
class Settings:
    """What was asked for beside the command itself; given before or behind its name."""

    json: bool = False
    debug: bool = False
    storage_options: dict[str, str] = field(default_factory=dict)

    def open(self, uri: str) -> "Table":
        """The table at `uri`."""
        return lsmerge.open_table(uri, storage_options=self.storage_options or None)

    @property
    def is_watched(self) -> bool:
        """Whether somebody sits before the terminal that progress would be drawn on."""
        return not self.json and sys.stderr.isatty()


class Command(click.Command):
    """A command that takes, beside its own, what every command takes."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.params.extend(common_options())


def common_options() -> list[click.Parameter]:
    """The options of every command; what they say goes into the settings."""
    return [
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_set_json,
            help="Print JSON: one document, or one line for each row.",
        ),
        click.Option(
            ["--storage-option"],
            metavar="NAME=VALUE",
            multiple=True,
            expose_value=False,
            envvar=STORAGE_VARIABLE,
            callback=_set_storage,
            help=f"Credentials and the like of an object store; may be repeated. Also in {STORAGE_VARIABLE}.",
        ),
        click.Option(
            ["--import"],
            metavar="MODULE",
            multiple=True,
            expose_value=False,
            callback=_import,
            help="Python module that registers mergers or functions of your own.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=_set_debug,
            help="Show the traceback of an error.",
        ),
    ]


def _settings(context: click.Context) -> Settings:
    settings = context.find_root().obj
    # Completion parses a command line without running it.
    return settings if isinstance(settings, Settings) else Settings()


def _set_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    _settings(context).json |= value


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    _settings(context).debug |= value


def _set_storage(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    _settings(context).storage_options.update(pairs("--storage-option", given))


def _import(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
    # Whoever asks how a command line might go on runs nobody's code.
    for name in () if context.resilient_parsing else names:
        try:
            import_module(name)
        except ImportError as error:
            raise click.UsageError(f"--import {name}: {error}; is it on PYTHONPATH?") from error


def pairs(what: str, given: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE arguments as a mapping."""
    for text in given:
        if "=" not in text:
            raise click.UsageError(f"{what} {text}: write it as NAME=VALUE")
    return dict(_pair(text) for text in given)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


# ------------------------------------------------------------------------------- arguments in common


def on_table(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command on one table: its function gets the settings and the table, open until it returns."""

    def opened(context: click.Context, /, uri: str, **arguments: Any) -> Any:
        settings: Settings = context.obj
        with settings.open(uri) as table:
            return function(settings, table, **arguments)

    update_wrapper(opened, function)
    return table_argument(click.pass_context(opened))


def table_argument(function: Function) -> Function:
    """Where the table is."""
    return click.argument("uri", metavar="TABLE", shell_complete=_complete_table)(function)


def at_options(function: Function) -> Function:
    """Which snapshot is meant; the names are those of `Table.scan`."""
    function = click.option("--at", "timestamp", metavar="TIME", callback=_moment, help=_AT)(
        function
    )
    function = click.option(
        "--tag",
        metavar="NAME",
        shell_complete=complete_tags,
        help="Read the snapshot of this tag.",
    )(function)
    return click.option("--snapshot", type=int, metavar="N", help="Read this snapshot.")(function)


_AT = "Read what was there then: 2024-01-31T12:00:00Z, or milliseconds since 1970."


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> str | int | None:
    return int(value) if value is not None and value.isdigit() else value


def column_list(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Any:
    """The names in `-c a,b -c c`; None if nothing was said. A name with a comma goes into double quotes, as in CSV."""
    return [name.strip() for text in given for name in listed(text, blanks=False)] or None


def listed(text: str, *, blanks: bool = True) -> list[str]:
    """What stands between commas, but for those in double quotes; without `blanks` there may be some before a quote."""
    try:
        return next(csv.reader([text], skipinitialspace=not blanks), [])
    except csv.Error as error:
        raise click.UsageError(f"{text!r} cannot be split at its commas: {error}.") from error


def columns_option(help_text: str) -> Callable[[Function], Function]:
    """-c a,b: names of columns."""
    return click.option(
        "-c",
        "--columns",
        multiple=True,
        metavar="A,B",
        callback=column_list,
        shell_complete=complete_columns,
        help=help_text,
    )


# ------------------------------------------------------------------------------------- completion


def _complete_table(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def complete_columns(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the table's columns, behind what was listed already."""
    done, comma, start = incomplete.rpartition(",")
    names = _names_of(context, lambda table: table.schema.names)
    return [
        CompletionItem(f"{done}{comma}{_quoted(name)}") for name in names if name.startswith(start)
    ]


def complete_tags(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the table's tags."""
    names = _names_of(context, lambda table: table.tags())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_consumers(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the table's consumers."""
    names = _names_of(context, lambda table: table.consumers())
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _names_of(context: click.Context, read: "Callable[[Table], Iterable[str]]") -> list[str]:
    # An option that has no value yet ends the parsing: what came before it is left over.
    uri = context.params.get("uri") or next(iter(context.args), None)
    if not isinstance(uri, str):
        return []
    try:
        with _settings(context).open(uri) as table:
            return list(read(table))
    except lsmerge.LsmergeError:
        return []  # nothing to offer is no reason to write into the command line


def _quoted(name: str) -> str:
    return f'"{name}"' if "," in name else name


def complete_options(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of table options."""
    known = lsmerge.Table.known_options()
    return [
        CompletionItem(f"{name}=", help=meaning)
        for name, meaning in known.items()
        if name.startswith(incomplete)
    ]
