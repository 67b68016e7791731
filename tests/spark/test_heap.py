"""Spark's processes look for garbage after every task: what is there for good is taken out, once, and only there."""

import gc
import sys
from types import SimpleNamespace

import pytest

from lsmerge.spark.heap import keep_for_good


@pytest.fixture
def kept():
    """How many objects are out of collections, none at first; those that the suite took out are out again later."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    keep_for_good.cache_clear()
    yield gc.get_freeze_count
    keep_for_good.cache_clear()
    gc.unfreeze()
    if was_frozen:
        gc.freeze()


def test_a_process_of_a_user_is_left_alone(kept):
    keep_for_good()
    assert kept() == 0


def test_a_process_of_spark_keeps_what_it_has_once(kept, monkeypatch):
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    keep_for_good()
    first = kept()
    assert first > 0
    later = [[] for _ in range(100)]
    keep_for_good()
    assert kept() <= first, f"{len(later)} objects that came later are collected as ever"


def test_a_process_is_asked_once_what_it_keeps(kept, monkeypatch):
    daemon = SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    asked = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: asked.append(1) or kept())
    for _ in range(3):
        keep_for_good()
    assert len(asked) == 1, "the count is a walk through all objects"


def test_spark_names_its_daemon_as_expected(spark):
    def names(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"name": [sys.modules["__main__"].__spec__.name]})

    found = spark.range(1).mapInArrow(names, "name string").collect()
    assert {row.name for row in found} == {"pyspark.daemon"}
