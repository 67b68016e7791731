"""Shared fixtures, the --rewrite switch of the trace tests, the Hypothesis profile, and who runs which tests."""

import gc
import itertools
import os

import pytest
from hypothesis import HealthCheck, settings

from lsmerge.storage import turns
from tests import distribution
from tests.room import in_memory

# A failing example prints a blob that `@reproduce_failure` takes, so no seed is ever lost. Examples
# do real storage work, therefore no deadline.
settings.register_profile(
    "lsmerge",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("lsmerge")

# Temporary directories of tests; `--basetemp` says otherwise, or this variable does.
if (place := in_memory()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place)

_names = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def impatient():
    """A commit in the middle of another, as tests of races make it, would wait for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "PATIENCE_S", 0.0)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="accept the present output of tests/traces/*.trace; review the diff afterwards",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return distribution.UnitScheduling(config, log)


def pytest_collection_modifyitems(items):
    distribution.begin_with_the_longest(items)


def pytest_collection_finish():
    # Thousands of tests are millions of objects that stay: no collection of garbage is to look at them again.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture
def memory_uri() -> str:
    """A location in memory that no other test uses."""
    return f"memory://test-{next(_names)}"
