"""The comparison as a Markdown table: one line per kind of work, one column per store."""

from typing import Any

from bench.registry import entry

OURS = "lsmerge"

# Figure, heading, unit divisor and unit. Of a size, smaller is better.
LINES = (
    ("ingest_rows_per_s", "ingest, durable commits", 1e3, "k rows/s"),
    ("small_upsert_rows_per_s", "small upsert", 1e3, "k rows/s"),
    ("scan_rows_per_s", "merged full scan", 1e6, "M rows/s"),
    ("scan_end_rows_per_s", "full scan, at the end*", 1e6, "M rows/s"),
    ("gets_per_s", "single get, warm", 1e3, "k/s"),
    ("get_many_rows_per_s", "get_many", 1e3, "k rows/s"),
    ("compact_rows_per_s", "full compaction", 1e3, "k rows/s"),
    ("size_bytes", "size on disk", 1e6, "MB"),
    ("size_end_bytes", "size on disk, at the end*", 1e6, "MB"),
    ("peak_rss_bytes", "peak memory of the process", 1e6, "MB"),
)


def table_of(document: dict[str, Any]) -> str:
    """Figures of every store; in brackets how lsmerge compares with it."""
    stores = list(document["best"])
    head = ["work", "unit", *stores]
    lines = [
        _title(document),
        "",
        _row(head),
        _row(["---", "---", *("---:" for _ in stores)]),
        *(_line(document["best"], stores, *line) for line in LINES),
        "",
        "\\* after the small upsert, compacted and rid of old files by those stores that can be.",
        "",
        *_notes(document),
    ]
    return "\n".join(lines)


def _title(document: dict[str, Any]) -> str:
    return (
        f"{document['rows']:,} rows, then 5 upserts of {document['rows'] // 5:,}; best of "
        f"{document['repeat']}. In brackets: rate of {OURS} / rate of the peer (higher is better "
        f"for {OURS}), for bytes {OURS} / peer (lower is better)."
    )


def _line(
    best: dict[str, dict[str, float]],
    stores: list[str],
    figure: str,
    heading: str,
    divisor: float,
    unit: str,
) -> str:
    ours = best.get(OURS, {}).get(figure)
    cells = [_cell(name, best[name].get(figure), ours, divisor) for name in stores]
    return _row([heading, unit, *cells])


def _cell(name: str, value: float | None, ours: float | None, divisor: float) -> str:
    if value is None:
        return "-"
    text = _short(value / divisor)
    if name == OURS or ours is None:
        return text
    return f"{text} ({_short(ours / value)}x)"


def _short(number: float) -> str:
    """Three significant digits, without an exponent."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}" if number >= 0.001 else f"{number:.1g}"


def _notes(document: dict[str, Any]) -> list[str]:
    notes = []
    for name, store in document["stores"].items():
        remarks = [store["note"]] if store["note"] else []
        if store["runs"] < document["repeat"]:
            remarks.append(f"only {store['runs']} of {document['repeat']} rounds")
        if entry(name).gets < 1_000:
            remarks.append(f"only {entry(name).gets} single gets")
        notes.append(f"- {name} {store['version']}" + "".join(f"; {r}" for r in remarks))
    notes += [f"- skipped: {name}: {why}" for name, why in document["skipped"].items()]
    return notes


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
