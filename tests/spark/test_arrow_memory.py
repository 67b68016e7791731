"""In Spark's processes Arrow takes memory from jemalloc, where there is one and nobody chose otherwise."""

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lsmerge.spark.arrow_memory import CHOICE, OF_ARROW, OURS, choose_allocator

pytestmark = pytest.mark.skipif(
    not {OF_ARROW, OURS} <= set(pa.supported_memory_backends()),
    reason="this build of Arrow has no choice of allocators",
)


@pytest.fixture(autouse=True)
def _of_arrow(monkeypatch):
    """A process with the allocator that Arrow takes by itself; the one of the suite is back later."""
    before = pa.default_memory_pool()
    monkeypatch.delenv(CHOICE, raising=False)
    pa.set_memory_pool(pa.mimalloc_memory_pool())
    choose_allocator.cache_clear()
    yield
    choose_allocator.cache_clear()
    pa.set_memory_pool(before)


@pytest.fixture
def _in_spark(monkeypatch):
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", daemon)


def taken() -> str:
    choose_allocator()
    return pa.default_memory_pool().backend_name


def test_a_process_of_a_user_is_left_alone():
    assert taken() == OF_ARROW


@pytest.mark.usefixtures("_in_spark")
def test_a_process_of_spark_takes_ours():
    assert taken() == OURS


@pytest.mark.usefixtures("_in_spark")
def test_what_a_user_chose_stays(monkeypatch):
    monkeypatch.setenv(CHOICE, OF_ARROW)
    assert taken() == OF_ARROW


@pytest.mark.usefixtures("_in_spark")
def test_what_another_library_chose_stays():
    pa.set_memory_pool(pa.system_memory_pool())
    assert taken() == "system"
