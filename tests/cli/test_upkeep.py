"""`compact`, `rescale`, `expire`, `vacuum`, `verify`, `tag`, `rollback`: what they did, and what they found."""

import os

import pytest


def test_compact(lsmerge, orders):
    found = lsmerge("compact", orders, "--full", "--json").document
    assert (found["snapshot_id"], found["rows_read"], found["rows_written"]) == (3, 4, 3)
    assert lsmerge("compact", orders, "--full").out == "nothing to compact\n"


def test_compact_tells_what_it_did(lsmerge, orders):
    assert lsmerge("compact", orders, "--full").out.startswith("snapshot 3: 1 bucket, 2 files (")


def test_compact_one_partition(lsmerge, tmp_path):
    path = tmp_path / "t"
    lsmerge("create", path, "p INT, k INT", "-k", "p,k", "--partition-by", "p")
    for k in range(2):
        lsmerge("write", path, "-F", "csv", text=f"p,k\n1,{k}\n2,{k}\n")
    assert lsmerge("compact", path, "--full", "-p", "p=1", "--json").document["buckets"] == 1
    assert "p=x" in lsmerge("compact", path, "-p", "p=x", code=2).error
    assert "COLUMN=VALUE" in lsmerge("compact", path, "-p", "1", code=2).error


def test_rescale(lsmerge, orders):
    assert lsmerge("rescale", orders, "4", "--json").document["rows_written"] == 3
    assert lsmerge("rescale", orders, "2").out.startswith("snapshot 4: 1 partition, 3 rows in ")
    assert len(lsmerge("scan", orders, "--json").rows) == 3
    lsmerge("rescale", orders, "0", code=2)


def test_expire(lsmerge, orders):
    dry = lsmerge("expire", orders, "--retain-max", "1", "--dry-run", "--json").document
    assert (dry["snapshots"], dry["dry_run"]) == ([1], True)
    assert lsmerge("expire", orders, "--retain-max", "1", "-d").out.startswith("would expire 1 ")
    assert lsmerge("expire", orders, "--retain-max", "1").out.startswith("expired 1 snapshot (1),")
    assert [e["id"] for e in lsmerge("history", orders, "--json").document] == [2]
    assert "--older-than 'soon'" in lsmerge("expire", orders, "--older-than", "soon", code=2).error


def test_vacuum_only_lists_unless_told_to_delete(lsmerge, orders):
    orphan = orders / "bucket-0" / f"data-{'0' * 32}-0.arrow"
    orphan.write_bytes(b"left by a crash")
    os.utime(orphan, (0, 0))
    assert lsmerge("vacuum", orders, "--json").document["files"] == [f"bucket-0/{orphan.name}"]
    listed = lsmerge("vacuum", orders).out.splitlines()
    assert listed == [f"bucket-0/{orphan.name}", "1 orphan, 15 bytes; --delete removes them"]
    assert orphan.exists()
    assert (
        lsmerge("vacuum", orders, "--delete").out.splitlines()[-1] == "1 orphan, 15 bytes deleted"
    )
    assert not orphan.exists()
    assert lsmerge("vacuum", orders).out == "0 orphans, 0 bytes\n"


def test_vacuum_leaves_the_young(lsmerge, orders):
    orphan = orders / "bucket-0" / f"data-{'0' * 32}-0.arrow"
    orphan.write_bytes(b"")
    assert lsmerge("vacuum", orders, "--json").document["files"] == []


def test_verify(lsmerge, orders):
    assert lsmerge("verify", orders).out.startswith("sound: 2 snapshots, ")
    assert lsmerge("verify", orders, "--json").document["ok"] is True


def test_damage_is_told_by_the_exit_code(lsmerge, orders):
    damaged = sorted(orders.rglob("data-*"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x00")
    found = lsmerge("verify", orders, "--json", code=1).document
    assert found["ok"] is False
    assert damaged.name in found["problems"][0]
    shown = lsmerge("verify", orders, code=1).out.splitlines()
    assert damaged.name in shown[0]
    assert shown[-1].startswith("1 problem: ")


def test_tags(lsmerge, orders):
    assert lsmerge("tag", "create", orders, "a", "--snapshot", "1").out == "tag a: snapshot 1\n"
    made = lsmerge("tag", "create", orders, "b", "--ttl", "7 d", "--json").document
    assert (made["snapshot"], made["expires"] > made["created"]) == (2, True)
    listed = lsmerge("tag", "list", orders, "--json").document
    assert [(tag["name"], tag["snapshot"]) for tag in listed] == [("a", 1), ("b", 2)]
    assert "never" in lsmerge("tag", "list", orders).out
    assert "[TAG_EXISTS]" in lsmerge("tag", "create", orders, "a", code=4).error
    assert lsmerge("tag", "delete", orders, "a").out == "tag a deleted\n"
    assert lsmerge("tag", "delete", orders, "b", "--json").document == {"deleted": "b"}
    assert lsmerge("tag", "list", orders, "--json").document == []
    assert "[SNAPSHOT_NOT_FOUND]" in lsmerge("tag", "delete", orders, "a", code=3).error


def test_rollback(lsmerge, orders):
    assert lsmerge("rollback", orders, "--snapshot", "1").out == "snapshot 3: as at snapshot 1\n"
    assert lsmerge("get", orders, "2", "--json").rows[0]["status"] == "new"
    lsmerge("tag", "create", orders, "paid", "--snapshot", "2")
    assert lsmerge("rollback", orders, "--tag", "paid", "--json").document == {"snapshot": 4}
    assert lsmerge("get", orders, "2", "--json").rows[0]["status"] == "paid"
    assert "give --snapshot or --tag" in lsmerge("rollback", orders, code=2).error


def test_a_tag_is_compared_after_its_snapshot_expired(lsmerge, orders):
    lsmerge("tag", "create", orders, "start", "--snapshot", "1")
    lsmerge("compact", orders, "--full")
    lsmerge("expire", orders, "--retain-max", "1", "--older-than", "2100-01-01T00:00:00Z")
    changes = lsmerge("diff", orders, "start", "--json").rows
    assert [(row["_row_kind"], row["status"]) for row in changes] == [("-U", "new"), ("+U", "paid")]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--older-than", "abc"), "--older-than 'abc': give a time with its offset such as"),
        (("--older-than", "abc"), "or an age such as '7 d'"),
        (("--retain-max", "0"), "--retain-max 0: give a whole number, 1 or more"),
    ],
)
def test_what_cannot_be_expired_is_told_in_words_of_the_command_line(
    lsmerge, orders, args, message
):
    assert message in lsmerge("expire", orders, *args, code=2).error
