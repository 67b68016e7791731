"""`lsmerge options`: what a table may be told when it is created or altered."""

import click

import lsmerge
from lsmerge.cli import screen
from lsmerge.cli.settings import Command, Settings


@click.command("options", cls=Command)
@click.argument("word", required=False)
@click.pass_obj
def command(settings: Settings, word: str | None) -> None:
    """The options that a table may have, or those with WORD in name or meaning; docs/options.md tells all of them."""
    known = lsmerge.Table.known_options()
    if word is not None:
        sought = word.lower()
        known = {n: text for n, text in known.items() if sought in f"{n} {text}".lower()}
    if settings.json:
        screen.document(known)
    else:
        screen.listing(("option", "meaning"), known.items())
