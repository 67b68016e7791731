"""Run conformance cases against lsmerge.

    python -m tests.conformance.run FILE... [-k PREFIX] [--compact-every-commit]

A case is a table and a list of steps (README.md here says which). Rows are read back by a scan, through `get` and
through `get_many`. A full compaction after every commit must not change an answer. A case that needs a feature
which this version refuses by name counts as not available, not as failed.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import lsmerge
from tests.conformance.values import arrow_array, arrow_type, canonical_rows

_names = itertools.count(1)


class CaseFailed(AssertionError):
    """An answer differs from what the case expects."""


class NotAvailable(Exception):
    """The case needs a feature that this version refuses by name."""


@dataclass(frozen=True)
class Variant:
    """How a case is run; no variant may change an answer."""

    compact_every_commit: bool = False


PLAIN = Variant()


def load_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of one file."""
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return cases


def run_case(case: dict[str, Any], variant: Variant = PLAIN) -> None:
    """Run one case. Raises CaseFailed where an answer differs, NotAvailable where it cannot run."""
    if "expect_error" in case["steps"][0]:
        _expect_refused_creation(case)
        return
    CaseRun(case, _create(case), variant).all_steps()


@dataclass
class CaseRun:
    """One case under way: its table, and where its reader of changes stands.

    Another way to the same table overrides `_commit`, `_readers` and `_changed`, and says what its refusals are.
    """

    refusal: ClassVar[type[Exception]] = lsmerge.LsmergeError

    case: dict[str, Any]
    table: "lsmerge.Table"
    variant: Variant
    next_change: int = 1
    keys: list[tuple[Any, ...]] = field(default_factory=list)

    def all_steps(self) -> None:
        """Perform and check what the case says."""
        for number, step in enumerate(self.case["steps"], start=1):
            self.step(number, step)

    def step(self, number: int, step: dict[str, Any]) -> None:
        """Perform or check one step."""
        name = next(key for key in step if key != "target_columns")
        try:
            getattr(self, f"_{name}")(step[name], step.get("target_columns"))
        except CaseFailed as failure:
            raise CaseFailed(
                f"{self.case['id']} step {number} {name}: {failure}\n  {self.case['fact']}"
            ) from None

    def _write(self, changes: list[Any], target_columns: list[str] | None) -> None:
        self._commit(changes, target_columns)
        if self.variant.compact_every_commit:
            self.table.compact(full=True)

    def _write_error(self, changes: list[Any], target_columns: list[str] | None) -> None:
        before = self._latest()
        try:
            self._commit(changes, target_columns)
        except self.refusal:
            if self._latest() != before:
                raise CaseFailed("the refused commit left a snapshot") from None
        else:
            raise CaseFailed("the commit was accepted")

    def _commit(self, changes: list[Any], target_columns: list[str] | None) -> None:
        self.table.write(self._batch(changes, target_columns), columns=target_columns)

    def _compact(self, mode: str, _columns: None) -> None:
        self.table.compact(full=mode == "full")

    def _expect_rows(self, rows: list[Any], _columns: None) -> None:
        expected = self._canonical(self._columns_of(rows, self._names))
        for reader in self._readers():
            _compare(sorted(self._canonical(reader()), key=repr), sorted(expected, key=repr))

    def _expect_changelog(self, changes: list[Any], _columns: None) -> None:
        latest = self._latest()
        found = list(self._changes(self.next_change)) if latest >= self.next_change else []
        self.next_change = latest + 1
        producer = self.case["options"].get("changelog-producer")
        if self.variant.compact_every_commit and producer == "full-compaction":
            return  # each compaction emits: there the schedule is the changelog
        rows = self._canonical(self._columns_of([row for _, row in changes], self._names))
        expected = [(kind, row) for (kind, _), row in zip(changes, rows, strict=True)]
        _compare(self._by_key(found), self._by_key(expected))

    def _readers(self) -> Sequence[Callable[[], pa.Table]]:
        return (self._by_scan, self._by_get, self._by_get_many)

    def _by_scan(self) -> pa.Table:
        return self.table.scan().to_arrow()

    def _by_get(self) -> pa.Table:
        found = [self.table.get(key) for key in self._known_keys()]
        rows = [row for row in found if row is not None]
        columns = {f.name: pa.array([r[f.name] for r in rows], f.type) for f in self._schema}
        return pa.table(columns, schema=self._schema)

    def _by_get_many(self) -> pa.Table:
        return self.table.get_many(self._known_keys()).select(self._names)

    def _changes(self, start: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for changes in self._changed(start):
            rows = self._canonical(changes.select(self._names))
            yield from zip(changes["_row_kind"].to_pylist(), rows, strict=True)

    def _changed(self, start: int) -> Iterator[pa.Table]:
        """The changes from a snapshot on, in order within a key."""
        yield from (pa.table(batch) for batch in self.table.changelog(start=start))

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self.case["columns"]]

    @property
    def _schema(self) -> pa.Schema:
        return schema_of(self.case)

    def _latest(self) -> int:
        latest = self.table.latest_snapshot()
        return 0 if latest is None else latest.id

    def _batch(self, changes: list[Any], target_columns: list[str] | None) -> pa.Table:
        names = target_columns or self._names
        # With target columns a delete lists only the key.
        rows = [row + [None] * (len(names) - len(row)) for _, row in changes]
        table = self._columns_of(rows, names)
        if not set(self.case["primary_key"]) <= set(table.column_names):
            return table  # target columns without the key, which must be refused
        key_columns = [table[name].to_pylist() for name in self.case["primary_key"]]
        self.keys += zip(*key_columns, strict=True)
        kinds = pa.array([kind for kind, _ in changes], pa.string())
        return table.append_column("_row_kind", kinds)

    def _columns_of(self, rows: list[list[Any]], names: Sequence[str]) -> pa.Table:
        types = [self._schema.field(name).type for name in names]
        columns = [arrow_array([row[i] for row in rows], t) for i, t in enumerate(types)]
        return pa.table(columns, names=list(names))

    def _canonical(self, table: pa.Table) -> list[tuple[Any, ...]]:
        return canonical_rows(table, self.case.get("unordered", ()))

    def _known_keys(self) -> list[dict[str, Any]]:
        """Every key ever written, also those gone since."""
        keys = [key for key in dict.fromkeys(self.keys) if None not in key]
        return [dict(zip(self.case["primary_key"], key, strict=True)) for key in keys]

    def _by_key(self, changes: Sequence[tuple[str, tuple[Any, ...]]]) -> dict[str, list[Any]]:
        """Changes are ordered within a key and free across keys."""
        positions = [self._names.index(name) for name in self.case["primary_key"]]
        grouped: dict[str, list[Any]] = {}
        for change in changes:
            grouped.setdefault(repr([change[1][p] for p in positions]), []).append(change)
        if self.case.get("unordered_changelog"):
            return {key: sorted(group, key=repr) for key, group in grouped.items()}
        return grouped


def schema_of(case: dict[str, Any]) -> pa.Schema:
    """The columns of a case's table; those of the key are not null."""
    key = set(case["primary_key"])
    columns = [(name, arrow_type(type_)) for name, type_ in case["columns"]]
    return pa.schema([pa.field(name, type_, name not in key) for name, type_ in columns])


def _create(case: dict[str, Any]) -> "lsmerge.Table":
    try:
        return lsmerge.create_table(
            f"memory://conformance-{next(_names)}",
            schema_of(case),
            case["primary_key"],
            partition_by=case["partition_keys"],
            options=case["options"],
        )
    except lsmerge.InvalidOptionError as error:
        if "not available" in str(error):
            raise NotAvailable(str(error)) from None
        raise


def _expect_refused_creation(case: dict[str, Any]) -> None:
    try:
        _create(case)
    except lsmerge.LsmergeError:
        return
    raise CaseFailed(f"{case['id']}: the table was created\n  {case['fact']}")


def _compare(found: object, expected: object) -> None:
    if found != expected:
        raise CaseFailed(f"\n  expected {expected}\n  found    {found}")


def _report(case: dict[str, Any], variant: Variant) -> str:
    """Run a case and say how it went, in one word and a reason."""
    try:
        run_case(case, variant)
    except NotAvailable as refusal:
        return f"not available  {case['id']}: {refusal}"
    except (CaseFailed, lsmerge.LsmergeError) as failure:
        return f"FAILED  {case['id']}: {failure}"
    return f"passed  {case['id']}"


def main(arguments: Sequence[str]) -> int:
    """The command line; exits 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-k", dest="prefix", default="", help="only cases whose id starts so")
    parser.add_argument("--compact-every-commit", action="store_true")
    given = parser.parse_args(arguments)
    variant = Variant(given.compact_every_commit)
    cases = [case for file in given.files for case in load_cases(file)]
    lines = [_report(case, variant) for case in cases if case["id"].startswith(given.prefix)]
    print("\n".join(lines))
    words = ("passed", "not available", "FAILED")
    counts = {word: sum(line.startswith(word) for line in lines) for word in words}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
