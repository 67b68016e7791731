"""`lsmerge sql`: statements from a file, from the command line, from standard input, or typed at a prompt.

Nothing is printed but results: rows drawn as a table, or with `--json` one object per line; a statement that gives no
rows is then one object too. What needs the extra `sql` is imported when the command runs, so that its help needs
nothing.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import chain, count
from typing import IO, TYPE_CHECKING, Any

import click

from lsmerge import LsmergeError
from lsmerge.cli import failures, json_out
from lsmerge.cli.rows_out import Output, write_rows
from lsmerge.cli.settings import Command, Settings

if TYPE_CHECKING:
    from lsmerge.statements import Result, Session


@click.command("sql", cls=Command)
@click.argument("warehouse", required=False)
@click.option(
    "-e", "--execute", "texts", multiple=True, metavar="SQL", help="Run this; may be repeated."
)
@click.option(
    "-f",
    "--file",
    "file",
    metavar="FILE",
    type=click.File(encoding="utf-8"),
    help="Run the statements of a file; - is standard input.",
)
@click.pass_obj
def command(
    settings: Settings, warehouse: str | None, texts: tuple[str, ...], file: IO[str] | None
) -> None:
    """Run SQL on the tables of a warehouse.

    WAREHOUSE is a place below which tables lie side by side: a directory, or file://, s3://, gs:// or az://. Without
    one, tables are made in memory and forgotten. Without -e and -f statements are read from the terminal, each until
    its semicolon, or from standard input.
    """
    with _session(warehouse, settings) as session:
        for text in texts:
            _run(session, text, settings)
        if file is not None:
            _run(session, file.read(), settings)
        if not texts and file is None:
            _read_input(session, settings)


def _session(warehouse: str | None, settings: Settings) -> "Session":
    make: Callable[..., Session] = _needed("lsmerge.statements", "Session")
    place = () if warehouse is None else (warehouse,)
    return make(*place, storage_options=settings.storage_options or None)


def _needed(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise click.UsageError(f"SQL needs {error.name}: pip install 'lsmerge[cli,sql]'") from error


def _read_input(session: "Session", settings: Settings) -> None:
    if not sys.stdin.isatty():
        _run(session, sys.stdin.read(), settings)
        return
    history = f"{click.get_app_dir('lsmerge', force_posix=True)}_history"
    for text in _needed("lsmerge.cli.sql_prompt", "Prompt")(history):
        run_typed(session, text, settings)


def run_typed(session: "Session", text: str, settings: Settings) -> None:
    """Run what was typed; what goes wrong is told in one line, and the next statement may be typed."""
    try:
        _run(session, text, settings)
    except LsmergeError as error:
        failures.report(error, debug=settings.debug)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)


def _run(session: "Session", text: str, settings: Settings) -> None:
    for result in session.run(text):
        _print(result, settings)


def _print(result: "Result", settings: Settings) -> None:
    """Rows as a drawn table; with --json a line for each, or one for a statement that gives none."""
    if not settings.json:
        for line in result.lines():
            click.echo(line)
    elif result.has_rows:
        names = _distinct(result.schema.names)
        batches = (batch.rename_columns(names) for batch in result.to_batches())
        write_rows(Output("json", None), result.schema, batches)
    else:
        click.echo(json_out.text(_done(result)))


def _done(result: "Result") -> dict[str, Any]:
    """What a statement without rows has done."""
    told = {"statement": result.statement, "snapshot": result.snapshot_id}
    return told if result.rows_written is None else {**told, "rows": result.rows_written}


def _distinct(names: list[str]) -> list[str]:
    """Names for the members of an object, in which each counts once: k, k_2."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found.append(next(n for n in chain([name], numbered) if n not in found))
    return found
