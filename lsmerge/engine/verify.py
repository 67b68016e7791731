"""Reads every byte that the newest snapshot refers to and reports all damage, not only the first."""

from dataclasses import dataclass

from lsmerge.engine.context import TableContext
from lsmerge.engine.parallel import ordered_map
from lsmerge.errors import CorruptFileError, ObjectNotFoundError, StorageError
from lsmerge.meta.data_file import DataFile
from lsmerge.storage.run_file import open_run


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was read, and what was wrong with it."""

    snapshots: int
    files: int
    bytes_read: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(context: TableContext) -> VerifyReport:
    """Check every snapshot, its manifests, and every data file of the newest one."""
    problems: list[str] = []
    ids = context.snapshots.ids()
    files: dict[str, DataFile] = {}
    for number in ids:
        try:
            version = context.versions.load(context.snapshots.read(number))
        except (CorruptFileError, StorageError) as error:
            problems.append(str(error))
            continue
        version.preload(version.places())
        files.update((f.name, f) for place in version.places() for f in version.files(place))
    problems += [p for p in ordered_map(lambda f: _problem(context, f), files.values()) if p]
    size = sum(file.run.size_bytes for file in files.values())
    return VerifyReport(len(ids), len(files), size, tuple(problems))


def _problem(context: TableContext, file: DataFile) -> str | None:
    try:
        reader = open_run(context.store, context.file_path(file), file.run)
        try:
            reader.verify()
        finally:
            reader.close()
    except (CorruptFileError, ObjectNotFoundError) as error:
        return str(error)
    return None
