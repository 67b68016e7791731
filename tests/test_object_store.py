"""One contract, every store: LocalStore over the real disk and over memory, and S3 on loopback."""

import gc
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from lsmerge.env import Env
from lsmerge.errors import (
    CorruptFileError,
    InvalidOptionError,
    LsmergeError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
)
from lsmerge.storage import cloud_store
from lsmerge.storage.cloud_client import redactor
from lsmerge.storage.local_store import LocalStore
from lsmerge.storage.memory_disk import MemoryDisk
from lsmerge.storage.object_store import ObjectStore, open_store
from lsmerge.storage.posix_disk import PosixDisk
from tests.s3_server import Request, S3Server

CANARY = "canary-8f1c2d-secret"

BAD_PATHS = ["", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/./b", "a\0b", "a\\b", "\udc80"]

ODD_NAMES = [
    "p=a%2Fb/f",
    "sp ace/ü",
    "a:b",
    "...",
    "%00/x",
    "a?b#c&d+e",
    "{x}^`~'\"<>|*",
    "x" * 255,
]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def cloud(s3, request) -> Iterator[ObjectStore]:
    s3.objects.clear()
    s3.uploads.clear()
    return open_store("s3://bucket/some/table", s3.storage_options)


@pytest.fixture
def posix(tmp_path) -> LocalStore:
    return LocalStore(str(tmp_path / "not" / "yet"), PosixDisk())


@pytest.fixture(params=["posix", "memory", "cloud"])
def store(request) -> ObjectStore:
    if request.param == "memory":
        return LocalStore("/not/yet", MemoryDisk())
    return request.getfixturevalue(request.param)


def content(store, path) -> bytes:
    return store.get(path).to_pybytes()


def paths(store, prefix="") -> list[str]:
    return sorted(info.path for info in store.list(prefix))


# --- whole objects


def test_put_then_get(store):
    store.put("a/b/one", b"payload")
    assert content(store, "a/b/one") == b"payload"
    assert isinstance(store.get("a/b/one"), pa.Buffer)


@pytest.mark.parametrize(
    "data", [b"", memoryview(b"view"), bytearray(b"array"), pa.py_buffer(b"pa")]
)
def test_put_takes_any_buffer(store, data):
    store.put("x", data)
    assert content(store, "x") == bytes(data)


def test_put_takes_wide_items_as_bytes(store):
    store.put("x", memoryview(b"12345678").cast("Q"))
    assert content(store, "x") == b"12345678"


def test_second_put_is_refused_and_changes_nothing(store):
    store.put("x", b"first")
    with pytest.raises(ObjectExistsError, match="x"):
        store.put("x", b"second")
    with pytest.raises(FileExistsError):
        store.put("x", b"first")
    assert content(store, "x") == b"first"


def test_one_of_many_racing_puts_wins(store):
    barrier = threading.Barrier(8)

    def race(number: int) -> int | None:
        barrier.wait()
        try:
            store.put("race/x", b"%d" % number)
        except ObjectExistsError:
            return None
        return number

    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            winners = [n for n in pool.map(race, range(8)) if n is not None]
        assert len(winners) == 1
        assert content(store, "race/x") == b"%d" % winners[0]
        store.delete("race/x")


def test_replace_creates_and_overwrites(store):
    store.replace("hint", b"1")
    store.replace("hint", b"22")
    assert content(store, "hint") == b"22"
    assert list(store.list_unfinished("")) == []


def test_missing_object(store):
    for call in (store.get, store.open):
        with pytest.raises(ObjectNotFoundError, match="no/such"):
            call("no/such")
    assert not store.exists("no/such")
    store.delete("no/such")


def test_exists_and_delete(store):
    store.put("d/x", b"1")
    store.put("d/y", b"2")
    assert store.exists("d/x")
    assert not store.exists("d")
    store.delete("d/x")
    assert not store.exists("d/x")
    assert content(store, "d/y") == b"2"


def test_confirm_tells_whether_it_is_there(store):
    assert not store.confirm("d/x")
    assert paths(store) == []
    store.put("d/x", b"1")
    assert store.confirm("d/x")
    assert not store.confirm("d/y")
    assert not store.confirm("d")


def test_deleted_name_can_be_taken_again(store):
    store.put("d/x", b"1")
    store.delete("d/x")
    store.put("d/x", b"2")
    assert content(store, "d/x") == b"2"


# --- listing


def test_list_is_recursive_and_by_directory(store):
    names = ["a/1", "a/b/2", "a/b/c/3", "ab/4", "5"]
    for name in names:
        store.put(name, name.encode())
    assert paths(store) == sorted(names)
    assert paths(store, "a") == ["a/1", "a/b/2", "a/b/c/3"]
    assert paths(store, "a/b") == ["a/b/2", "a/b/c/3"]
    assert paths(store, "missing") == []


def test_list_of_a_store_that_is_not_there_yet(store):
    assert paths(store) == []
    assert list(store.list_unfinished("")) == []


def test_list_tells_size_and_age(store):
    store.put("first", b"12345")
    store.put("second", b"")
    found = {info.path: info for info in store.list("")}
    assert found["first"].size_bytes == 5
    assert found["second"].size_bytes == 0
    assert 1_600_000_000_000 < found["first"].modified_ms <= found["second"].modified_ms


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_round_trip(store, name):
    store.put(name, b"odd")
    assert paths(store) == [name]
    assert content(store, name) == b"odd"
    store.delete(name)
    assert paths(store) == []


@pytest.mark.parametrize("path", [*BAD_PATHS, "x" * 256])
def test_bad_paths_are_refused_by_every_call(store, path):
    calls = [store.create, store.get, store.open, store.exists, store.confirm, store.delete]
    calls += [lambda p: store.put(p, b""), lambda p: store.replace(p, b"")]
    if path:
        calls += [store.list, store.list_unfinished]
    for call in calls:
        with pytest.raises(StorageError, match="relative"):
            call(path)


# --- sinks and sources


def test_sink_is_invisible_until_closed(store):
    sink = store.create("d/x")
    assert sink.write(b"ab") == 2
    assert sink.write(memoryview(b"cd")) == 2
    assert sink.tell() == 4
    assert not sink.closed
    assert not store.exists("d/x")
    assert paths(store) == []
    sink.close()
    assert sink.closed
    assert content(store, "d/x") == b"abcd"
    assert paths(store) == ["d/x"]
    sink.close()
    sink.abort()
    assert content(store, "d/x") == b"abcd"


def test_aborted_sink_leaves_nothing(store):
    sink = store.create("d/x")
    sink.write(b"ab")
    sink.abort()
    assert sink.closed
    assert paths(store) == []
    assert list(store.list_unfinished("")) == []
    with pytest.raises(StorageError, match="closed"):
        sink.write(b"more")
    sink.close()
    assert not store.exists("d/x")


def test_sink_context_publishes_or_aborts(store):
    with store.create("good") as sink:
        sink.write(b"1")
    with pytest.raises(TypeError), store.create("bad") as sink:
        sink.write(sink.write(b"2"))
    assert paths(store) == ["good"]


def test_dropped_sink_leaves_nothing(store):
    sink = store.create("d/x")
    sink.write(b"ab")
    del sink
    gc.collect()
    assert paths(store) == []
    assert list(store.list_unfinished("")) == []


def test_sink_close_refuses_a_taken_path(store):
    sink = store.create("x")
    sink.write(b"mine")
    store.put("x", b"theirs")
    with pytest.raises(ObjectExistsError):
        sink.close()
    assert sink.closed
    assert content(store, "x") == b"theirs"
    assert list(store.list_unfinished("")) == []


def test_sink_behind_arrow_ipc(store):
    table = pa.table({"a": list(range(1000)), "b": ["x"] * 1000})
    sink = store.create("x.arrow")
    with (
        pa.PythonFile(sink, mode="w") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    assert pa.ipc.open_file(store.get("x.arrow")).read_all().equals(table)


def test_arrow_file_dropped_does_not_publish(store):
    sink = store.create("x.arrow")
    file = pa.PythonFile(sink, mode="w")
    file.write(b"half")
    del file
    gc.collect()
    assert not sink.closed
    sink.abort()
    assert paths(store) == []


def test_source_reads_exactly(store):
    store.put("x", bytes(range(100)))
    source = store.open("x")
    assert source.size_bytes == 100
    assert source.read(10, 5).to_pybytes() == bytes(range(10, 15))
    assert source.read(0, 100).to_pybytes() == bytes(range(100))
    assert source.read(100, 0).size == 0
    assert source.read(0, 0).size == 0
    source.close()
    source.close()
    with pytest.raises(StorageError, match="closed"):
        source.read(0, 1)


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 11), (10, 1), (11, 0), (-1, 2), (0, -1), (2, 2**62)]
)
def test_source_refuses_to_read_past_the_end(store, offset, length):
    store.put("x", b"0123456789")
    source = store.open("x")
    with pytest.raises(CorruptFileError, match="ends early") as caught:
        source.read(offset, length)
    assert caught.value.path == "x"
    assert caught.value.offset == offset
    source.close()


def test_source_reads_from_many_threads(store):
    data = os.urandom(64 * 1024)
    store.put("x", data)
    source = store.open("x")
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda i: source.read(i * 1024, 1024).to_pybytes(), range(64))
        assert b"".join(parts) == data
    source.close()


# --- the real disk


def planted(store: LocalStore, path: str, data: bytes = b"1") -> str:
    store.put(path, data)
    return os.path.join(store.uri, path)


def test_posix_modes_follow_umask(posix):
    old = os.umask(0o027)
    try:
        file = planted(posix, "d/x")
    finally:
        os.umask(old)
    assert os.stat(file).st_mode & 0o777 == 0o640
    assert os.stat(os.path.dirname(file)).st_mode & 0o777 == 0o750


def test_posix_symlinked_object_is_refused(posix, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"outside")
    planted(posix, "d/x")
    os.symlink(secret, os.path.join(posix.uri, "d/link"))
    for call in (posix.get, posix.open, posix.exists):
        with pytest.raises(StorageError, match="symbolic link"):
            call("d/link")
    with pytest.raises(ObjectExistsError):
        posix.put("d/link", b"new")
    with pytest.raises(ObjectExistsError), posix.create("d/link") as sink:
        sink.write(b"new")
    posix.replace("d/link", b"new")
    assert secret.read_bytes() == b"outside"
    assert content(posix, "d/link") == b"new"


def test_posix_symlinked_directory_is_refused(posix, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"sentinel")
    planted(posix, "d/x")
    os.symlink(outside, os.path.join(posix.uri, "link"))
    calls = [posix.get, posix.open, posix.exists, posix.delete, posix.create]
    calls += [lambda p: posix.put(p, b""), lambda p: posix.replace(p, b"")]
    for path in ("link/x", "link/sub/x"):
        for call in calls:
            with pytest.raises(StorageError, match="symbolic link") as caught:
                call(path)
            assert caught.value.path == path
    assert paths(posix) == ["d/x"]
    assert os.listdir(outside) == ["x"]


def test_posix_directory_turned_into_a_link_is_refused(posix, tmp_path):
    """Also after the store has used the directory: nothing is trusted from an earlier walk."""
    file = planted(posix, "d/x")
    outside = tmp_path / "outside"
    os.rename(os.path.dirname(file), outside)
    os.symlink(outside, os.path.dirname(file))
    with pytest.raises(StorageError, match="symbolic link"):
        posix.delete("d/x")
    with pytest.raises(StorageError, match="symbolic link"):
        posix.put("d/y", b"")
    assert os.listdir(outside) == ["x"]


def test_posix_root_may_be_reached_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = open_store(str(tmp_path / "link"))
    store.put("x", b"1")
    assert (tmp_path / "real" / "x").read_bytes() == b"1"


def test_posix_fifo_and_directory_in_place_of_an_object(posix):
    planted(posix, "d/x")
    os.mkfifo(os.path.join(posix.uri, "d/fifo"))
    for path in ("d/fifo", "d"):
        with pytest.raises(StorageError, match="not a regular file"):
            posix.get(path)
    with pytest.raises(StorageError, match="delete d"):
        posix.delete("d")
    assert paths(posix) == ["d/x"]


def test_posix_temporary_files(tmp_path):
    store = LocalStore(str(tmp_path), PosixDisk(), env=Env.seeded(7))
    expected = ".tmp-" + Env.seeded(7).new_id()
    sink = store.create("d/x")
    sink.write(b"abc")
    assert os.listdir(tmp_path / "d") == [expected]
    (left,) = store.list_unfinished("")
    assert (left.path, left.size_bytes) == (f"d/{expected}", 3)
    sink.close()
    assert os.listdir(tmp_path / "d") == ["x"]


def test_posix_leftovers_can_be_collected(posix):
    file = planted(posix, "d/x")
    with open(os.path.join(os.path.dirname(file), ".tmp-dead"), "wb") as left:
        left.write(b"half")
    assert paths(posix) == ["d/x"]
    for info in posix.list_unfinished("d"):
        posix.delete(info.path)
    assert os.listdir(os.path.dirname(file)) == ["x"]


def test_posix_truncated_file_is_noticed(posix):
    file = planted(posix, "d/x", b"0123456789")
    source = posix.open("d/x")
    os.truncate(file, 4)
    with pytest.raises(CorruptFileError, match="ends early"):
        source.read(0, 10)
    source.close()


def test_posix_removed_directory_is_made_again(posix):
    file = planted(posix, "d/x")
    os.unlink(file)
    os.rmdir(os.path.dirname(file))
    posix.put("d/y", b"1")
    assert paths(posix) == ["d/y"]


def test_posix_leaks_no_descriptor(posix):
    def use() -> None:
        posix.replace("hint", b"1")
        with posix.create("d/e/x") as sink:
            sink.write(b"1")
        for refused in (
            lambda: posix.put("d/e/x", b""),
            lambda: posix.get("d"),
            lambda: posix.get("d/no"),
        ):
            with pytest.raises(StorageError):
                refused()
        posix.open("d/e/x")
        posix.create("d/e/z")
        next(posix.list(""))
        posix.exists("d/e/x")
        posix.delete("d/e/x")

    use()
    gc.collect()
    before = os.listdir("/proc/self/fd")
    use()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_posix_directories_have_descriptors(posix):
    posix.put("a/b/one", b"")
    assert posix.open_directories(["a", "missing"]) is None
    handles = posix.open_directories(["a", "a/b"])
    assert [os.listdir(handle) for handle in handles] == [["b"], ["one"]]
    for handle in handles:
        os.close(handle)


@pytest.mark.parametrize("store", ["memory", "cloud"], indirect=True)
def test_other_directories_have_none(store):
    store.put("a/one", b"")
    assert store.open_directories(["a"]) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_posix_unwritable_directory(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        open_store(str(tmp_path / "t")).put("x", b"")


# --- S3


def requests(s3: S3Server, method: str) -> int:
    return sum(request.method == method for request in s3.requests)


def test_cloud_put_with_lost_answer_is_ambiguous_not_a_conflict(cloud, s3):
    s3.fail("drop_response", "PUT")
    with pytest.raises(StorageError) as caught:
        cloud.put("x", b"mine")
    assert not isinstance(caught.value, ObjectExistsError)
    assert content(cloud, "x") == b"mine"


def test_cloud_put_refused_before_dispatch_is_sent_once(cloud, s3):
    s3.fail("refuse", "PUT")
    before = requests(s3, "PUT")
    with pytest.raises(StorageError, match="503"):
        cloud.put("x", b"mine")
    assert requests(s3, "PUT") == before + 1
    assert not cloud.exists("x")


def test_cloud_put_that_meets_an_unfinished_creation_is_no_conflict(cloud, s3):
    s3.fail("conflict", "PUT")
    with pytest.raises(StorageError, match="not finished") as caught:
        cloud.put("x", b"mine")
    assert not isinstance(caught.value, ObjectExistsError)


@pytest.mark.parametrize("fault", ["drop_response", "refuse"])
def test_cloud_sink_survives_a_passing_fault(cloud, s3, fault):
    s3.fail(fault, "PUT")
    with cloud.create("x") as sink:
        sink.write(b"mine")
    assert content(cloud, "x") == b"mine"


def test_cloud_sink_does_not_take_others_objects_for_its_own(cloud, s3):
    sink = cloud.create("x")
    sink.write(b"mine")
    cloud.put("x", b"theirs")
    s3.fail("refuse", "PUT")
    with pytest.raises(ObjectExistsError):
        sink.close()
    assert content(cloud, "x") == b"theirs"


@pytest.mark.parametrize("fault", ["drop_response", "refuse"])
def test_cloud_reads_are_repeated(cloud, s3, fault):
    cloud.put("x", b"0123")
    s3.fail(fault, "GET")
    assert content(cloud, "x") == b"0123"
    s3.fail(fault, "HEAD")
    source = cloud.open("x")
    s3.fail(fault, "GET")
    assert source.read(1, 2).to_pybytes() == b"12"


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(cloud_store, "PART_BYTES", 1024)


def test_cloud_large_sink_streams_parts(cloud, s3, small_parts):
    data = os.urandom(10_000)
    with cloud.create("big") as sink:
        for start in range(0, len(data), 300):
            sink.write(data[start : start + 300])
        assert sink.tell() == len(data)
    assert content(cloud, "big") == data
    assert s3.uploads == {}
    assert any("partNumber" in request.query for request in s3.requests)


def test_cloud_large_sink_aborted_makes_no_object(cloud, small_parts):
    sink = cloud.create("big")
    sink.write(os.urandom(5000))
    sink.abort()
    gc.collect()
    assert paths(cloud) == []


def test_cloud_large_sink_refuses_a_taken_path(cloud, small_parts):
    sink = cloud.create("big")
    sink.write(os.urandom(5000))
    cloud.put("big", b"theirs")
    with pytest.raises(ObjectExistsError):
        sink.close()
    assert content(cloud, "big") == b"theirs"


def test_s3_server_completes_an_upload_conditionally(s3, cloud):
    """The double itself: the condition on completing a multipart upload holds as in S3."""
    started = s3.answer(Request("POST", "k", {"uploads": ""}, {}, b""))
    upload = {"uploadId": next(iter(s3.uploads))}
    assert started.status == 200
    s3.answer(Request("PUT", "k", {**upload, "partNumber": "1"}, {}, b"part"))
    s3.answer(Request("PUT", "k", {}, {}, b"whole"))
    refused = s3.answer(Request("POST", "k", upload, {"if-none-match": "*"}, b""))
    assert refused.status == 412
    assert s3.objects["k"].data == b"whole"


# --- choosing a store, and secrets


def test_open_store_paths_and_file_uris(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store("rel").put("x", b"1")
    assert content(open_store(f"{tmp_path}/rel"), "x") == b"1"
    assert content(open_store(f"file://{tmp_path}/r%65l"), "x") == b"1"
    assert open_store("rel").uri == f"{tmp_path}/rel"


def test_open_store_relative_path_is_fixed_at_opening(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("rel")
    store.put("x", b"1")
    monkeypatch.chdir("/")
    assert content(store, "x") == b"1"


def test_memory_stores_are_shared_by_name():
    open_store("memory://shared-a").put("x", b"1")
    open_store("memory://shared-a/inner").put("y", b"2")
    assert content(open_store("memory://shared-a/"), "x") == b"1"
    assert content(open_store("memory://shared-a"), "inner/y") == b"2"
    assert not open_store("memory://shared-b").exists("x")
    assert open_store("memory://shared-a").uri == "memory://shared-a"


@pytest.mark.parametrize(
    "uri", ["", "memory://", "ftp://x/y", "file://host/x", "file://rel", "s3://", "s3:///x"]
)
def test_bad_uris(uri):
    with pytest.raises(InvalidOptionError):
        open_store(uri)


@pytest.mark.parametrize("uri", ["memory://a/../b", "s3://bucket/a/../b", "s3://bucket/a//b"])
def test_uris_that_climb(uri):
    with pytest.raises(StorageError, match="relative"):
        open_store(uri)


def test_options_for_a_local_store_are_refused_without_their_values(tmp_path):
    with pytest.raises(InvalidOptionError, match="secret_access_key") as caught:
        open_store(str(tmp_path), {"secret_access_key": CANARY})
    assert CANARY not in everything_said(caught.value)


@pytest.mark.parametrize(
    "uri", [f"s3://{CANARY}@bucket/x", f"s3://bucket/x?token={CANARY}", f"az://c/x#{CANARY}"]
)
def test_credentials_in_a_uri_are_refused_without_echo(uri):
    with pytest.raises(InvalidOptionError, match="storage_options") as caught:
        open_store(uri)
    assert CANARY not in everything_said(caught.value)


@pytest.mark.parametrize(
    "key", ["conditional_put", "timeout", "secret_access_key_", "skip_signature", "default_headers"]
)
def test_bad_cloud_options_are_named_without_their_values(key):
    with pytest.raises(InvalidOptionError, match=key) as caught:
        open_store("s3://bucket/x", {"region": "us-east-1", key: CANARY})
    assert CANARY not in everything_said(caught.value)


def test_secrets_are_in_no_message_and_no_repr(s3, cloud):
    options = {**s3.storage_options, "secret_access_key": CANARY, "token": CANARY}
    store = open_store(
        "s3://bucket/t", {**options, "endpoint": "http://127.0.0.1:9", "timeout": "5s"}
    )
    said = [repr(store), str(store), store.uri, repr(store.create("x"))]
    with pytest.raises(StorageError) as caught:
        store.put("x", b"")
    said.append(everything_said(caught.value))
    store = open_store("s3://bucket/t", options)
    store.put("x", b"1")
    said.append(repr(store.open("x")))
    for kind in ("refuse", "drop_response"):
        s3.fail(kind, "PUT")
        with pytest.raises(LsmergeError) as caught:
            store.put(kind, b"")
        said.append(everything_said(caught.value))
    assert CANARY not in "\n".join(said)
    assert any(CANARY in request.headers.get("x-amz-security-token", "") for request in s3.requests)


def test_signed_urls_are_cut_from_messages():
    redact = redactor({"sas_token": f"sig={CANARY}"})
    text = redact(f"PUT https://a.blob/c/x?se=1&sig={CANARY} failed\nDebug source: {CANARY}")
    assert text == "PUT https://a.blob/c/x?*** failed"


def test_missing_obstore_tells_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(StorageError, match=r"pip install lsmerge\[object-store\]"):
        open_store("s3://bucket/x")


def everything_said(error: BaseException) -> str:
    return "".join([str(error), repr(error), *traceback.format_exception(error), repr(error.args)])
