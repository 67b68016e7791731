"""What an option is: a name, other spellings, a type, and whether this version has the feature.

A name may hold placeholders, as in `fields.<f>.ignore-retract`; it then stands for one option per
column.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lsmerge.option_types import OptionType

# What an alias leaves open although the canonical name needs it.
_IMPLIED = {"function": "listagg"}
_PLACEHOLDER = re.compile(r"<(\w+)>")


@dataclass(frozen=True)
class Option:
    """One option; `default` is text as a user would write it, None where there is no value.

    `reader` is how a read says what a table, which has many readers, cannot say for them.
    """

    name: str
    type: OptionType
    default: str | None
    doc: str
    aliases: tuple[str, ...] = ()
    mutable: bool = False
    available: bool = True
    later: frozenset[str] = frozenset()
    reader: str | None = None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(template) for template in (self.name, *self.aliases))

    def canonical_name(self, spelled: str) -> str | None:
        """The canonical name of what was spelled, None if this option is not meant."""
        for pattern in self._patterns:
            match = pattern.fullmatch(spelled)
            if match:
                return _filled(self.name, {**_IMPLIED, **match.groupdict()})
        return None

    def is_available(self, value: str) -> bool:
        """Whether this version does what the (canonical) value asks for."""
        if self.default is not None and self.type.parse(value) == self.type.parse(self.default):
            return True
        return self.available and value not in self.later


def _filled(template: str, parts: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda hole: parts[hole[1]], template)


def _pattern(template: str) -> re.Pattern[str]:
    # A function name holds no dot; a column name may hold anything.
    parts = _PLACEHOLDER.split(template)
    literals = [re.escape(part) for part in parts[::2]]
    holes = [f"(?P<{hole}>{'.+' if hole == 'f' else '[^.]+'})" for hole in parts[1::2]]
    return re.compile("".join(x for pair in zip(literals, [*holes, ""], strict=True) for x in pair))
