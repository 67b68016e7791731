"""Shared fixtures, the --rewrite switch of the trace tests, and the Hypothesis profile."""

import itertools

import pytest
from hypothesis import HealthCheck, settings

# A failing example prints a blob that `@reproduce_failure` takes, so no seed is ever lost. Examples
# do real storage work, therefore no deadline.
settings.register_profile(
    "lsmerge",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("lsmerge")

_names = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="accept the present output of tests/traces/*.trace; review the diff afterwards",
    )


@pytest.fixture
def memory_uri() -> str:
    """A location in memory that no other test uses."""
    return f"memory://test-{next(_names)}"
