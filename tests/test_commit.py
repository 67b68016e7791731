"""What the publisher asks of an edit that depends on what it lands on, and how it keeps lists of manifests short."""

import pyarrow as pa

import lsmerge
from lsmerge.engine import opening
from lsmerge.env import Env
from lsmerge.meta import commit
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import CommitKind, Edit

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])


def test_an_edit_is_made_anew_for_every_predecessor(memory_uri):
    rival = lsmerge.create_table(memory_uri, SCHEMA, "k")
    context = opening.open_existing(opening.store_at(memory_uri), env=Env.system())
    nothing = Edit(CommitKind.APPEND, context.schema.id)
    landed_on = []

    def rebase(latest):
        landed_on.append(None if latest is None else latest.id)
        if latest is None:
            rival.upsert([{"k": 1}])
        return nothing

    request = CommitRequest(nothing, context.env.new_id(), rebase=rebase)
    assert context.committer.commit(request).id == 2
    assert landed_on == [None, 1]


def bases(table, keys):
    """The manifests before each of some commits of a key."""
    for key in keys:
        number = table.upsert([{"k": key}]).id
        yield table._context.snapshots.read(number).base


def test_a_list_of_manifests_is_folded_once_it_is_long(memory_uri, monkeypatch):
    monkeypatch.setattr(commit, "MAX_MANIFESTS", 4)
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options={"write-only": "true"})
    lengths = [len(base) for base in bases(table, range(8))]
    assert lengths == [0, 1, 2, 3, 1, 2, 3, 1]
    assert table.scan().count() == 8


def test_a_large_manifest_is_not_rewritten_for_a_few_entries(memory_uri, monkeypatch):
    monkeypatch.setattr(commit, "MAX_MANIFESTS", 4)
    options = {"write-only": "true", "bucket": "40"}
    table = lsmerge.create_table(memory_uri, SCHEMA, "k", options=options)
    table.upsert({"k": list(range(1000))})
    found = list(bases(table, range(1000, 1006)))
    large = found[0][0]
    assert large.num_entries == 40
    assert [(base[0], len(base)) for base in found] == [(large, n) for n in (1, 2, 3, 2, 3, 2)]
    assert table.scan().count() == 1006
