"""`tail`: which changes, from where, and whose place is kept."""

import csv
import io
import os
import signal
import sys
import threading

import pytest

from lsmerge.cli.closed_pipe import ending_with_its_reader
from lsmerge.storage.local_file import located


def kinds(outcome):
    return [(row["_row_kind"], row["id"], row["_snapshot_id"]) for row in outcome.rows]


FIRST = [("+I", 1, 1), ("+I", 2, 1), ("+I", 3, 1)]
SECOND = [("-U", 2, 2), ("+U", 2, 2)]


def test_once_tells_all_there_is(lsmerge, orders):
    assert kinds(lsmerge("tail", orders, "--once", "--json")) == FIRST + SECOND


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--from", "2"), SECOND),
        (("--from", "1", "--to", "1"), FIRST),
        (("--from", "latest"), []),
        (("--from", "latest-full"), [("+I", 1, 2), ("+I", 2, 2), ("+I", 3, 2)]),
        (("--from", "2000-01-01T00:00:00Z"), FIRST + SECOND),
        (("--from", "946684800000"), FIRST + SECOND),
        (("--from", "2999-01-01T00:00:00Z"), []),
        (("-n", "4"), [*FIRST, SECOND[0]]),
        (("-n", "0"), []),
    ],
)
def test_where_it_begins_and_ends(lsmerge, orders, args, expected):
    assert kinds(lsmerge("tail", orders, "--once", "--json", *args)) == expected


@pytest.mark.parametrize("text", ["garbage", "2024-01-31", "2024-01-31T12:00:00"])
def test_a_time_without_its_offset_is_no_beginning(lsmerge, orders, text):
    error = lsmerge("tail", orders, "--once", "--from", text, code=2).error
    assert f"--from {text}: give earliest" in error
    assert "a time with its offset such as 2024-01-31T12:00:00Z" in error


def test_following_ends_when_enough_was_told(lsmerge, orders):
    found = lsmerge("tail", orders, "--from", "earliest", "-n", "5", "--json")
    assert kinds(found) == FIRST + SECOND
    assert kinds(lsmerge("tail", orders, "--from", "2", "--to", "2", "--json")) == SECOND


def test_a_consumer_goes_on_where_it_stopped(lsmerge, orders):
    follow = ("tail", orders, "--once", "--consumer", "billing", "--json")
    assert kinds(lsmerge(*follow)) == FIRST + SECOND
    assert kinds(lsmerge(*follow)) == []
    lsmerge("delete", orders, "1")
    assert kinds(lsmerge(*follow)) == [("-D", 1, 3)]
    assert lsmerge("info", orders, "--json").document["consumers"] == {"billing": 4}


def test_a_consumer_that_is_forgotten_starts_anew(lsmerge, orders):
    follow = ("tail", orders, "--once", "--consumer", "billing", "--json")
    lsmerge(*follow)
    assert lsmerge("consumer", "list", orders, "--json").document == {"billing": 3}
    assert "billing" in lsmerge("consumer", "list", orders).out
    assert lsmerge("consumer", "delete", orders, "billing").out == "consumer billing deleted\n"
    assert "no consumer 'billing'" in lsmerge("consumer", "delete", orders, "billing", code=2).error
    assert kinds(lsmerge(*follow)) == FIRST + SECOND
    found = lsmerge("consumer", "delete", orders, "billing", "--json").document
    assert found == {"deleted": "billing"}


def test_a_consumer_that_stopped_inside_a_snapshot_gets_it_again(lsmerge, orders):
    follow = ("tail", orders, "--once", "--consumer", "billing", "--json")
    assert kinds(lsmerge(*follow, "-n", "4")) == [*FIRST, SECOND[0]]
    assert kinds(lsmerge(*follow)) == SECOND


def test_other_clothes(lsmerge, orders):
    documents = lsmerge("tail", orders, "--once", "-F", "debezium").rows
    assert [document["op"] for document in documents] == ["c", "c", "c", "u"]
    found = list(csv.DictReader(io.StringIO(lsmerge("tail", orders, "--once", "-F", "csv").out)))
    assert [row["_row_kind"] for row in found] == ["+I", "+I", "+I", "-U", "+U"]
    shown = lsmerge("tail", orders, "--once").out.splitlines()
    assert shown[0].split()[:2] == ["_row_kind", "id"]
    assert [line.split()[0] for line in shown[2:]] == ["+I", "+I", "+I", "-U", "+U"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--from", "yesterday"), 2, "--from yesterday: give earliest, latest"),
        (("--consumer", "a/b"), 2, "consumer = 'a/b'"),
    ],
)
def test_what_cannot_be_followed(lsmerge, orders, args, code, message):
    assert message in lsmerge("tail", orders, "--once", *args, code=code).error


def test_changes_that_have_expired_are_not_passed_over(lsmerge, orders):
    lsmerge("expire", orders, "--retain-max", "1")
    refused = lsmerge("tail", orders, "--once", "--from", "1", code=3)
    assert "[SNAPSHOT_EXPIRED]" in refused.error


def test_columns_that_change_meanwhile(lsmerge, orders, monkeypatch):
    """Lines of JSON and the drawn table take over new columns; CSV, which has one header, says so."""
    import lsmerge as library

    table = library.open_table(orders)
    changelog = library.Table.changelog

    def altered(self, *args, **options):
        batches = changelog(self, *args, **options)
        yield from (next(batches), next(batches))
        table.alter(add={"note": "STRING"})
        table.upsert([{"id": 9, "note": "x"}])
        yield from batches

    monkeypatch.setattr(library.Table, "changelog", altered)
    found = lsmerge("tail", orders, "--from", "earliest", "-n", "6", "--json").rows
    assert (found[0].get("note", "no such"), found[-1]["note"]) == ("no such", "x")


def test_csv_has_one_header(lsmerge, orders, monkeypatch):
    import lsmerge as library

    table = library.open_table(orders)
    changelog = library.Table.changelog

    def altered(self, *args, **options):
        batches = changelog(self, *args, **options)
        yield from (next(batches), next(batches))
        table.alter(add={"note": "STRING"})
        table.upsert([{"id": 9, "note": "x"}])
        yield from batches

    monkeypatch.setattr(library.Table, "changelog", altered)
    refused = lsmerge("tail", orders, "--from", "earliest", "-n", "6", "-F", "csv", code=5)
    assert "columns of the table changed" in refused.error


def test_a_reader_that_goes_while_a_file_is_read_is_no_fault_of_the_storage(monkeypatch):
    reader, writer = os.pipe()
    with open(reader), open(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(BrokenPipeError), ending_with_its_reader(), located("file", "read"):
            signal.raise_signal(signal.SIGPIPE)


def test_what_a_finaliser_swallows_comes_again(monkeypatch):
    class Finalised:
        def __del__(self):
            threading.Event().wait(60)  # until the first signal

    def follow():
        with ending_with_its_reader():
            last = Finalised()
            os.close(reader)
            del last
            threading.Event().wait(60)

    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    reader, writer = os.pipe()
    with open(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(BrokenPipeError):
            follow()
    assert said == []
