"""Rollback: a new snapshot whose files are those of an older one.

Numbers of snapshots and sequence numbers never go back, and commits that were made stay made: what a user's
`(commit_user, commit_id)` wrote is not written again because it was rolled back. The schema stays the newest.
"""

from dataclasses import replace
from typing import Any

from lsmerge.engine.context import TableContext
from lsmerge.engine.expiry import create_tag, delete_tag
from lsmerge.engine.time_travel import by_name
from lsmerge.errors import CommitUnknownError, InvalidOptionError, LsmergeError
from lsmerge.failpoints import failpoint
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.commit import CommitRequest
from lsmerge.meta.data_file import CommitKind, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot

# While the new snapshot is being published a tag keeps the files of the old one; a crash leaves it for so long.
PIN_TTL = "1 d"


def rollback_to(context: TableContext, snapshot: Any, tag: Any) -> Snapshot:
    """Make the table hold again what it held at a snapshot or tag."""
    if (snapshot is None) == (tag is None):
        raise InvalidOptionError(
            f"rollback_to(snapshot={snapshot!r}, tag={tag!r}): give a snapshot's number or a tag's name"
        )
    target = by_name(context, snapshot, tag)
    pin = f"rollback-{context.env.new_id()}"
    create_tag(context, pin, target.id, PIN_TTL)
    try:
        failpoint("rollback.after-pin")
        published = context.committer.commit(_request(context, target))
    except CommitUnknownError:
        raise  # the files may be referred to, so the tag stays for its time, as it does after an interrupt
    except LsmergeError:
        delete_tag(context, pin)
        raise
    failpoint("rollback.after-publish")
    delete_tag(context, pin)
    return published


def _request(context: TableContext, target: Snapshot) -> CommitRequest:
    return CommitRequest(
        Edit(CommitKind.ROLLBACK, context.schema.id),
        context.env.new_id(),
        rebase=lambda latest: _edit(context, target, latest),
    )


def _edit(context: TableContext, target: Snapshot, latest: Snapshot | None) -> Edit:
    wanted = _files(context, target)
    there = _files(context, latest) if latest is not None else {}
    edit = Edit(
        CommitKind.ROLLBACK,
        context.schema.id,
        add=tuple(file for name, file in wanted.items() if there.get(name) != file),
        remove=tuple(file for name, file in there.items() if wanted.get(name) != file),
        num_buckets=context.options.bucket,
    )
    return edit if latest is None else _with_index(context, edit, target, latest)


def _with_index(context: TableContext, edit: Edit, target: Snapshot, latest: Snapshot) -> Edit:
    """The newest index knows all hashes of older snapshots, unless keys changed their buckets since."""
    if not context.options.has_dynamic_buckets or target.layout_since == latest.layout_since:
        return edit
    wanted, there = _index(context, target), _index(context, latest)
    return replace(
        edit,
        add_index=tuple(file for name, file in wanted.items() if name not in there),
        remove_index=tuple(file for name, file in there.items() if name not in wanted),
        moves_keys=True,
    )


def _index(context: TableContext, snapshot: Snapshot) -> dict[str, IndexFile]:
    version = context.versions.load(snapshot)
    partitions = version.indexed_partitions
    return {file.name: file for p in partitions for file in version.index_files(p)}


def _files(context: TableContext, snapshot: Snapshot) -> dict[str, DataFile]:
    version = context.versions.load(snapshot)
    version.preload(version.places())
    return {file.name: file for place in version.places() for file in version.files(place)}
