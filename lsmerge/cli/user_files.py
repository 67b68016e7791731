"""Files and streams of the user: what is read into a table and what is written out of one.

The only module of the command line that touches files. Where a whole file is wanted, a stream is spooled to disk, so
that memory stays bounded. An output file appears when it is complete: until then it has another name.
"""

import errno
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NoReturn, cast

SPOOL_BYTES = 1 << 20
STDIO = "-"
FORMATS_BY_EXTENSION = {
    "csv": "csv",
    **dict.fromkeys(("json", "jsonl", "ndjson"), "json"),
    "parquet": "parquet",
    **dict.fromkeys(("arrow", "arrows", "feather"), "arrow"),
}


def format_by_name(path: str) -> str | None:
    """The format that the extension of a file tells."""
    return FORMATS_BY_EXTENSION.get(path.rpartition(".")[2].lower())


@contextmanager
def reading(source: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, or of standard input."""
    if source == STDIO:
        _require_standard_input()
        yield sys.stdin.buffer
        return
    with open(source, "rb") as file:
        yield file


def _require_standard_input() -> None:
    """Refuse to read what `make_usable` has put in the place of a stream that is not there."""
    if getattr(sys.stdin, "name", None) == os.devnull:
        reason = "is closed: give a file, or `< /dev/null` if no rows are meant"
        raise OSError(errno.EBADF, reason, "standard input")


@contextmanager
def _whole_writes(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """The stream, of which each write takes everything or fails; with `python -u` it would take what fits a pipe."""
    if not isinstance(stream, io.RawIOBase):
        yield stream
        return
    buffered = io.BufferedWriter(stream)
    try:
        yield buffered
        buffered.flush()
    finally:
        with suppress(OSError):
            buffered.detach()


@contextmanager
def writing(target: str | None) -> Iterator[IO[bytes]]:
    """Where bytes go: standard output, or a file that is there only once all has been written."""
    if target is None or target == STDIO:
        with _whole_writes(sys.stdout.buffer) as stream:
            yield stream
        return
    if _is_device(target):
        with open(target, "wb") as device:
            yield device
        return
    # With the number of the process: two that write the same file at once do not write into each other's.
    unfinished = Path(f"{target}.{os.getpid()}.unfinished")
    try:
        with _opened_as(target, unfinished) as file:
            yield file
        unfinished.replace(target)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _opened_as(target: str, path: Path) -> IO[bytes]:
    """A new file; if it cannot be made, the error names what the user asked for."""
    try:
        return open(path, "wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from error


def _is_device(path: str) -> bool:
    """Whether a path is there but no file: a pipe, or something in /dev."""
    return Path(path).exists() and not Path(path).is_file()


@contextmanager
def as_text(stream: IO[bytes]) -> Iterator[IO[str]]:
    """The stream for text, which is in it as soon as it is written; the stream itself stays open."""
    text = io.TextIOWrapper(stream, encoding="utf-8", write_through=True)
    try:
        yield text
    finally:
        text.detach()


def seekable(stream: IO[bytes]) -> IO[bytes]:
    """The stream itself if one can jump in it, else a copy on disk, which goes when it is closed."""
    if stream.seekable():
        return stream
    copy = cast("IO[bytes]", tempfile.NamedTemporaryFile())  # noqa: SIM115 - whoever reads it closes it
    while chunk := stream.read(SPOOL_BYTES):
        copy.write(chunk)
    copy.seek(0)
    return copy


def native(file: IO[bytes]) -> Any:
    """The same file, read by Arrow itself where it has a name: Arrow's threads then call no Python."""
    import pyarrow as pa

    name = getattr(file, "name", None)
    return pa.OSFile(name) if isinstance(name, str) and Path(name).is_file() else file


def count(file: IO[bytes], byte: bytes) -> int:
    """How often a byte occurs; the file is at its beginning then."""
    found = 0
    while chunk := file.read(SPOOL_BYTES):
        found += chunk.count(byte)
    file.seek(0)
    return found


@contextmanager
def decoded(file: IO[bytes]) -> Iterator[IO[str]]:
    """The file as text with its line ends; it is at its beginning then."""
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    try:
        yield text
    finally:
        text.detach()
        file.seek(0)


def head(stream: IO[bytes], length: int) -> bytes:
    """The first bytes of a stream, which stay to be read."""
    if hasattr(stream, "peek"):
        peeked: bytes = stream.peek(length)
        return peeked[:length]
    first = stream.read(length)
    stream.seek(0)
    return first


def make_usable() -> None:
    """Standard streams as the program needs them: none missing, and none that fails on a letter it does not know."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115 - as long as the process
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave(code: int) -> NoReturn:
    """End the process now that all is written and closed.

    Python is not taken down first: a thread of Arrow that lets go of a Python object meanwhile would abort the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def is_directory(path: str) -> bool:
    return Path(path).is_dir()


def drop_standard_output() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, so that exiting does not fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
