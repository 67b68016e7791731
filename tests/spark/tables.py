"""What the Spark tests share: writing a DataFrame, and looking at the table without Spark."""

from pathlib import Path

import lsmerge


def write(df, path, mode="append", **options):
    """`merge_engine="x"` stands for the option `merge-engine`."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    df.write.format("lsmerge").mode(mode).options(**named).save(str(path))


def rows_of(path, *columns) -> list[tuple]:
    """The rows of the table in order, each as a tuple."""
    with lsmerge.open_table(path) as table:
        names = columns or table.schema.names
        return sorted(
            (tuple(row[name] for name in names) for row in table.scan().to_arrow().to_pylist()),
            key=repr,
        )


def files_in(path: Path) -> set[str]:
    """Runs, changelog and index files, whether referred to or not."""
    patterns = ("data-*", "changelog-*", "index-*")
    return {file.name for pattern in patterns for file in Path(path).rglob(pattern)}


def orphans(path) -> tuple[str, ...]:
    with lsmerge.open_table(path) as table:
        return table.remove_orphan_files("0 s").files
