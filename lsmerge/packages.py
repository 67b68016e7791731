"""Packages that lsmerge can use and does not bring with it: a missing one is named, with the way to install it."""

from collections.abc import Iterator
from contextlib import contextmanager

from lsmerge.errors import MissingPackageError

# What to install where it has another name than what is imported.
_DISTRIBUTIONS = {"opentelemetry": "opentelemetry-api"}


@contextmanager
def needed(package: str, purpose: str) -> Iterator[None]:
    """Around an import of `package`: MissingPackageError if it is not installed; other failures stay what they are."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        install = _DISTRIBUTIONS.get(package, package)
        raise MissingPackageError(package, purpose, install) from error
