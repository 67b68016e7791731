"""What power loss and failing calls leave of a LocalStore, and the disk that plays them."""

import errno
import random
from collections.abc import Callable

import pytest

from lsmerge.env import Env
from lsmerge.errors import LsmergeError, ObjectExistsError, StorageError
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk

ROOT = "/tables/t"
SMALL, LARGE = b"payload", bytes(range(256)) * 40
KEEPS = ["none", "all", "some", "some", "some"]

Operation = Callable[[LocalStore], None]


def put(store: LocalStore) -> None:
    store.put("new/deep/x", LARGE)


def create(store: LocalStore) -> None:
    with store.create("new/deep/x") as sink:
        for start in range(0, len(LARGE), 4096):
            sink.write(LARGE[start : start + 4096])


def replace(store: LocalStore) -> None:
    store.replace("old/hint", LARGE)


def get(store: LocalStore) -> None:
    assert store.get("old/x").to_pybytes() == SMALL


def read(store: LocalStore) -> None:
    source = store.open("old/x")
    try:
        assert source.read(1, 3).to_pybytes() == SMALL[1:4]
    finally:
        source.close()


def list_all(store: LocalStore) -> None:
    assert "old/x" in {info.path for info in store.list("")}


def exists(store: LocalStore) -> None:
    assert store.exists("old/x")


def confirm(store: LocalStore) -> None:
    assert store.confirm("old/x")


def delete(store: LocalStore) -> None:
    store.delete("old/y")


def delete_durably(store: LocalStore) -> None:
    store.delete("old/y", durable=True)


WRITES = [put, create]
OPERATIONS = [*WRITES, replace, get, read, list_all, exists, confirm, delete, delete_durably]


def prepared(**options: bool) -> tuple[MemoryDisk, LocalStore]:
    """A disk with two durable objects and a hint, and a store that has not seen it yet."""
    disk = MemoryDisk(Env.seeded(1), **options)
    store = LocalStore(ROOT, disk, env=Env.seeded(2))
    store.put("old/x", SMALL)
    store.put("old/y", SMALL)
    store.replace("old/hint", SMALL)
    return disk, LocalStore(ROOT, disk, env=Env.seeded(3))


def calls_of(operation: Operation) -> int:
    disk, store = prepared()
    before = disk.call_count
    operation(store)
    return disk.call_count - before


def attempt(operation: Operation, store: LocalStore) -> StorageError | None:
    try:
        operation(store)
    except StorageError as error:
        return error
    return None


# --- failing calls


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer-lost"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_any_failing_call_is_a_storage_error_and_leaks_nothing(operation, after):
    for n in range(1, calls_of(operation) + 1):
        disk, store = prepared()
        disk.fail_at(n, OSError(errno.EIO, "Input/output error"), after=after)
        error = attempt(operation, store)
        assert error is None or "Input/output error" in str(error)
        assert error is None or isinstance(error.__cause__, OSError)
        assert disk.open_handles == 0, disk.calls


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_failure_is_silent_only_where_nothing_depends_on_it(operation):
    """Taking the temporary name away, and giving handles back once the outcome is known."""
    for n in range(1, calls_of(operation) + 1):
        disk, store = prepared()
        disk.fail_at(n, OSError(errno.EIO, "Input/output error"))
        position = disk.call_count + n - 1
        if attempt(operation, store) is None:
            assert disk.calls[position] in {"unlink", "close"}


@pytest.mark.parametrize("operation", [*WRITES, replace])
def test_a_failed_write_leaves_no_temporary_file(operation):
    for n in range(1, calls_of(operation) + 1):
        disk, store = prepared()
        disk.fail_at(n, OSError(errno.ENOSPC, "No space left on device"))
        position = disk.call_count + n - 1
        attempt(operation, store)
        if disk.calls[position] != "unlink":  # the one call that takes it away
            assert list(store.list_unfinished("")) == [], disk.calls[position]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", WRITES)
def test_a_failed_creation_left_all_or_nothing_and_the_next_succeeds(operation, after):
    for n in range(1, calls_of(operation) + 1):
        disk, store = prepared()
        disk.fail_at(n, OSError(errno.EIO, "Input/output error"), after=after)
        error = attempt(operation, store)
        if store.exists("new/deep/x"):
            assert store.get("new/deep/x").to_pybytes() == LARGE
        else:
            assert error is not None
            operation(store)
            assert store.get("new/deep/x").to_pybytes() == LARGE


def test_a_failed_sync_is_never_tried_again():
    disk, store = prepared()
    sink = store.create("old/z")
    sink.write(SMALL)
    disk.fail_at(1, OSError(errno.EIO, "Input/output error"))
    before = disk.call_count
    with pytest.raises(StorageError, match="sync old/z"):
        sink.close()
    assert disk.calls[before:] == ["sync", "close", "unlink", "close"]
    sink.close()
    assert not store.exists("old/z")


def test_a_sink_whose_write_failed_is_never_published():
    disk, store = prepared()
    sink = store.create("old/z")
    sink.write(SMALL)
    disk.fail_at(1, OSError(errno.ENOSPC, "No space left on device"), after=True)
    with pytest.raises(StorageError, match="No space left"):
        sink.write(SMALL)
    with pytest.raises(StorageError, match="earlier write failed"):
        sink.close()
    assert not store.exists("old/z")
    assert list(store.list_unfinished("")) == []
    assert disk.open_handles == 0


def test_lost_directory_sync_is_told_apart():
    """The object is visible but perhaps not durable: the operation in the error says so."""
    disk, store = prepared()
    sink = store.create("old/z")
    disk.fail_at(5, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError) as caught:
        sink.close()
    assert caught.value.operation == "sync directory of"
    assert store.exists("old/z")
    assert not LocalStore(ROOT, disk.crash(random.Random(1), "none")).exists("old/z")


def test_confirm_makes_a_visible_object_durable():
    disk, store = prepared()
    sink = store.create("old/z")
    disk.fail_at(5, OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError):
        sink.close()
    assert store.confirm("old/z")
    assert LocalStore(ROOT, disk.crash(random.Random(1), "none")).exists("old/z")


def test_short_reads_and_writes_are_continued():
    disk, store = prepared()
    disk.transfer_limit_bytes = 7
    store.put("old/z", LARGE)
    assert store.get("old/z").to_pybytes() == LARGE


def test_a_put_that_has_lost_already_neither_writes_nor_syncs():
    disk, store = prepared()
    store.put("old/z", SMALL)
    before = disk.call_count
    with pytest.raises(ObjectExistsError):
        store.put("old/z", LARGE)
    assert not {"create_file", "write", "sync"} & set(disk.calls[before:])


def test_order_of_calls_of_a_put():
    disk, store = prepared()
    store.put("old/first", SMALL)
    before = disk.call_count
    store.put("old/z", SMALL)
    assert disk.calls[before:] == [
        "open_root",
        "open_directory",
        "close",
        "stat",
        "create_file",
        "write",
        "sync",
        "close",
        "link",
        "unlink",
        "sync",
        "close",
    ]


# --- power loss


@pytest.mark.parametrize("after", [False, True], ids=["before-call", "after-call"])
@pytest.mark.parametrize("operation", WRITES)
def test_power_loss_at_any_call_keeps_every_law(operation, after):
    for n in range(1, calls_of(operation) + 2):
        disk, store = prepared()
        disk.fail_at(n, OSError(errno.EIO, "dead"), after=after, forever=True)
        acknowledged = attempt(operation, store) is None
        for seed, keep in enumerate(KEEPS):
            check_laws(disk.crash(random.Random(seed), keep), acknowledged)


def check_laws(disk: MemoryDisk, acknowledged: bool) -> None:
    store = LocalStore(ROOT, disk)
    assert store.get("old/x").to_pybytes() == SMALL
    assert store.get("old/y").to_pybytes() == SMALL
    if acknowledged or store.exists("new/deep/x"):
        assert store.get("new/deep/x").to_pybytes() == LARGE
    for info in store.list_unfinished(""):
        store.delete(info.path)
    assert {info.path for info in store.list("")} <= {"old/x", "old/y", "old/hint", "new/deep/x"}


def test_a_directory_made_by_another_writer_is_synced_too():
    """Its maker may die before syncing it; who writes into it must not rely on him."""
    disk, _ = prepared()
    root = disk.open_root(ROOT)
    disk.make_directory(root, "theirs")
    disk.close(root)
    store = LocalStore(ROOT, disk)
    store.put("theirs/x", SMALL)
    survivor = LocalStore(ROOT, disk.crash(random.Random(1), "none"))
    assert survivor.get("theirs/x").to_pybytes() == SMALL


def test_a_root_made_by_another_writer_is_synced_too():
    disk = MemoryDisk()
    top = disk.open_root("/")
    disk.make_directory(top, "theirs")
    LocalStore("/theirs", disk).put("x", SMALL)
    survivor = LocalStore("/theirs", disk.crash(random.Random(1), "none"))
    assert survivor.get("x").to_pybytes() == SMALL


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EINVAL])
def test_a_parent_of_the_root_that_cannot_be_synced_is_not_ours(code):
    disk, store = prepared()
    disk.fail_at(2, OSError(code, "not yours"))  # open_root of the parent
    store.put("old/z", SMALL)
    assert disk.open_handles == 0
    assert store.get("old/z").to_pybytes() == SMALL


def test_the_root_itself_is_made_durable():
    disk = MemoryDisk()
    LocalStore("/a/b/c", disk).put("x", SMALL)
    assert LocalStore("/a/b/c", disk.crash(random.Random(1), "none")).get("x").size == len(SMALL)


def test_a_hint_after_power_loss_is_old_new_or_torn_but_never_in_the_way():
    seen = set()
    for seed in range(40):
        disk, store = prepared()
        store.replace("old/hint", LARGE)
        survivor = LocalStore(ROOT, disk.crash(random.Random(seed), "some"))
        seen.add(survivor.get("old/hint").to_pybytes() if survivor.exists("old/hint") else None)
        survivor.replace("old/hint", SMALL)
        assert survivor.get("old/hint").to_pybytes() == SMALL
    assert len(seen) > 5


# --- the disk itself


def written(disk: MemoryDisk, name: str, *, sync: bytes, then: bytes) -> int:
    """A file in the root directory, synced after its first part only; the directory's handle."""
    root = disk.open_root("/")
    file = disk.create_file(root, name)
    disk.write(file, memoryview(sync))
    disk.sync(file)
    disk.write(file, memoryview(then))
    disk.close(file)
    return root


def content(disk: MemoryDisk, name: str) -> bytes:
    root = disk.open_root("/")
    handle = disk.open_file(root, name)
    data = bytearray(disk.stat_handle(handle).size_bytes)
    disk.read(handle, 0, memoryview(data))
    return bytes(data)


def names(disk: MemoryDisk) -> set[str]:
    return {entry.name for entry in disk.entries(disk.open_root("/"))}


def test_unsynced_entries_are_lost_or_kept():
    disk = MemoryDisk()
    written(disk, "x", sync=b"synced", then=b"")
    assert names(disk.crash(random.Random(0), "none")) == set()
    assert names(disk.crash(random.Random(0), "all")) == {"x"}
    some = [names(disk.crash(random.Random(seed), "some")) for seed in range(20)]
    assert {"x"} in some
    assert set() in some


def test_an_unsynced_removal_may_be_undone():
    disk = MemoryDisk()
    root = written(disk, "x", sync=b"synced", then=b"")
    disk.sync(root)
    disk.unlink(root, "x")
    assert content(disk.crash(random.Random(0), "none"), "x") == b"synced"
    assert names(disk.crash(random.Random(0), "all")) == set()


def test_unsynced_bytes_are_lost_kept_or_torn():
    disk = MemoryDisk()
    disk.sync(written(disk, "x", sync=b"head", then=LARGE))
    assert content(disk.crash(random.Random(0), "none"), "x") == b"head"
    assert content(disk.crash(random.Random(0), "all"), "x") == b"head" + LARGE
    torn = [content(disk.crash(random.Random(seed), "some"), "x") for seed in range(100)]
    assert all(data.startswith(b"head") for data in torn)
    assert len({len(data) for data in torn}) > 50
    assert any(data[4:].strip(b"\0") == b"" and len(data) > 4 for data in torn)
    whole = b"head" + LARGE
    assert any(data == whole[: len(data)] for data in torn)
    assert any(data != whole[: len(data)] for data in torn)


def test_a_crash_leaves_the_disk_itself_alone_and_is_final():
    disk = MemoryDisk()
    disk.sync(written(disk, "x", sync=b"head", then=b"tail"))
    after = disk.crash(random.Random(0), "none")
    assert content(disk, "x") == b"headtail"
    assert content(after.crash(random.Random(0), "none"), "x") == b"head"
    assert after.open_handles == 0


def test_two_names_of_one_file_stay_one_file():
    disk = MemoryDisk()
    root = written(disk, "x", sync=b"head", then=LARGE)
    disk.link(root, "x", "y")
    disk.sync(root)
    for seed in range(10):
        after = disk.crash(random.Random(seed), "some")
        assert content(after, "x") == content(after, "y")


def test_same_seed_same_crash():
    disk = MemoryDisk()
    disk.sync(written(disk, "x", sync=b"", then=LARGE))
    one, two = (content(disk.crash(random.Random(5), "some"), "x") for _ in range(2))
    assert one == two


def test_a_fault_hits_once_or_forever():
    disk = MemoryDisk()
    disk.fail_at(2, OSError(errno.EIO, "x"))
    disk.open_root("/")
    with pytest.raises(OSError, match="x"):
        disk.open_root("/")
    disk.open_root("/")
    disk.fail_at(1, OSError(errno.EIO, "y"), forever=True)
    for _ in range(3):
        with pytest.raises(OSError, match="y"):
            disk.open_root("/")
    disk.heal()
    disk.open_root("/")
    assert disk.open_handles == 4 - 1
    assert disk.calls == ["open_root"] * disk.call_count


def test_calls_need_not_be_recorded():
    disk, store = prepared(record=False)
    put(store)
    assert disk.calls == []
    assert disk.call_count > 0


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda d, r: d.open_file(r, "no"), errno.ENOENT),
        (lambda d, r: d.open_directory(r, "x"), errno.ENOTDIR),
        (lambda d, r: d.open_root("/x/y"), errno.ENOTDIR),
        (lambda d, r: d.make_directory(r, "x"), errno.EEXIST),
        (lambda d, r: d.create_file(r, "dir"), errno.EEXIST),
        (lambda d, r: d.link(r, "x", "dir"), errno.EEXIST),
        (lambda d, r: d.rename(r, "x", "dir"), errno.EISDIR),
        (lambda d, r: d.unlink(r, "dir"), errno.EISDIR),
        (lambda d, r: d.unlink(r, "no"), errno.ENOENT),
        (lambda d, r: d.write(r, memoryview(b"")), errno.EISDIR),
        (lambda d, r: d.read(99, 0, memoryview(b"")), errno.EBADF),
        (lambda d, r: d.close(99), errno.EBADF),
    ],
)
def test_errors_are_those_of_a_file_system(call, code):
    disk = MemoryDisk()
    root = written(disk, "x", sync=b"", then=b"")
    disk.make_directory(root, "dir")
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is checked
        call(disk, root)
    assert caught.value.errno == code
    assert not isinstance(caught.value, LsmergeError)


def test_a_durable_delete_survives_power_loss():
    disk, store = prepared()
    store.delete("old/x")
    back = LocalStore(ROOT, disk.crash(random.Random(1), "none"))
    assert back.exists("old/x")
    store.delete("old/y", durable=True)
    store.delete("old/y", durable=True)
    back = LocalStore(ROOT, disk.crash(random.Random(1), "none"))
    assert not back.exists("old/y")
