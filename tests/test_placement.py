"""Law 1: placement does not matter.

The same rows, cut into commits, runs, files, blocks, windows and buckets in any way, and compacted
at any time, read the same: as the model says, which knows of none of these. A failure prints the
rows and the schedule that lead to it. LSMERGE_EXAMPLES=1000 makes a long run of it.
"""

import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import merging
from lsmerge.options import resolve
from tests.model import KINDS, Key, Model
from tests.model_engines import ADDS, Change, Row

EXAMPLES = int(os.environ.get("LSMERGE_EXAMPLES", "12"))
SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("s", pa.int32()),
        pa.field("g", pa.int32()),
        pa.field("h", pa.int32()),
        pa.field("n", pa.int64()),
        pa.field("p", pa.int64()),
        pa.field("d", pa.float64()),
        pa.field("f", pa.bool_()),
        pa.field("v", pa.string()),
        pa.field("w", pa.string()),
    ]
)
_uris = (f"memory://placement-{number}" for number in itertools.count(1))


@dataclass(frozen=True)
class Subject:
    """A table to try: its options and the row kinds it takes."""

    options: dict[str, str]
    kinds: Sequence[str] = KINDS


def functions(**names: str) -> dict[str, str]:
    return {f"fields.{column}.aggregate-function": name for column, name in names.items()}


SEQUENCE = {"sequence.field": "s"}
DESCENDING = {"sequence.field": "s", "sequence.field.sort-order": "descending"}
PARTIAL = {"merge-engine": "partial-update"}
REMOVING = PARTIAL | {"partial-update.remove-record-on-delete": "true"}
GROUPS = PARTIAL | {"fields.g.sequence-group": "n,v", "fields.h.sequence-group": "w"}
ONE_GROUP = PARTIAL | {"fields.g,h.sequence-group": "n,p,d,f,v,w"}
GROUP_REMOVING = GROUPS | {"partial-update.remove-record-on-sequence-group": "g"}
TAKING_BACK = functions(n="sum", p="product", d="sum", v="last_value", w="last_non_null_value")
ADDING = functions(
    n="max", p="product", d="min", f="bool_or", v="first_non_null_value", w="listagg"
)
ADDING_TOO = functions(n="min", p="sum", d="product", f="bool_and", v="first_value", w="max")
AGGREGATION = {"merge-engine": "aggregation"}
AGGREGATION_REMOVING = AGGREGATION | {"aggregation.remove-record-on-delete": "true"}

SUBJECTS = {
    "deduplicate": Subject({}),
    "deduplicate-sequence": Subject(DESCENDING),
    "first-row": Subject({"merge-engine": "first-row"}, ADDS),
    "first-row-ignoring": Subject({"merge-engine": "first-row", "ignore-delete": "true"}),
    "versioned": Subject(
        {"merge-engine": "versioned", "merge-engine.versioned.ver-column": "s"}, KINDS
    ),
    "partial": Subject(PARTIAL, ADDS),
    "partial-sequence": Subject(PARTIAL | SEQUENCE, ADDS),
    "partial-removing": Subject(REMOVING),
    "partial-removing-sequence": Subject(REMOVING | SEQUENCE),
    "groups": Subject(GROUPS),
    "groups-sequence": Subject(GROUPS | DESCENDING),
    "groups-removing": Subject(GROUP_REMOVING),
    "groups-removing-sequence": Subject(GROUP_REMOVING | SEQUENCE),
    "groups-removing-twice": Subject(
        GROUPS | {"partial-update.remove-record-on-sequence-group": "g,h"}
    ),
    "group-taking-back": Subject(ONE_GROUP | TAKING_BACK),
    "group-adding": Subject(ONE_GROUP | ADDING, ADDS),
    "group-adding-too": Subject(ONE_GROUP | ADDING_TOO, ADDS),
    "group-ignoring": Subject(
        ONE_GROUP | TAKING_BACK | functions(w="listagg") | {"fields.w.ignore-retract": "true"}
    ),
    "aggregation-adding": Subject(AGGREGATION | ADDING, ADDS),
    "aggregation-adding-too": Subject(AGGREGATION | ADDING_TOO, ADDS),
    "aggregation-adding-sequence": Subject(AGGREGATION | ADDING | SEQUENCE, ADDS),
    "aggregation-taking-back": Subject(AGGREGATION | TAKING_BACK),
    "aggregation-taking-back-sequence": Subject(AGGREGATION | TAKING_BACK | SEQUENCE),
    "aggregation-picking": Subject(AGGREGATION | functions(v="last_value")),
    "aggregation-picking-sequence": Subject(AGGREGATION | functions(v="last_value") | DESCENDING),
    "aggregation-ignoring": Subject(
        AGGREGATION | functions(n="sum", w="listagg") | {"fields.w.ignore-retract": "true"}
    ),
    "aggregation-removing": Subject(AGGREGATION_REMOVING | TAKING_BACK),
    "aggregation-removing-sequence": Subject(
        AGGREGATION_REMOVING | functions(v="last_value") | SEQUENCE
    ),
    "aggregation-allowing": Subject(AGGREGATION | ADDING | {"delete.behavior": "allow"}),
    "aggregation-allowing-sequence": Subject(
        AGGREGATION | ADDING_TOO | SEQUENCE | {"delete.behavior": "allow"}
    ),
}


@dataclass(frozen=True)
class Placement:
    """How rows become files, and files are read."""

    buckets: int
    file_format: str
    is_fine: bool
    window_rows: int
    value_length: int
    cuts: Sequence[tuple[int, str]]
    """Rows of each commit, and what follows it. Rows left over make the last commit."""

    @property
    def options(self) -> dict[str, str]:
        fine = {"write-buffer-size": "4 kb", "file.block-size": "4 kb", "target-file-size": "4 kb"}
        dynamic = {"dynamic-bucket.target-row-num": "2", "dynamic-bucket.max-buckets": "4"}
        return {
            "bucket": str(self.buckets),
            **(dynamic if self.buckets == -1 else {}),
            "file.format": self.file_format,
            "num-sorted-run.compaction-trigger": "3",
            **(fine if self.is_fine else {}),
        }


Draft = tuple[str, Row]
COLUMNS: dict[str, Sequence[object]] = {
    "k": range(3),
    "s": [None, -1, 0, 1, 2],
    "g": [None, 0, 1, 2, 3],
    "h": [None, 0, 1, 2],
    "n": [None, -2, 1, 3],
    # Never 0, which cannot be taken back from a product; few enough not to overflow.
    "p": [None, -1, 2, 3],
    "d": [None, -1.0, 2.0, 4.0],
    "f": [None, False, True],
    "v": [None, "v"],
    "w": [None, "w"],
}


def many_drafts(seed: int) -> list[Draft]:
    """Enough rows to fill buffers and blocks, without a decision of Hypothesis for each."""
    draw = random.Random(seed)
    num_keys, most_rows = draw.choice([(1, 20), (3, 30), (12, 90)])
    values = {**COLUMNS, "k": range(num_keys)}
    # Keys without a retract in a commit take other paths; where half are retracts there are none.
    weights = draw.choice([[1, 1, 1, 1], [8, 1, 8, 1]])
    return [
        (
            draw.choices(KINDS, weights)[0],
            {name: draw.choice(some) for name, some in values.items()},
        )
        for _ in range(draw.randint(4, most_rows))
    ]


DRAFTS = st.tuples(
    st.sampled_from(KINDS),
    st.fixed_dictionaries({name: st.sampled_from(some) for name, some in COLUMNS.items()}),
)
CHANGES = st.lists(DRAFTS, min_size=1, max_size=8) | st.builds(many_drafts, st.integers(0, 10_000))
PLACEMENTS = st.builds(
    Placement,
    buckets=st.sampled_from([1, 3, -1]),
    file_format=st.sampled_from(["arrow", "parquet"]),
    is_fine=st.booleans(),
    window_rows=st.sampled_from([1, 5, 1000]),
    value_length=st.sampled_from([0, 700]),
    cuts=st.lists(
        st.tuples(st.integers(1, 25), st.sampled_from(["", "", "minor", "full"])), max_size=6
    ),
)


def changes_of(subject: Subject, drafts: Sequence[Draft], value_length: int) -> list[Change]:
    """Every text is new, so that a wrong winner shows, and as long as asked."""
    changes = []
    for number, (kind, values) in enumerate(drafts):
        text = str(number) + random.Random(number).randbytes(value_length // 2).hex()
        texts = {name: values[name] and f"{name}{text}" for name in ("v", "w")}
        place = KINDS.index(kind) % len(subject.kinds)
        changes.append(Change(subject.kinds[place], {**values, **texts}))
    return changes


def placed(
    subject: Subject,
    changes: Sequence[Change],
    placement: Placement,
    partition_by: Sequence[str] = (),
) -> lsmerge.Table:
    """A table that holds the changes as the placement says."""
    options = subject.options | placement.options
    table = lsmerge.create_table(
        next(_uris), SCHEMA, ["k"], partition_by=partition_by, options=options
    )
    rest = list(changes)
    for count, action in [*placement.cuts, (len(rest), "")]:
        commit, rest = rest[:count], rest[count:]
        if commit:
            table.write(arrow_of(commit))
        if action:
            table.compact(full=action == "full")
    return table


def arrow_of(changes: Sequence[Change]) -> pa.Table:
    """In chunks, as each may overflow the writer's buffer."""
    rows = pa.Table.from_pylist([change.row for change in changes], schema=SCHEMA)
    kinds = pa.array([change.kind for change in changes], pa.string())
    whole = rows.append_column("_row_kind", kinds)
    return pa.Table.from_batches(whole.to_batches(max_chunksize=3), whole.schema)


def modelled(
    subject: Subject, changes: Sequence[Change], partition_by: Sequence[str] = ()
) -> dict[Key, Row]:
    model = Model(SCHEMA.names, ["k"], resolve(subject.options), partition_by=partition_by)
    model.commit(changes, 1)
    return model.rows()


def check_reads(table: lsmerge.Table, expected: dict[Key, Row], name: str) -> None:
    """By scan, whole and by a single column, by get and by get_many."""
    rows = table.scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["k"]) == [expected[key] for key in sorted(expected)]
    column = table.scan(columns=[name]).to_arrow()[name].to_pylist()
    assert sorted(map(repr, column)) == sorted(repr(row[name]) for row in expected.values())
    assert [table.get(key) for key in (0, 1)] == [expected.get((0,)), expected.get((1,))]
    keys = list(range(12, -2, -1))
    found = table.get_many([{"k": key} for key in keys]).to_pylist()
    assert found == [expected[key,] for key in keys if (key,) in expected]


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=EXAMPLES)
@given(drafts=CHANGES, placement=PLACEMENTS, column=st.sampled_from(SCHEMA.names))
def test_placement_does_not_matter(name, drafts, placement, column):
    subject = SUBJECTS[name]
    changes = changes_of(subject, drafts, placement.value_length)
    with pytest.MonkeyPatch.context() as patch:
        # A real window holds far more rows than an example: without this none would ever end.
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: placement.window_rows)
        check_reads(placed(subject, changes, placement), modelled(subject, changes), column)


CROSSING = [
    name
    for name, subject in SUBJECTS.items()
    if "sequence.field" not in subject.options
    and name not in ("versioned", "groups-removing", "groups-removing-twice")
]


@pytest.mark.parametrize("name", CROSSING)
@settings(max_examples=max(1, EXAMPLES // 3))
@given(drafts=CHANGES, placement=PLACEMENTS, column=st.sampled_from(SCHEMA.names))
def test_a_key_lives_in_one_partition(name, drafts, placement, column):
    subject = SUBJECTS[name]
    placement = replace(placement, buckets=-1)
    changes = changes_of(subject, drafts, placement.value_length)
    check_reads(
        placed(subject, changes, placement, ["s"]), modelled(subject, changes, ["s"]), column
    )


@pytest.mark.parametrize("name", ["deduplicate", "first-row", "partial", "aggregation-taking-back"])
@settings(max_examples=max(1, EXAMPLES // 3))
@given(drafts=CHANGES, cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_a_commit_takes_its_turn_after_the_rival_it_meets(name, drafts, cuts):
    subject = SUBJECTS[name]
    changes = changes_of(subject, drafts, 0)
    low, high = sorted(min(cut, len(changes)) for cut in cuts)
    before, theirs, late = changes[:low], changes[low:high], changes[high:]
    # A retract without a partition looks for its key when it comes, not when it is committed.
    ours = [c for c in late if c.kind in ADDS or c.row["s"] is not None]
    table = placed(subject, before, Placement(-1, "arrow", False, 1000, 0, ()), ["s"])
    with table.writer() as writer:
        writer.write(arrow_of(ours))
        if theirs:
            lsmerge.open_table(table.uri).write(arrow_of(theirs))
    check_reads(table, modelled(subject, [*before, *theirs, *ours], ["s"]), "k")


@dataclass(frozen=True)
class Found:
    """A case that once read differently when placed differently; every placement gives `visible`."""

    options: dict[str, str]
    columns: dict[str, pa.DataType]
    commits: Sequence[Sequence[tuple[object, ...]]]
    """Row kind and values of the rows of each commit."""
    visible: Sequence[tuple[object, ...]]


REMOVED_BY_GROUP = PARTIAL | {
    "fields.g.sequence-group": "a",
    "partial-update.remove-record-on-sequence-group": "g",
}
GROUPED = {"k": pa.int32(), "g": pa.int32(), "a": pa.string(), "x": pa.int32()}
SUMMED = {"k": pa.int32(), "a": pa.int8()}
SUM = AGGREGATION | functions(a="sum")
FOUND = {
    # Of the second commit x = 1 counts: the row with x = 2 is older than the removal.
    "picked-row-is-hidden-by-a-removal": Found(
        REMOVED_BY_GROUP,
        GROUPED,
        [
            [("-D", 1, 5, None, None)],
            [("+I", 1, 9, "a", 1), ("+I", 1, 10, "b", None), ("+I", 1, 3, "c", 2)],
        ],
        [(1, 10, "b", 1)],
    ),
    # In the order of s the -D comes after g = 9, so it is not accepted.
    "row-that-forbids-a-removal": Found(
        REMOVED_BY_GROUP | SEQUENCE,
        {"k": pa.int32(), "s": pa.int32(), "g": pa.int32(), "a": pa.string(), "x": pa.int32()},
        [
            [("+I", 1, 0, None, None, 7)],
            [("+I", 1, 1, 9, "a", None), ("+I", 1, 5, 9, "b", None)],
            [("-D", 1, 3, 7, None, None)],
        ],
        [(1, 5, 9, "b", 7)],
    ),
    # A row without a place in the group has nothing to do with what the group removed.
    "row-outside-the-group-after-a-removal": Found(
        REMOVED_BY_GROUP,
        GROUPED,
        [
            [("+I", 1, 1, "a", 1)],
            [("-D", 1, 5, None, None)],
            [("+I", 1, None, None, 2)],
        ],
        [(1, None, None, 2)],
    ),
    "sum-that-is-null-only-within-a-commit": Found(
        SUM | {"fields.a.on-overflow": "null"},
        SUMMED,
        [[("+I", 1, -100)], [("+I", 1, 100), ("+I", 1, 100)]],
        [(1, 100)],
    ),
    # The last commit alone adds -50.
    "sum-that-overflows-on-the-way": Found(
        SUM, SUMMED, [[("+I", 1, 100)], [("+I", 1, 50), ("+I", 1, -100)]], [(1, 50)]
    ),
}


def cuts_of(case: Found) -> dict[str, list[list[tuple[object, ...]]]]:
    rows = [row for commit in case.commits for row in commit]
    return {
        "as given": [list(commit) for commit in case.commits],
        "one commit": [rows],
        "a commit each": [[row] for row in rows],
    }


def outcome(case: Found, commits: Sequence[Sequence[tuple[object, ...]]], is_compacted: bool):
    """The visible rows, or why there are none."""
    fields = [pa.field(name, type_, name != "k") for name, type_ in case.columns.items()]
    table = lsmerge.create_table(next(_uris), pa.schema(fields), ["k"], options=case.options)
    names = ["_row_kind", *case.columns]
    try:
        for commit in commits:
            table.write([dict(zip(names, row, strict=True)) for row in commit])
            if is_compacted:
                table.compact(full=True)
        return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]
    except lsmerge.LsmergeError as error:
        return str(error)


@pytest.mark.parametrize("name", FOUND)
def test_found_once(name):
    case = FOUND[name]
    found = {
        (cut, is_compacted): outcome(case, commits, is_compacted)
        for cut, commits in cuts_of(case).items()
        for is_compacted in (False, True)
    }
    assert found == dict.fromkeys(found, case.visible)
