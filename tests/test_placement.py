"""Law 1: placement does not matter.

The same rows, cut into commits, runs, files, blocks, windows and buckets in any way, and compacted
at any time, read the same: as the model says, which knows of none of these. A failure prints the
rows and the schedule that lead to it. LSMERGE_EXAMPLES=1000 makes a long run of it.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmerge
from lsmerge.engine import merging
from lsmerge.options import resolve
from tests.custom_mergers import options_of
from tests.model import KINDS, Key, Model
from tests.model_engines import ADDS, Change, Row
from tests.searches import examples

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
    """A table to try: its options, the row kinds it takes, and columns of which only deletes lack a value."""

    options: dict[str, str]
    kinds: Sequence[str] = KINDS
    ordering: Sequence[str] = ()
    targets: bool = False
    """Whether some commits write some columns only."""


def functions(**names: str) -> dict[str, str]:
    return {f"fields.{column}.aggregate-function": name for column, name in names.items()}


SEQUENCE = {"sequence.field": "s"}
DESCENDING = {"sequence.field": "s", "sequence.field.sort-order": "descending"}
PADDED = SEQUENCE | {"sequence.auto-padding": "row-kind-flag,millis-to-micro"}
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
TOTALS = functions(n="sum", p="sum", v="last_value")
EXTREMES = functions(n="min", p="sum", d="max", f="bool_or", v="last_value", w="max")
AGGREGATION = {"merge-engine": "aggregation"}
COMMIT_TIME = {"record.merge.mode": "commit-time-ordering"}
EVENT_TIME = {"record.merge.mode": "event-time-ordering", "record.merge.ordering-fields": "s"}
TWO_FIELDS = EVENT_TIME | {"record.merge.ordering-fields": "s,g"}
MARKED = {"record.merge.delete-field": "f", "record.merge.delete-marker": "true"}
IGNORE_DEFAULTS = {"record.merge.partial-mode": "ignore-defaults"}
UNAVAILABLE = "not sent"
FILL_UNAVAILABLE = {
    "record.merge.partial-mode": "fill-unavailable",
    "record.merge.unavailable-value": UNAVAILABLE,
}
COMBINED = {"record.merge.combine-before-upsert": "true"}
AGGREGATION_REMOVING = AGGREGATION | {"aggregation.remove-record-on-delete": "true"}

SUBJECTS = {
    "deduplicate": Subject({}),
    "deduplicate-sequence": Subject(DESCENDING),
    "deduplicate-padded": Subject(PADDED),
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
    "aggregation-totals-sequence": Subject(AGGREGATION | TOTALS | DESCENDING),
    "aggregation-extremes-sequence": Subject(AGGREGATION | EXTREMES | SEQUENCE, ADDS),
    "group-totals": Subject(ONE_GROUP | TOTALS),
    "group-extremes": Subject(ONE_GROUP | EXTREMES | SEQUENCE, ADDS),
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
    "commit-time": Subject(COMMIT_TIME | MARKED),
    "commit-time-ignoring-defaults": Subject(COMMIT_TIME | IGNORE_DEFAULTS | MARKED),
    "commit-time-unavailable": Subject(COMMIT_TIME | FILL_UNAVAILABLE),
    "event-time": Subject(EVENT_TIME, ordering=["s"]),
    "event-time-two-fields": Subject(TWO_FIELDS | MARKED, ordering=["s", "g"]),
    "event-time-ignoring-deletes": Subject(EVENT_TIME | {"ignore-delete": "true"}, ordering=["s"]),
    "event-time-ignoring-defaults": Subject(EVENT_TIME | IGNORE_DEFAULTS, ordering=["s"]),
    "event-time-unavailable": Subject(TWO_FIELDS | FILL_UNAVAILABLE, ordering=["s", "g"]),
    "event-time-combined": Subject(EVENT_TIME | IGNORE_DEFAULTS | COMBINED, ordering=["s"]),
    "event-time-unavailable-combined": Subject(
        TWO_FIELDS | FILL_UNAVAILABLE | COMBINED | MARKED, ordering=["s", "g"]
    ),
    "aggregation-own": Subject(AGGREGATION | functions(n="own_lopsided", p="own_xor"), ADDS),
    "aggregation-own-taking-back": Subject(AGGREGATION | functions(n="own_xor", p="own_xor")),
    "group-own": Subject(ONE_GROUP | functions(n="own_lopsided", p="own_xor"), ADDS),
    "custom-associative": Subject(options_of("Adding")),
    "custom-associative-sequence": Subject(options_of("Adding") | DESCENDING),
    "custom-associative-batches": Subject(options_of("AddingBatches")),
    "custom-not-associative": Subject(options_of("Lopsided")),
    "custom-not-associative-sequence": Subject(options_of("Lopsided") | SEQUENCE),
    "custom-not-associative-batches": Subject(options_of("LopsidedBatches")),
    "custom-not-associative-adds": Subject(options_of("LopsidedWithoutDeletes")),
    "custom-by-event": Subject(options_of("ByEvent") | {"record.merge.ordering-fields": "g"}),
    "custom-partial": Subject(options_of("Steps")),
    "custom-partial-forgetting": Subject(options_of("StepsForgettingDeletes")),
    "custom-partial-adds": Subject(options_of("StepsWithoutDeletes")),
}

ALLOWING = {"delete.behavior": "allow"}
TARGETED = {
    "deduplicate": Subject({}, targets=True),
    "deduplicate-adding": Subject({}, ADDS, targets=True),
    "deduplicate-sequence": Subject(DESCENDING, targets=True),
    "deduplicate-ignoring": Subject({"ignore-delete": "true"}, targets=True),
    "partial": Subject(PARTIAL, ADDS, targets=True),
    "partial-removing": Subject(REMOVING, targets=True),
    "groups": Subject(GROUPS, targets=True),
    "aggregation-adding": Subject(AGGREGATION | ADDING, ADDS, targets=True),
    "aggregation-adding-too": Subject(AGGREGATION | ADDING_TOO, ADDS, targets=True),
    "aggregation-adding-sequence": Subject(AGGREGATION | ADDING_TOO | SEQUENCE, ADDS, targets=True),
    "aggregation-taking-back": Subject(AGGREGATION | TAKING_BACK, targets=True),
    "aggregation-totals-sequence": Subject(AGGREGATION | TOTALS | SEQUENCE, targets=True),
    "aggregation-picking-sequence": Subject(
        AGGREGATION | functions(v="last_value") | DESCENDING, targets=True
    ),
    "aggregation-allowing": Subject(AGGREGATION | ADDING | ALLOWING, targets=True),
    "aggregation-allowing-too": Subject(AGGREGATION | ADDING_TOO | ALLOWING, targets=True),
    "aggregation-allowing-picking": Subject(
        AGGREGATION | functions(v="last_value", n="last_value") | ALLOWING, targets=True
    ),
    "aggregation-allowing-picking-sequence": Subject(
        AGGREGATION | functions(v="last_value", n="last_value") | ALLOWING | SEQUENCE, targets=True
    ),
    "aggregation-allowing-sequence": Subject(
        AGGREGATION | ADDING_TOO | SEQUENCE | ALLOWING, targets=True
    ),
}
TARGETED |= {
    "commit-time": Subject(COMMIT_TIME, targets=True),
    "event-time": Subject(EVENT_TIME, ordering=["s"], targets=True),
    "event-time-ignoring-defaults": Subject(
        EVENT_TIME | IGNORE_DEFAULTS, ordering=["s"], targets=True
    ),
}
SUBJECTS |= {f"targets-{name}": subject for name, subject in TARGETED.items()}
# With the column that may order the rows of a key.
TARGETS = (
    None,
    ("k", "s", "n", "v"),
    ("k", "s", "g", "h", "p"),
    ("d", "k", "s", "f", "w"),
    ("k", "s"),
)


@dataclass(frozen=True)
class Placement:
    """How rows become files, and files are read."""

    buckets: int
    file_format: str
    is_fine: bool
    window_rows: int
    value_length: int
    upkeep: dict[str, str]
    """Who compacts beside the schedule, and when."""
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
            **self.upkeep,
            **(fine if self.is_fine else {}),
        }


UPKEEP: list[dict[str, str]] = [
    {"write-only": "true"},
    {},
    {"num-sorted-run.compaction-trigger": "2"},
    {"full-compaction.delta-commits": "2"},
    {"compaction.mode": "background"},
]
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
    upkeep=st.sampled_from(UPKEEP),
    cuts=st.lists(
        st.tuples(st.integers(1, 25), st.sampled_from(["", "", "minor", "full", "sort"])),
        max_size=6,
    ),
)


def changes_of(
    subject: Subject,
    drafts: Sequence[Draft],
    value_length: int,
    targets: Sequence[Sequence[str] | None] = (None,),
) -> list[Change]:
    """Every text is new, so that a wrong winner shows, and as long as asked.

    A list of target columns holds for two changes, and may hold for the next two as well.
    """
    changes = []
    for number, (kind, values) in enumerate(drafts):
        text = str(number) + random.Random(number).randbytes(value_length // 2).hex()
        texts = {name: values[name] and f"{name}{text}" for name in ("v", "w")}
        if number % 3 == 0 and UNAVAILABLE in subject.options.values():
            texts["v"] = UNAVAILABLE
        taken = subject.kinds[KINDS.index(kind) % len(subject.kinds)]
        columns = targets[number // 2 % len(targets)] if subject.targets else None
        row = {**values, **texts}
        for name in subject.ordering:
            # Only a delete of whole rows may be without a place in the order.
            if (taken in ADDS or columns is not None) and row[name] is None:
                row[name] = 0
        if "sequence.auto-padding" in subject.options and row["s"] is None:
            row["s"] = 0  # a padded sequence must have a value
        if columns is not None:
            row = {name: row[name] if name in columns else None for name in row}
        changes.append(Change(taken, row, columns))
    return changes


def cut(changes: Sequence[Change], placement: Placement) -> Iterator[tuple[Sequence[Change], str]]:
    """The commits, and what follows each."""
    rest = list(changes)
    for count, action in [*placement.cuts, (len(rest), "")]:
        yield rest[:count], action
        rest = rest[count:]


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
    for commit, action in cut(changes, placement):
        for columns, part in itertools.groupby(commit, key=lambda change: change.columns):
            table.write(arrow_of(list(part), columns), columns=columns)
        if action == "sort" and placement.buckets == -1:
            table.sort_compact(["n", "v"], order="zorder", buckets=3)
        elif action:
            table.compact(full=action == "full")
    return table


def arrow_of(changes: Sequence[Change], columns: Sequence[str] | None = None) -> pa.Table:
    """In chunks, as each may overflow the writer's buffer."""
    rows = pa.Table.from_pylist([change.row for change in changes], schema=SCHEMA)
    rows = rows.select(columns or SCHEMA.names)
    kinds = pa.array([change.kind for change in changes], pa.string())
    whole = rows.append_column("_row_kind", kinds)
    return pa.Table.from_batches(whole.to_batches(max_chunksize=3), whole.schema)


def modelled(
    subject: Subject,
    changes: Sequence[Change],
    placement: Placement,
    partition_by: Sequence[str] = (),
) -> dict[Key, Row]:
    """The model's rows. Of a placement it may know the commits, and nothing else."""
    model = Model(SCHEMA.names, ["k"], resolve(subject.options), partition_by=partition_by)
    if not model.rules.is_on("record.merge.combine-before-upsert"):
        model.commit(changes, 1)
        return model.rows()
    for number, (commit, _) in enumerate(cut(changes, placement), start=1):
        model.commit(commit, number)
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
@settings(max_examples=examples(2))
@given(
    drafts=CHANGES,
    placement=PLACEMENTS,
    column=st.sampled_from(SCHEMA.names),
    targets=st.lists(st.sampled_from(TARGETS), min_size=1, max_size=5),
)
def test_placement_does_not_matter(name, drafts, placement, column, targets):
    subject = SUBJECTS[name]
    changes = changes_of(subject, drafts, placement.value_length, targets)
    with pytest.MonkeyPatch.context() as patch:
        # A real window holds far more rows than an example: without this none would ever end.
        patch.setattr(merging, "_window_rows", lambda _context, _blocks: placement.window_rows)
        expected = modelled(subject, changes, placement)
        with placed(subject, changes, placement) as table:
            check_reads(table, expected, column)


CROSSING = [
    name
    for name, subject in SUBJECTS.items()
    if not any(o.startswith(("sequence.field", "record.merge")) for o in subject.options)
    and not subject.targets
    and name not in ("versioned", "groups-removing", "groups-removing-twice")
]


@pytest.mark.parametrize("name", CROSSING)
@settings(max_examples=examples(1, 1 / 3))
@given(drafts=CHANGES, placement=PLACEMENTS, column=st.sampled_from(SCHEMA.names))
def test_a_key_lives_in_one_partition(name, drafts, placement, column):
    subject = SUBJECTS[name]
    placement = replace(placement, buckets=-1)
    changes = changes_of(subject, drafts, placement.value_length)
    expected = modelled(subject, changes, placement, ["s"])
    with placed(subject, changes, placement, ["s"]) as table:
        check_reads(table, expected, column)


@pytest.mark.parametrize("name", ["deduplicate", "first-row", "partial", "aggregation-taking-back"])
@settings(max_examples=examples(1, 1 / 3))
@given(drafts=CHANGES, cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_a_commit_takes_its_turn_after_the_rival_it_meets(name, drafts, cuts):
    subject = SUBJECTS[name]
    changes = changes_of(subject, drafts, 0)
    low, high = sorted(min(cut, len(changes)) for cut in cuts)
    before, theirs, late = changes[:low], changes[low:high], changes[high:]
    # A retract without a partition looks for its key when it comes, not when it is committed.
    ours = [c for c in late if c.kind in ADDS or c.row["s"] is not None]
    placement = Placement(-1, "arrow", False, 1000, 0, {}, ())
    table = placed(subject, before, placement, ["s"])
    with table.writer() as writer:
        writer.write(arrow_of(ours))
        if theirs:
            lsmerge.open_table(table.uri).write(arrow_of(theirs))
    expected = modelled(subject, [*before, *theirs, *ours], placement, ["s"])
    check_reads(table, expected, "k")


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
TIMED = {"k": pa.int32(), "s": pa.int32(), "a": pa.string()}
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
    # The untimed delete does away with the delete at 8; the one at 3 came after it.
    "smaller-delete-behind-an-untimed-one": Found(
        EVENT_TIME | IGNORE_DEFAULTS,
        TIMED,
        [[("-D", 1, 8, None), ("-D", 1, None, None), ("-D", 1, 3, None)], [("+I", 1, 2, "late")]],
        [],
    ),
    # Rows that an untimed delete lets in are in the order of their times.
    "late-row-behind-an-untimed-delete": Found(
        EVENT_TIME,
        TIMED,
        [[("+I", 1, 9, "a")], [("-D", 1, None, None), ("+I", 1, 5, "b"), ("+I", 1, 4, "c")]],
        [(1, 5, "b")],
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
