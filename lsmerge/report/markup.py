"""HTML in which everything is escaped that was not made here.

Invariant: text becomes part of a page through `element` only, which escapes whatever is not Markup already. Names of
tables, columns, partitions, tags and users are hostile until then.
"""

import re
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

# What HTML has no way to write, or would let text reorder what is around it.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_VOID = frozenset({"link", "meta"})

Content: TypeAlias = "str | int | Markup | Iterable[Content] | None"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Any value as text of a page."""
    return Markup(escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True))


def element(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element; `class_` is the attribute class, `aria_label` aria-label; attributes that are None are left out."""
    given = "".join(
        f' {_attribute(key)}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{joined(content)}</{name}>")


def joined(content: Content) -> Markup:
    """Content one after the other, escaped where it is not Markup."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int):
        return text(content)
    return Markup("".join(map(joined, content)))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
