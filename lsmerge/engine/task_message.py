"""What the writer of one task hands to the one that commits: a short text that names files, and holds no rows.

The bytes are JSON with a checksum, so that they may travel through any queue. Reading them runs nothing and trusts
nothing: a message that is damaged, of another table, or names files where no run can be is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.look_ahead import Compared, Told
from lsmerge.engine.placement import Placed
from lsmerge.errors import CorruptFileError, SchemaMismatchError
from lsmerge.meta.bucket_index import IndexFile
from lsmerge.meta.data_file import BucketId, DataFile, FileKind
from lsmerge.storage import checked_json, layout
from lsmerge.storage.checked_object import Seal
from lsmerge.storage.run_file import RunSummary

SOURCE = "the message of a task"

T = TypeVar("T")


class Share(NamedTuple):
    """This task is the one of `total` that gets all rows of the keys whose hash says `number`."""

    number: int
    total: int


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task wrote.

    It began when `begun_after` was the newest snapshot, 0 if there was none, so that none up to it has its files.
    `files` are level-0 runs, oldest first. If `is_staged` they hold the rows as they came, and have no place yet.
    `changelog` are its input rows, `told` what its runs change.
    """

    uri: str
    schema_id: int
    begun_after: int
    columns: tuple[str, ...] | None
    share: Share | None
    overwrites: bool
    is_staged: bool
    files: tuple[DataFile, ...]
    changelog: tuple[DataFile, ...]
    told: tuple[Told, ...]
    placed: Placed

    @property
    def all_files(self) -> list[DataFile]:
        """Runs and changelog."""
        return [*self.files, *self.changelog, *(file for told in self.told for file in told.files)]


def encode(result: TaskResult) -> bytes:
    """The message."""
    return checked_json.dump(
        {
            "uri": result.uri,
            "schema": result.schema_id,
            "begun_after": result.begun_after,
            "columns": result.columns,
            "share": result.share,
            "overwrites": result.overwrites,
            "staged": result.is_staged,
            "files": [file_content(file) for file in result.files],
            "changelog": [file_content(file) for file in result.changelog],
            "told": [_told_content(told) for told in result.told],
            "placed": [_index_content(index) for index in result.placed.indexes],
            "placed_by": result.placed.snapshot_id,
            "layout": result.placed.layout,
        }
    )


def decode(context: TableContext, message: Any) -> TaskResult:
    """What a message says, after checking that it can be true of this table."""
    if not isinstance(message, bytes):
        raise SchemaMismatchError(
            f"a message is a {type(message).__name__}: pass the bytes that finish() gave, as they are"
        )
    content = checked_json.load(SOURCE, pa.py_buffer(message))
    try:
        result = _result(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(SOURCE, f"has not the fields of one: {error!r}") from error
    _check_names(context, result)
    return result


def _check_names(context: TableContext, result: TaskResult) -> None:
    if result.uri != context.store.uri:
        raise SchemaMismatchError(
            f"a message is from a task that wrote to {result.uri}, and this table is {context.store.uri}; "
            "commit it there"
        )
    depth = len(context.schema.partition_by)
    for file in result.all_files:
        if len(file.place.partition) != depth or not layout.is_run_path(
            context.file_path(file), depth
        ):
            raise CorruptFileError(SOURCE, f"names a file that is no run: {file.name!r}")
    for index in result.placed.indexes:
        if not layout.is_index_name(index.name):
            raise CorruptFileError(SOURCE, f"names a file that is no index: {index.name!r}")


def _result(content: Mapping[str, Any]) -> TaskResult:
    columns, share = content["columns"], content["share"]
    return TaskResult(
        uri=_of(str, content["uri"]),
        schema_id=_of(int, content["schema"]),
        begun_after=_of(int, content["begun_after"]),
        columns=None if columns is None else _texts(columns),
        share=None if share is None else Share(*(_of(int, number) for number in share)),
        overwrites=_of(bool, content["overwrites"]),
        is_staged=_of(bool, content["staged"]),
        files=_all(file_of, content["files"]),
        changelog=_all(file_of, content["changelog"]),
        told=_all(_told, content["told"]),
        placed=Placed(
            _all(_index, content["placed"]),
            _of(int, content["placed_by"]),
            _of(int, content["layout"]),
        ),
    )


def file_content(file: DataFile) -> dict[str, Any]:
    """A file that has no sequence base yet, as JSON."""
    run = file.run
    return {
        "place": file.place,
        "level": file.level,
        "kind": int(file.kind),
        "schema": file.schema_id,
        "created": file.created_ms,
        "buckets": file.num_buckets,
        "name": run.name,
        "format": run.format,
        "size": run.size_bytes,
        "index": run.index_offset,
        "crc": run.tail_crc,
        "rows": run.num_rows,
        "retracts": run.num_retracts,
        "keys": [run.min_key.hex(), run.max_key.hex()],
        "sequences": [run.sequence_min, run.sequence_max],
    }


def file_of(content: Mapping[str, Any]) -> DataFile:
    """Inverse of `file_content`; content of another shape raises what reading it raises."""
    min_key, max_key = (bytes.fromhex(key) for key in content["keys"])
    sequence_min, sequence_max = (_of(int, number) for number in content["sequences"])
    run = RunSummary(
        name=_of(str, content["name"]),
        format=_of(str, content["format"]),
        size_bytes=_of(int, content["size"]),
        index_offset=_of(int, content["index"]),
        tail_crc=_of(int, content["crc"]),
        num_rows=_of(int, content["rows"]),
        num_retracts=_of(int, content["retracts"]),
        min_key=min_key,
        max_key=max_key,
        sequence_min=sequence_min,
        sequence_max=sequence_max,
    )
    return DataFile(
        _place(content["place"]),
        _of(int, content["level"]),
        run,
        _of(int, content["schema"]),
        _of(int, content["created"]),
        kind=FileKind(content["kind"]),
        num_buckets=_of(int, content["buckets"]),
    )


def _told_content(told: Told) -> dict[str, Any]:
    return {
        "place": told.place,
        "base": sorted(told.compared.base),
        "runs": sorted(told.compared.runs),
        "files": [file_content(file) for file in told.files],
    }


def _told(content: Mapping[str, Any]) -> Told:
    compared = Compared(frozenset(_texts(content["base"])), frozenset(_texts(content["runs"])))
    return Told(_place(content["place"]), compared, _all(file_of, content["files"]))


def _index_content(index: IndexFile) -> dict[str, Any]:
    return {
        "partition": index.partition,
        "name": index.name,
        "seal": index.seal,
        "hashes": index.num_hashes,
        "created": index.created_ms,
    }


def _index(content: Mapping[str, Any]) -> IndexFile:
    return IndexFile(
        _partition(content["partition"]),
        _of(str, content["name"]),
        Seal(*(_of(int, number) for number in content["seal"])),
        _of(int, content["hashes"]),
        _of(int, content["created"]),
    )


def _place(content: Any) -> BucketId:
    partition, bucket = content
    return BucketId(_partition(partition), _of(int, bucket))


def _partition(content: Any) -> tuple[str | None, ...]:
    return tuple(None if value is None else _of(str, value) for value in content)


def _texts(content: Any) -> tuple[str, ...]:
    return tuple(_of(str, text) for text in content)


def _all(read: Callable[[Any], T], content: Any) -> tuple[T, ...]:
    return tuple(read(item) for item in _of(list, content))


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{str(value)[:80]!r} is not {kind.__name__}")
    return value
