"""Rows as lines of JSON, put together column by column: no Python object is made for a row.

Every column becomes a column of JSON texts, and these are joined with the names of the members between them. What a
value looks like is told in `json_out.py`; only values that Arrow has no text for (binary, strings with characters
that JSON escapes) are looked at one by one.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lsmerge.cli import json_out

# Text of one piece stays far below what 32-bit offsets reach, and in memory once.
PIECE_BYTES = 8 << 20
# What a value may grow by on its way to text: a byte that is escaped becomes six.
GROWTH = 6

_NULL = "null"
_CONTROLS = r"[\x00-\x1f]"
_ESCAPED = r'["\\\x00-\x1f]'
# The backslash first: the others bring some.
_COMMON_ESCAPES = (("\\", r"\\"), ('"', r"\""), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"))


def lines(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """The rows as lines that end with a line feed, some at a time."""
    if batch.num_rows == 0:
        return
    rows = max(1, batch.num_rows * PIECE_BYTES // max(PIECE_BYTES, batch.nbytes * GROWTH))
    for start in range(0, batch.num_rows, rows):
        piece = batch.slice(start, rows)
        yield _content(_objects(piece.schema.names, piece.columns, piece.num_rows, "\n"))


def texts(column: pa.Array) -> pa.Array:
    """The JSON text of every value; that of a null is `null`."""
    import pyarrow.compute as pc

    found = texts_or_null(column)
    return pc.fill_null(found, _NULL) if found.null_count else found


def texts_or_null(column: pa.Array) -> pa.Array:
    """The JSON text of every value that is there; null stays null."""
    for is_kind, write in _WRITERS:
        if is_kind(column.type):
            return write(column)
    return _one_by_one(column)


def base64_texts(column: pa.Array) -> pa.Array:
    """Bytes as base64; null stays null."""
    encode = base64.b64encode
    return pa.array(
        [None if value is None else encode(value).decode() for value in column.to_pylist()],
        pa.string(),
    )


def _objects(names: Sequence[str], columns: Sequence[pa.Array], rows: int, end: str) -> pa.Array:
    """An object for each row, and `end` behind it."""
    import pyarrow.compute as pc

    parts: list[Any] = []
    for name, column in zip(names, columns, strict=True):
        opening = "," if parts else "{"
        parts += (f"{opening}{json_out.text(name)}:", texts(column))
    if not parts:
        return pa.array([f"{{}}{end}"] * rows, pa.string())
    return pc.binary_join_element_wise(*parts, f"}}{end}", "")


def _content(strings: pa.Array) -> pa.Buffer:
    """The bytes of all strings, one behind the other. Requires: none of them is null."""
    _, offsets, data = strings.buffers()
    ends = memoryview(offsets).cast("i")
    first, last = ends[strings.offset], ends[strings.offset + len(strings)]
    return data.slice(first, last - first)


def _as_text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _one_by_one(column: pa.Array) -> pa.Array:
    values = (None if value is None else json_out.text(value) for value in column.to_pylist())
    return pa.array(values, pa.string())


def _quoted(strings: pa.Array) -> pa.Array:
    """Text that needs no escape, in quotes."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise('"', strings, '"', "")


def _floats(column: pa.Array) -> pa.Array:
    """Arrow's shortest digits; a whole number keeps its fraction, so that it stays a float, and -0 its sign."""
    import pyarrow.compute as pc

    digits = _as_text(column)
    is_whole = pc.match_substring_regex(digits, "^[-0-9]+$")
    shown = pc.if_else(is_whole, pc.binary_join_element_wise(digits, ".0", ""), digits)
    is_number = pc.is_finite(column)
    return shown if pc.all(is_number).as_py() else pc.if_else(is_number, shown, _quoted(digits))


def _strings(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    plain = column.cast(pa.string())
    is_escaped = pc.match_substring_regex(plain, _ESCAPED)
    quoted = _quoted(plain)
    if not pc.any(is_escaped).as_py():
        return quoted
    return pc.replace_with_mask(quoted, is_escaped, _escaped(plain.filter(is_escaped)))


def _escaped(strings: pa.Array) -> pa.Array:
    """Text in quotes with what JSON escapes; what is rare is escaped value by value."""
    import pyarrow.compute as pc

    shown = strings
    for character, escape in _COMMON_ESCAPES:
        shown = pc.replace_substring(shown, character, escape)
    shown = _quoted(shown)
    is_rare = pc.match_substring_regex(shown, _CONTROLS)
    if not pc.any(is_rare).as_py():
        return shown
    one_by_one = [json.dumps(t, ensure_ascii=False) for t in strings.filter(is_rare).to_pylist()]
    return pc.replace_with_mask(shown, is_rare, pa.array(one_by_one, pa.string()))


def _bytes(column: pa.Array) -> pa.Array:
    return _quoted(base64_texts(column))


def _moments(column: pa.Array) -> pa.Array:
    """ISO text: a T before the time of day, no zeros behind the last digit of a second; instants in UTC, with a Z."""
    import pyarrow.compute as pc

    unit, zone = column.type.unit, getattr(column.type, "tz", None)
    if zone is not None:
        column = column.view(pa.timestamp(unit))
    shown = pc.replace_substring(_as_text(column), " ", "T", max_replacements=1)
    if unit != "s":
        shown = pc.ascii_rtrim(pc.ascii_rtrim(shown, "0"), ".")
    return pc.binary_join_element_wise('"', shown, '"' if zone is None else 'Z"', "")


def _lists(column: pa.Array) -> pa.Array:
    return _joined_lists(column, texts(column.flatten()))


def _maps(column: pa.Array) -> pa.Array:
    """A list of pairs, since keys need not be text."""
    import pyarrow.compute as pc

    pair = pa.struct([column.type.key_field, column.type.item_field])
    listed = column.cast(pa.list_(pair))
    keys, items = listed.flatten().flatten()
    pairs = pc.binary_join_element_wise("[", texts(keys), ",", texts(items), "]", "")
    return _joined_lists(listed, pairs)


def _joined_lists(column: pa.Array, elements: pa.Array) -> pa.Array:
    """`[a,b]` of the elements of each list, which stand one behind the other."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ",")
    return _where_valid(column, pc.binary_join_element_wise("[", joined, "]", ""))


def _structs(column: pa.Array) -> pa.Array:
    names = [field.name for field in column.type]
    return _where_valid(column, _objects(names, column.flatten(), len(column), ""))


def _where_valid(column: pa.Array, shown: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    if column.null_count == 0:
        return shown
    return pc.if_else(column.is_valid(), shown, pa.scalar(None, pa.string()))


def _is_text(arrow: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(arrow) for test in tests)


def _is_bytes(arrow: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(arrow) for test in tests)


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _is_moment(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) or pa.types.is_time(arrow))


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (_is_text, _strings),
    (pa.types.is_boolean, _as_text),
    (pa.types.is_integer, _as_text),
    (pa.types.is_floating, _floats),
    (pa.types.is_decimal, lambda column: _quoted(_as_text(column))),
    (pa.types.is_date, lambda column: _quoted(_as_text(column))),
    (_is_moment, _moments),
    (_is_bytes, _bytes),
    (pa.types.is_map, _maps),
    (pa.types.is_struct, _structs),
    (_is_list, _lists),
)
