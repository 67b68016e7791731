"""The trees: for each bucket its runs, newest on top, with their sizes and the keys they cover.

Only so many buckets, runs and files are drawn as a reader can take in; of a table with more the largest buckets are
drawn, and a map shows them all.
"""

from collections.abc import Sequence

from lsmerge.report import wording
from lsmerge.report.axis import Axis
from lsmerge.report.drawing import Piece, legend, strip
from lsmerge.report.figures import Bucket, File
from lsmerge.report.markup import Content, Markup, element
from lsmerge.report.overlap import overlap, visible

MAX_BUCKETS = 12
MAX_RUNS = 12
MAX_PIECES = 24
MAX_CELLS = 240
DEEPEST_SHADE = 5

Run = Sequence[File]


def trees(buckets: Sequence[Bucket]) -> Content:
    """All buckets, or the largest of them."""
    if not buckets:
        return element("p", "The table holds no files.")
    drawn = _largest(buckets)
    largest_run = max(_size(run) for bucket in drawn for run in bucket.runs)
    cards = [_bucket(bucket, largest_run) for bucket in drawn]
    colours = legend(
        ("newest", "level 0, just written"),
        ("between", "levels between"),
        ("oldest", "oldest run of the bucket"),
        ("deep4", "overlap: many runs hold the same keys"),
    )
    return [colours, _map(buckets, len(drawn)), element("div", cards, class_="buckets")]


def _largest(buckets: Sequence[Bucket]) -> list[Bucket]:
    """The largest ones, in the order of the table."""
    by_size = sorted(range(len(buckets)), key=lambda i: -buckets[i].size_bytes)
    return [buckets[i] for i in sorted(by_size[:MAX_BUCKETS])]


# ---------------------------------------------------------------------------------------- all at once


def _map(buckets: Sequence[Bucket], drawn: int) -> Content:
    """A cell for each bucket, or for neighbours together where there are very many."""
    if len(buckets) <= drawn:
        return None
    step = -(-len(buckets) // MAX_CELLS)
    groups = [buckets[start : start + step] for start in range(0, len(buckets), step)]
    each = "bucket" if step == 1 else f"{step} buckets"
    return [
        element(
            "p",
            f"{wording.counted(len(buckets), 'bucket')}; the {drawn} largest are drawn below. A cell stands for "
            f"{each}; its number is how many sorted runs a read has to merge there.",
        ),
        element("ul", map(_cell, groups), class_="map", aria_label="Sorted runs of all buckets"),
    ]


def _cell(group: Sequence[Bucket]) -> Markup:
    runs = max(len(bucket.runs) for bucket in group)
    name = group[0].name if len(group) == 1 else f"{group[0].name} to {group[-1].name}"
    size = wording.size(sum(bucket.size_bytes for bucket in group))
    label = f"{name}: {wording.counted(runs, 'run')} at most, {size}"
    return element("li", runs, class_=f"deep{_shade(runs)}", title=label)


# ------------------------------------------------------------------------------------------ one bucket


def _bucket(bucket: Bucket, largest_run: int) -> Markup:
    axis = Axis([key for file in bucket.files for key in (file.low, file.high)])
    last = bucket.runs[-1][0].level
    facts = (
        wording.size(bucket.size_bytes),
        f"{wording.number(bucket.rows)} stored rows",
        wording.counted(len(bucket.files), "file"),
        wording.counted(len(bucket.runs), "run"),
        f"space amplification {bucket.space_amplification:.1f}",
    )
    return element(
        "article",
        element("h3", bucket.name),
        element("p", " · ".join(facts), class_="facts"),
        _overlap(bucket, axis),
        element("ol", _runs(bucket.runs, axis, last, largest_run), class_="runs"),
        _ends(bucket, axis),
        class_="bucket",
    )


def _runs(runs: Sequence[Run], axis: Axis, last_level: int, largest_run: int) -> list[Markup]:
    """All runs; of very many the newest and the oldest, which is the largest."""
    drawn = [_run(run, axis, last_level, largest_run) for run in (*runs[: MAX_RUNS - 1], runs[-1])]
    between = runs[MAX_RUNS - 1 : -1]
    if len(runs) < MAX_RUNS:
        return drawn[:-1]
    return [*drawn[:-1], _left_out(between), drawn[-1]] if between else drawn


def _run(run: Run, axis: Axis, last_level: int, largest_run: int) -> Markup:
    level, size = run[0].level, _size(run)
    style = "newest" if level == 0 else "oldest" if level == last_level else "between"
    told = f"level {level}: {wording.size(size)} in {wording.counted(len(run), 'file')}"
    pieces = [
        Piece(
            axis.position(files[0].low),
            axis.position(files[-1].high),
            f"{style} part{i % 2}",
            _told(files),
        )
        for i, files in enumerate(_neighbours(run))
    ]
    share = size / largest_run if largest_run else 0.0
    return element(
        "li",
        element("span", f"L{level}", class_="level"),
        strip(pieces, f"Keys of {told}"),
        strip([Piece(0, share, style, told)], f"Size of {told}", kind="strip bar"),
        element("span", wording.size(size), class_="size"),
    )


def _neighbours(run: Run) -> list[Run]:
    """Files of a run, joined with their neighbours where there are too many to be told apart."""
    step = -(-len(run) // MAX_PIECES)
    return [run[start : start + step] for start in range(0, len(run), step)]


def _told(files: Run) -> str:
    keys = f"keys {wording.key(files[0].low)} to {wording.key(files[-1].high)}"
    rows = wording.number(sum(file.rows for file in files))
    which = "" if len(files) == 1 else f"{len(files)} files, "
    return f"{which}{wording.size(_size(files))}, {rows} rows, {keys}"


def _left_out(runs: Sequence[Run]) -> Markup:
    """What stands for runs that are not drawn."""
    size = wording.size(sum(map(_size, runs)))
    return element(
        "li",
        element("span", "⋮", class_="level"),
        element("span", f"{wording.counted(len(runs), 'run')} between", class_="facts"),
        element("span", size, class_="size last"),
    )


def _ends(bucket: Bucket, axis: Axis) -> Content:
    """The smallest and the largest key, below the strips that they are the ends of."""
    files = bucket.files
    low = min(files, key=lambda file: axis.position(file.low)).low
    high = max(files, key=lambda file: axis.position(file.high)).high
    scale = "to scale" if axis.is_to_scale else "in their order"
    return element(
        "p",
        element("span", wording.key(low)),
        element("span", f"keys, {scale}", class_="scale"),
        element("span", wording.key(high)),
        class_="ends",
    )


def _overlap(bucket: Bucket, axis: Axis) -> Markup:
    """How many runs cover which keys: what a read there has to merge."""
    found = overlap(
        [[(axis.position(f.low), axis.position(f.high)) for f in run] for run in bucket.runs]
    )
    pieces = [
        Piece(start, stop, f"deep{_shade(depth)}", f"{wording.counted(depth, 'run')} here")
        for start, stop, depth in visible(found)
        if depth
    ]
    label = f"Overlap: up to {wording.counted(found.deepest, 'run')} hold the same keys"
    return element(
        "div",
        element("span", "overlap", class_="level"),
        strip(pieces, label, min_width=1),
        element("span", f"≤ {found.deepest}", class_="size"),
        class_="overlap",
    )


def _shade(depth: int) -> int:
    return min(depth, DEEPEST_SHADE)


def _size(run: Run) -> int:
    return sum(file.size_bytes for file in run)
