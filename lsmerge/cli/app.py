"""The program itself: which commands there are, and what becomes of errors, Ctrl-C and closed pipes.

A command is listed here by one line and lives in the module `lsmerge.cli.<name>`, which is imported when the command is
called or its help is asked for: `lsmerge --help` imports neither tables nor pictures.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

import lsmerge
from lsmerge.cli import failures, user_files
from lsmerge.cli.settings import Settings, common_options

# Name, and what `lsmerge --help` says of it.
COMMANDS = {
    "create": "Create a table.",
    "alter": "Change columns and options of a table.",
    "info": "What a table is and how large.",
    "schema": "Columns, keys and options of a table.",
    "history": "What happened to a table, snapshot by snapshot.",
    "get": "Look up rows by key.",
    "scan": "Read rows: all, or those a filter lets through.",
    "write": "Insert or update rows from a file or standard input.",
    "delete": "Delete rows by key.",
    "sql": "Run SQL on the tables of a warehouse: a file, text, or a shell.",
    "tail": "Follow the changelog.",
    "diff": "What differs between two snapshots.",
    "consumer": "List and forget followers of the changelog.",
    "levels": "Draw the LSM tree of each bucket.",
    "report": "Write a page about a table: trees, timeline, amplification.",
    "compact": "Merge sorted runs.",
    "rescale": "Split partitions into another number of buckets.",
    "expire": "Forget old snapshots and delete their files.",
    "vacuum": "Find, and delete, files that crashed writers left.",
    "verify": "Read every byte and name all damage.",
    "tag": "Create, list and delete tags.",
    "rollback": "Make a table hold again what it once held.",
    "options": "The options that a table may have.",
    "completion": "Completion for bash, zsh or fish.",
}


class App(click.Group):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"lsmerge.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """From the list alone: no module is imported to tell what it is for."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that is meant; a name that is none is refused with the nearest one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = lsmerge.LsmergeError.hint(args[0], COMMANDS)
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; the number it ends with, given back or exited with."""
        settings = Settings()
        name = prog_name or "lsmerge"
        try:
            result: Any = super().main(args, name, complete_var, False, obj=settings, **extra)
            code = result if isinstance(result, int) else failures.DONE
        except failures.EXPECTED as error:
            code = failures.report(error, debug=settings.debug)
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; Ctrl-C and a reader that had enough are ends like others."""
        try:
            return _flushed(lambda: super(App, self).invoke(ctx))
        except KeyboardInterrupt:
            return failures.INTERRUPTED
        except BrokenPipeError:
            user_files.drop_standard_output()
            return failures.PIPE_CLOSED


def _flushed(work: Callable[[], Any]) -> Any:
    """What `work` gives, after all that it printed has left the process."""
    result = work()
    sys.stdout.flush()
    return result


@click.command(
    "lsmerge",
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 the answer is no (damage found, no such row), 2 usage, 3 not found, "
    "4 exists already, 5 data does not fit, 6 damaged file, 7 storage, 8 conflict, 9 other, "
    "130 interrupted, 141 output closed.",
)
@click.version_option(lsmerge.__version__, prog_name="lsmerge")
def app() -> None:
    """Tables of lsmerge from the command line.

    TABLE is a directory, or file://, s3://, gs:// or az://. `lsmerge COMMAND --help` tells more.
    """


app.params.extend(common_options())
