"""Scenarios as text: the interpreter of tests/traces/*.trace.

A trace is a list of steps, parted by blank lines; lines that start with # are remarks.

    command argument option=value
    input lines
    ----
    output lines

Commands:

    table key=K[,K2] [partition=P] [option=value ...]  create; input: `column type [not null]`
    write [user=U id=N]                                one commit; input: kind, values: `+I 1 a ~`
    writer [fail]                                      one commit of batches that are parted by `--`
    delete                                             deletes by key; input: key values
    scan [columns=a,b] [filter="..."] [limit=N] [snapshot=N]    rows, sorted by value
    get VALUE...                                       one row by key, or none
    get_many                                           rows by key; input: key values
    changes [start=N] [end=N]                          changelog, sorted within a snapshot
    compact [full]                                     the snapshots it published
    snapshots                                          all snapshots
    files                                              place, level, rows and keys of each file
    reopen                                             forgets the table object, opens it again

`~` is null; values with blanks are quoted. An lsmerge error is an output like any other: its
message, with file identifiers replaced by <id> and the location by <table>.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lsmerge
from lsmerge.meta.snapshot import SnapshotStore
from lsmerge.meta.version import VersionReader
from lsmerge.storage.object_store import open_store
from lsmerge.storage.run_file import RunSummary
from tests.conformance.values import arrow_array, arrow_type

Lines = Sequence[str]


@dataclass(frozen=True)
class Step:
    """A command with its input and the output accepted for it; remarks stand before it."""

    line_number: int
    remarks: Lines
    command: str
    input: Lines
    output: Lines

    def render(self, output: Lines) -> str:
        """The step as text, with this output."""
        return "\n".join([*self.remarks, self.command, *self.input, "----", *output])


def parse_trace(text: str) -> list[Step]:
    """The steps of a trace."""
    steps, line_number = [], 1
    for block in text.strip("\n").split("\n\n"):
        lines = block.strip("\n").split("\n")
        remarks = [line for line in lines if line.startswith("#")]
        body = lines[len(remarks) :]
        if "----" not in body:
            raise ValueError(f"the step at line {line_number} has no ---- line: {block!r}")
        cut = body.index("----")
        steps.append(Step(line_number, remarks, body[0], body[1:cut], body[cut + 1 :]))
        line_number += block.count("\n") + 2
    return steps


def render_trace(steps: Sequence[Step], outputs: Sequence[Lines]) -> str:
    """The whole trace as text, with these outputs."""
    blocks = [step.render(output) for step, output in zip(steps, outputs, strict=True)]
    return "\n\n".join(blocks) + "\n"


class TraceFailure(Exception):
    """Raised inside a writer block by `writer fail`."""


class TraceRunner:
    """Runs steps one after another against one table. A command is a method `do_<command>`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.table: Any = None

    def run(self, step: Step) -> list[str]:
        """The output of a step."""
        name, *words = shlex.split(step.command)
        command: Callable[..., Iterator[str]] | None = getattr(self, f"do_{name}", None)
        if command is None:
            raise ValueError(f"line {step.line_number}: unknown command {name!r}")
        arguments = [word for word in words if "=" not in word]
        # Only the first = parts name and value: a filter holds more of them.
        options = dict(word.split("=", 1) for word in words if "=" in word)
        try:
            return list(command(step.input, *arguments, **options))
        except lsmerge.LsmergeError as error:
            return [self._anonymous(str(error))]

    def do_table(self, columns: Lines, *, key: str, partition: str = "", **options: str) -> Any:
        fields = [_field(line) for line in columns]
        self.table = lsmerge.create_table(
            self.uri,
            pa.schema(fields),
            _names(key),
            partition_by=_names(partition),
            options=options,
        )
        yield "ok"

    def do_reopen(self, _input: Lines) -> Iterator[str]:
        self.table = lsmerge.open_table(self.uri)
        yield "ok"

    def do_write(self, rows: Lines, **identity: str) -> Iterator[str]:
        given: dict[str, Any] = {}
        if identity:
            given = {"commit_user": identity["user"], "commit_id": int(identity["id"])}
        yield _snapshot_text(self.table.write(self._changes(rows), **given))

    def do_writer(self, rows: Lines, outcome: str = "") -> Iterator[str]:
        try:
            with self.table.writer() as writer:
                for batch in "\n".join(rows).split("\n--\n"):
                    writer.write(self._changes(batch.split("\n")))
                if outcome == "fail":
                    raise TraceFailure
        except TraceFailure:
            yield "failed"
        yield _snapshot_text(self.table.latest_snapshot())

    def do_delete(self, keys: Lines) -> Iterator[str]:
        yield _snapshot_text(self.table.delete(self._keys(keys)))

    def do_scan(self, _input: Lines, *, columns: str = "", **options: str) -> Iterator[str]:
        given: dict[str, Any] = {n: v if n == "filter" else int(v) for n, v in options.items()}
        found = self.table.scan(columns=_names(columns) or None, **given).to_arrow()
        yield from _row_lines(found)

    def do_get(self, _input: Lines, *values: str) -> Iterator[str]:
        key = self._keys([shlex.join(values)]).to_pylist()[0]
        row = self.table.get(key)
        yield "none" if row is None else _line(row.values())

    def do_get_many(self, keys: Lines) -> Iterator[str]:
        yield from _row_lines(self.table.get_many(self._keys(keys)))

    def do_changes(self, _input: Lines, **options: str) -> Iterator[str]:
        bounds = {name: int(value) for name, value in options.items()}
        lines = []
        for batch in self.table.changelog(**bounds):
            for row in batch.to_pylist():
                values = [row[name] for name in self._columns]
                order = (row["_snapshot_id"], _sortable(values))
                lines.append((order, f"@{row['_snapshot_id']} {row['_row_kind']} {_line(values)}"))
        yield from (line for _, line in sorted(lines))

    def do_compact(self, _input: Lines, mode: str = "") -> Iterator[str]:
        before = self.table.latest_snapshot()
        self.table.compact(full=mode == "full")
        published = [s for s in self.table.snapshots() if before is None or s.id > before.id]
        yield from [_snapshot_text(s) for s in published] or ["nothing to do"]

    def do_snapshots(self, _input: Lines) -> Iterator[str]:
        yield from (_snapshot_text(s) for s in sorted(self.table.snapshots(), key=lambda s: s.id))

    def do_files(self, _input: Lines) -> Iterator[str]:
        store = open_store(self.uri)
        snapshot = SnapshotStore(store).latest()
        if snapshot is None:
            return
        version = VersionReader(store).load(snapshot)
        for place in version.places():
            where = "/".join([*map(_text, place.partition), f"bucket-{place.bucket}"])
            for run in version.runs(place):
                yield from (f"{where} L{run.level} {self._run_text(f.run)}" for f in run.files)

    @property
    def _columns(self) -> list[str]:
        return list(self.table.schema.names)

    def _changes(self, lines: Lines) -> pa.Table:
        """Rows that begin with their kind."""
        words = [shlex.split(line) for line in lines]
        table = self._parse([row[1:] for row in words], self._columns)
        return table.append_column("_row_kind", pa.array([row[0] for row in words], pa.string()))

    def _keys(self, lines: Lines) -> pa.Table:
        return self._parse([shlex.split(line) for line in lines], self.table.primary_key)

    def _parse(self, rows: Sequence[Lines], names: Sequence[str]) -> pa.Table:
        types = [self.table.schema.field(name).type for name in names]
        columns = [
            arrow_array([_value(row[i], type_) for row in rows], type_)
            for i, type_ in enumerate(types)
        ]
        return pa.table(columns, names=list(names))

    def _run_text(self, run: RunSummary) -> str:
        keys = f"{self._key_text(run.min_key)}..{self._key_text(run.max_key)}"
        return f"{run.format} rows {run.num_rows} keys {keys}"

    def _key_text(self, encoded: bytes) -> str:
        """An encoded key readably where it is one integer or one text, else as hex."""
        types = [self.table.schema.field(name).type for name in self.table.primary_key]
        if len(types) == 1 and pa.types.is_integer(types[0]):
            return str(int.from_bytes(encoded, "big") - (1 << (len(encoded) * 8 - 1)))
        if len(types) == 1 and pa.types.is_string(types[0]):
            return _text(encoded.decode())
        return encoded.hex()

    def _anonymous(self, message: str) -> str:
        return re.sub(r"[0-9a-f]{32}", "<id>", message).replace(self.uri, "<table>")


def _field(line: str) -> pa.Field:
    name, type_name = line.split(" ", 1)
    nullable = not type_name.endswith(" not null")
    return pa.field(name, arrow_type(type_name.removesuffix(" not null")), nullable)


def _names(text: str) -> list[str]:
    return text.split(",") if text else []


def _value(word: str, type_: pa.DataType) -> Any:
    """A word of a trace as a case value; what is not a number or truth value stays text."""
    if word == "~":
        return None
    if pa.types.is_integer(type_):
        return int(word)
    if pa.types.is_floating(type_):
        return float(word)
    return word == "true" if pa.types.is_boolean(type_) else word


def _row_lines(table: pa.Table) -> list[str]:
    rows = [list(row.values()) for row in table.to_pylist()]
    return [_line(row) for row in sorted(rows, key=_sortable)]


def _sortable(values: Sequence[Any]) -> list[tuple[bool, Any]]:
    return [(value is not None, value) for value in values]


def _line(values: Any) -> str:
    return " ".join(map(_text, values))


def _text(value: Any) -> str:
    if value is None:
        return "~"
    if isinstance(value, bool):
        return str(value).lower()
    return f"0x{value.hex()}" if isinstance(value, bytes) else shlex.quote(str(value))


def _snapshot_text(snapshot: Any) -> str:
    return "no snapshot" if snapshot is None else f"snapshot {snapshot.id} {snapshot.kind}"
