"""What the publisher asks of an edit that depends on what it lands on."""

import pyarrow as pa

import lsmerge
from lsmerge.engine import opening
from lsmerge.env import Env
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
