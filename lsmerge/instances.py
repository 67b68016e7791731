"""Objects of users that may be given as an instance or as its class."""

from typing import Any

from lsmerge.errors import InvalidOptionError


def instance_of(what: str, given: Any) -> Any:
    """The object itself; a class is called without arguments."""
    if not isinstance(given, type):
        return given
    try:
        return given()
    except TypeError as error:
        raise InvalidOptionError(
            f"{what} is the class {given.__name__}, which cannot be made without arguments ({error}); "
            f"give an instance, such as {given.__name__}(...)"
        ) from error
