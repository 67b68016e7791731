"""Shows the examples of docstrings as code: in Markdown a line that starts with `>>>` would be a quotation."""

from collections.abc import Iterator
from typing import Any

from griffe import Extension, Object


class Doctests(Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: Object, **_kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(fenced(obj.docstring.value.splitlines()))


def fenced(lines: list[str]) -> Iterator[str]:
    """The lines, with fences around each run of lines that starts at a `>>>` and ends before a blank one."""
    inside = False
    for line in lines:
        if not inside and line.lstrip().startswith(">>> "):
            inside = True
            yield "```python"
        elif inside and not line.strip():
            inside = False
            yield "```"
        yield line
    if inside:
        yield "```"
