"""`lsmerge completion`: what makes a shell complete command lines."""

import click
from click.shell_completion import get_completion_class

from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands, options, table options and column names.

    \b
      bash: eval "$(lsmerge completion bash)"           in ~/.bashrc
      zsh:  eval "$(lsmerge completion zsh)"            in ~/.zshrc, after compinit
      fish: lsmerge completion fish > ~/.config/fish/completions/lsmerge.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    root = context.find_root()
    source = found(root.command, {}, "lsmerge", "_LSMERGE_COMPLETE").source()
    settings: Settings = context.obj
    if settings.json:
        screen.document({"shell": shell, "source": source})
    else:
        click.echo(source)
