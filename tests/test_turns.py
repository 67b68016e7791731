"""Turns of processes that commit: they spare lost attempts, and hold nobody up for long."""

import errno
import fcntl
import os
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.env import Env
from lsmerge.storage import layout, turns
from lsmerge.storage.object_store import open_store
from lsmerge.storage.turns import Turns

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


PATIENCE_S = turns.PATIENCE_S


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The suite waits for no turn; here it is what tests are about."""
    monkeypatch.setattr(turns, "PATIENCE_S", PATIENCE_S)


@pytest.fixture
def table(tmp_path):
    with lsmerge.create_table(str(tmp_path / "table"), SCHEMA, "k") as opened:
        opened.upsert([{"k": 0, "v": 0}])
        yield opened


def turns_at(table, naps=None):
    sleep = (naps if naps is not None else []).append
    return Turns(open_store(table.uri), layout.SNAPSHOT_DIR, replace(Env.seeded(1), sleep=sleep))


def test_one_has_the_turn(table):
    first, second = turns_at(table), turns_at(table)
    with first.waiting(), second.if_free() as is_free:
        assert not is_free
    with second.if_free() as is_free:
        assert is_free


def test_the_turn_comes_when_the_other_is_done(table):
    order = []
    holder = turns_at(table)

    def wait_for_it():
        with Turns(open_store(table.uri), layout.SNAPSHOT_DIR, Env.system()).waiting():
            order.append("second")

    with holder.waiting():
        waiter = threading.Thread(target=wait_for_it)
        waiter.start()
        order.append("first")
    waiter.join()
    assert order == ["first", "second"]


def test_a_turn_ends_though_a_forked_process_has_its_descriptor(table, monkeypatch):
    inherited = []
    leave = turns._leave
    monkeypatch.setattr(
        turns, "_leave", lambda place: (inherited.append(os.dup(place)), leave(place))
    )
    with turns_at(table).waiting():
        pass
    with turns_at(table).if_free() as is_free:
        assert is_free
    for descriptor in inherited:
        os.close(descriptor)


def test_nobody_waits_for_ever(table):
    naps = []
    with turns_at(table).waiting(), turns_at(table, naps).waiting():
        assert turns.PATIENCE_S <= sum(naps) < turns.PATIENCE_S + 2 * turns.NAP_S


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(table, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    naps = []
    with turns_at(table, naps).waiting(), turns_at(table, naps).if_free() as is_free:
        assert is_free
    assert naps == []
    table.upsert([{"k": 1, "v": 1}])
    assert table.scan().count() == 2


def test_memory_and_missing_directories_have_no_turns(tmp_path, memory_uri):
    for uri in (str(tmp_path / "nothing"), memory_uri):
        place = Turns(open_store(uri), layout.SNAPSHOT_DIR, Env.seeded(1))
        with place.waiting(), place.if_free() as is_free:
            assert is_free


def test_a_commit_goes_ahead_of_who_keeps_the_turn(table, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_S", 0.0)
    with turns_at(table).waiting():
        table.upsert([{"k": 1, "v": 1}])
        table.compact(full=True)
    assert table.scan().count() == 2


def test_a_turn_leaves_no_descriptor_and_no_file(table, tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    files = sorted(tmp_path.rglob("*"))
    with turns_at(table).waiting(), turns_at(table).if_free():
        pass
    assert len(os.listdir("/proc/self/fd")) == before
    assert sorted(tmp_path.rglob("*")) == files
