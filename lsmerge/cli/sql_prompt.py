"""Statements typed at a terminal: over several lines until a semicolon ends them, with a history that lasts."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory

from lsmerge.statements.script import is_complete

PROMPT = "lsmerge> "
CONTINUED = "     ... "
ENDS = ("exit", "quit", r"\q")


class _LenientHistory(FileHistory):
    """A history that cannot be written is no reason to stop."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class Prompt:
    """The texts that a user types, until Ctrl-D, `exit`, `quit` or `\\q`."""

    def __init__(self, history: str, **terminal: Any) -> None:
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=_LenientHistory(history),
            multiline=Condition(lambda: not _is_whole(get_app().current_buffer.text)),
            prompt_continuation=CONTINUED,
            **terminal,
        )

    def __iter__(self) -> Iterator[str]:
        while True:
            try:
                text = self._session.prompt()
            except KeyboardInterrupt:  # what was typed so far is given up
                continue
            except EOFError:
                return
            if _word(text) in ENDS:
                return
            yield text


def _is_whole(text: str) -> bool:
    return _word(text) in ENDS or is_complete(text)


def _word(text: str) -> str:
    return text.strip().rstrip(";").lower()
