"""Partitions named in the text of an option: `day=2024-01-31,region=eu; day=2024-02-01`, or JSON."""

import json
from typing import Any

from lsmerge import InvalidOptionError


def partitions_in(option: str, text: str) -> list[dict[str, Any]]:
    """Values of partition columns, one mapping for each partition or group of partitions."""
    if text.lstrip()[:1] in ("{", "["):
        return _from_json(option, text)
    found = [_pairs(option, text, part) for part in text.split(";") if part.strip()]
    if not found:
        raise _malformed(option, text)
    return found


def _from_json(option: str, text: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise _malformed(option, text) from error
    found = [content] if isinstance(content, dict) else content
    if not found or not all(isinstance(item, dict) and item for item in found):
        raise _malformed(option, text)
    return list(found)


def _pairs(option: str, text: str, part: str) -> dict[str, Any]:
    pairs = [pair.partition("=") for pair in part.split(",")]
    if not all(sign and name.strip() for name, sign, _ in pairs):
        raise _malformed(option, text)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _malformed(option: str, text: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option {option!r} = {text!r}: accepted: column=value,column=value; several separated by a semicolon; "
        "or JSON, for values with such signs and for null"
    )
