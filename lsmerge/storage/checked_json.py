"""JSON files whose last line is a checksum over everything before it.

    {"format": 1, ...}\n
    crc32c 0a1b2c3d\n

Used for snapshots and schemas. Parsing is total: bytes give a dict or a CorruptFileError.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lsmerge.errors import CorruptFileError, UnsupportedFormatError
from lsmerge_native.checksum import crc32c

FORMAT_VERSION = 1

_TRAILER_BYTES = len("crc32c 00000000\n")


def dump(content: Mapping[str, Any]) -> bytes:
    """Serialise `content`; the format version is added here."""
    body = json.dumps(
        {"format": FORMAT_VERSION, **content}, indent=1, ensure_ascii=True, allow_nan=False
    ).encode()
    body += b"\n"
    return body + _trailer(body)


def load(path: str, data: pa.Buffer) -> dict[str, Any]:
    """Check the last line, then parse; anything unexpected is a CorruptFileError naming `path`."""
    raw = data.to_pybytes()
    body = raw[:-_TRAILER_BYTES]
    if raw[-_TRAILER_BYTES:] != _trailer(body):
        raise CorruptFileError(path, "the checksum line does not match the content")
    try:
        content = json.loads(body, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, f"not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptFileError(path, "a JSON object was expected")
    if content.get("format") != FORMAT_VERSION:
        raise UnsupportedFormatError(path, content.get("format"), FORMAT_VERSION)
    return content


def _trailer(body: bytes) -> bytes:
    return b"crc32c %08x\n" % crc32c(body)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("an object has a key twice")
    return content


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")
