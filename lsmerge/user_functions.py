"""Column functions that users write in Python, and where they are registered.

A function is a callable of two values, `f(older, newer)`, or an object that also says more:

    __call__(older, newer)    two values -> one
    fold(values, offsets)     Arrow values of many keys, oldest first, and where those of each key start (one offset
                              more than keys) -> an array with a value per key
    retract(value, taken)     the value without one that was added before; `value` is None where there is none
    types                     names of the logical types it is for, such as ("INT", "BIGINT"); all by default
    takes_nulls = True        nulls are values; by default they are passed over
    associative = True        values may be combined before older ones are known

Values are folded from the left, so fold(fold(a, b), c) is fold(a, b, c); a key with a single value keeps it. A
function is pure, and called from several threads at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lsmerge.errors import InvalidOptionError
from lsmerge.field_options import FUNCTION_NAMES, canonical_function
from lsmerge.instances import instance_of
from lsmerge.schema import unknown_name
from lsmerge.types import (
    BYTES_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    TEXT_KINDS,
    TIMESTAMP_KINDS,
)

# Values of these would have to be measured, and cut or refused, at every step.
LIMITED_KINDS = frozenset({"CHAR", "VARCHAR", "VARBINARY"})
_KINDS = frozenset(
    {
        *("BOOLEAN", "DECIMAL", "DATE", "TIME"),
        *(*INTEGER_KINDS, *FLOAT_KINDS, *TEXT_KINDS, *BYTES_KINDS, *TIMESTAMP_KINDS, *NESTED_KINDS),
    }
)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A registered function and what it says of itself."""

    name: str
    given: Any

    @property
    def types(self) -> frozenset[str] | None:
        listed: Iterable[str] | None = getattr(self.given, "types", None)
        return None if listed is None else frozenset(name.upper() for name in listed)

    @property
    def fold(self) -> Callable[..., Any] | None:
        return _method(self.given, "fold")

    @property
    def retract(self) -> Callable[..., Any] | None:
        return _method(self.given, "retract")

    @property
    def takes_nulls(self) -> bool:
        return getattr(self.given, "takes_nulls", False) is True

    @property
    def is_associative(self) -> bool:
        return getattr(self.given, "associative", False) is True


_registered: dict[str, UserFunction] = {}


def register_function(name: str, function: Any) -> None:
    """Make a column function known to this process, for `fields.<column>.aggregate-function`.

    Tables that are open keep the functions they were opened with. Registering a name again replaces its function.

    >>> import lsmerge, pyarrow as pa
    >>> lsmerge.register_function("longest", lambda older, newer: max(older, newer, key=len))
    >>> options = {"merge-engine": "aggregation", "fields.word.aggregate-function": "longest"}
    >>> schema = pa.schema({"k": pa.int64(), "word": pa.string()})
    >>> t = lsmerge.create_table("memory://longest", schema, "k", options=options)
    >>> _ = t.upsert([{"k": 1, "word": "plum"}, {"k": 1, "word": "apricot"}, {"k": 1, "word": "fig"}])
    >>> t.get(1)
    {'k': 1, 'word': 'apricot'}
    """
    if not isinstance(name, str) or not name.strip() or "." in name:
        raise InvalidOptionError(f"function name {name!r}: give text without a dot")
    given = instance_of(f"function {name!r}", function)
    plain = canonical_function(name)
    if plain in FUNCTION_NAMES:
        raise InvalidOptionError(
            f"function name {name!r} is taken by a function of lsmerge; choose another"
        )
    _check(plain, given)
    _registered[plain] = UserFunction(plain, given)


def registered_function(name: str) -> UserFunction | None:
    """The function that was registered under a name."""
    return _registered.get(name)


def registered_names() -> list[str]:
    """The names of all registered functions."""
    return list(_registered)


def _check(name: str, given: Any) -> None:
    if not callable(given) and _method(given, "fold") is None:
        raise InvalidOptionError(
            f"function {name!r} is a {type(given).__name__}; give a callable of two values, or an object with "
            "fold(values, offsets)"
        )
    if _method(given, "retract") is not None and not callable(given):
        raise InvalidOptionError(
            f"function {name!r}: retract(value, taken) goes with a function of two values; "
            "give it __call__(older, newer)"
        )
    for flag in ("takes_nulls", "associative"):
        if not isinstance(getattr(given, flag, False), bool):
            raise InvalidOptionError(f"function {name!r}: its {flag} is not True or False")
    types = getattr(given, "types", None) or ()
    if isinstance(types, str) or not isinstance(types, Iterable):
        raise InvalidOptionError(
            f"function {name!r}: its types are {types!r}; give a tuple of names"
        )
    for type_ in types:
        if str(type_).upper() not in _KINDS:
            raise InvalidOptionError(f"function {name!r}: {unknown_name('type', type_, _KINDS)}")


def _method(given: Any, name: str) -> Callable[..., Any] | None:
    method = getattr(given, name, None)
    return method if callable(method) else None
