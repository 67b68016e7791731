"""H1, H2, H5, H6, H7: tables that mean harm, with checksums that fit, read under an audit hook.

`python -m tests.long.hostile CASE DIRECTORY` builds a table, forges it, and reads it in every way. It prints how the
readers were refused; an event that only an attack would raise ends the process with 3.
"""

import difflib  # noqa: F401 - a refusal looks for the nearest name
import json
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

import lsmerge
from lsmerge.meta import manifest as manifests
from lsmerge.storage import checked_json
from lsmerge.storage.checked_object import Seal
from lsmerge_native.checksum import crc32c
from tests.long.damage import SCHEMA, changes, expiry, kept, scan, tagged
from tests.long.figures import Tally
from tests.long.stages import scratch

FORBIDDEN = (
    "pickle.find_class",
    "exec",
    "compile",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "ctypes.dlopen",
    "socket.connect",
)
LIMIT_BYTES = 256 << 20


class Attack:
    """What a pickle would do if anybody loaded it."""

    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/lsmerge-was-attacked",)


def build(root: Path) -> None:
    options = {"bucket": "2", "changelog-producer": "lookup", "write-only": "true"}
    schema = pa.schema([pa.field("p", pa.string(), nullable=False), *SCHEMA])
    with lsmerge.create_table(
        str(root), schema, ["p", "k"], partition_by="p", options=options
    ) as table:
        for number in range(3):
            table.upsert([{"p": "a", "k": 1, "s": number, "v": "x"}])
        table.create_tag("old")
        for _ in table.changelog(consumer="reader"):
            pass


def newest(root: Path) -> Path:
    return max((root / "snapshot").glob("snapshot-*.json"))


def edit_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a file of JSON and sign it again."""
    content = checked_json.load(path.name, pa.py_buffer(path.read_bytes()))
    change(content)
    del content["format"]
    path.write_bytes(checked_json.dump(content))


def write_signed(path: Path, body: bytes) -> None:
    path.write_bytes(body + b"\ncrc32c %08x\n" % crc32c(body + b"\n"))


def edit_entries(root: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the entries of the newest manifest, and sign it and the snapshot again."""
    path = newest(root)
    content = checked_json.load(path.name, pa.py_buffer(path.read_bytes()))
    manifest = root / "manifest" / content["delta"]["name"]
    table = pa.ipc.open_file(manifest.read_bytes()).read_all()
    rows = table.to_pylist()
    for row in rows:
        change(row)
    data = manifests._serialise(pa.Table.from_pylist(rows, schema=table.schema))
    manifest.write_bytes(data)
    seal = Seal(data.size, crc32c(data))
    edit_json(
        path, lambda c: c["delta"].update({"size-bytes": seal.size_bytes, "crc32c": seal.crc})
    )


def set_option(root: Path, **options: str) -> None:
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    edit_json(root / "schema" / "schema-0.json", lambda c: c["options"].update(named))


def merger(name: str) -> Callable[[Path], None]:
    def forge(root: Path) -> None:
        set_option(root, record_merge_mode="CUSTOM", record_merge_strategy__id=name)

    return forge


def entry(**values: Any) -> Callable[[Path], None]:
    return lambda root: edit_entries(root, lambda row: row.update(values))


def linked(pattern: str) -> Callable[[Path], None]:
    def forge(root: Path) -> None:
        for path in sorted(root.glob(pattern)):
            elsewhere = root.parent / f"elsewhere-{path.name}"
            path.rename(elsewhere)
            path.symlink_to(elsewhere)

    return forge


def planted(pattern: str) -> Callable[[Path], None]:
    def forge(root: Path) -> None:
        for path in sorted(root.glob(pattern)):
            write_signed(path, pickle.dumps(Attack()))

    return forge


def snapshot(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda root: edit_json(newest(root), change)


def raw_snapshot(body: bytes) -> Callable[[Path], None]:
    return lambda root: write_signed(newest(root), body)


def many_columns(root: Path) -> None:
    columns = [{"id": n, "name": f"c{n}", "type": "int64", "nullable": True} for n in range(10**5)]
    edit_json(root / "schema" / "schema-0.json", lambda c: c["columns"].extend(columns))


def deep_type(root: Path) -> None:
    kind = "array<" * 5000 + "int" + ">" * 5000
    edit_json(root / "schema" / "schema-0.json", lambda c: c["columns"][1].update(type=kind))


CASES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda _root: None,
    "merger os.system": merger("os.system"),
    "merger builtins.eval": merger("builtins.eval"),
    "merger with attributes": merger("a.b:__class__"),
    "pickles as snapshots": planted("snapshot/*.json"),
    "pickles as tags and places": planted("[ct]*/**/*.json"),
    "pickles as manifests": planted("manifest/*"),
    "pickles as runs": planted("p=a/bucket-*/*"),
    "run outside": entry(name="../../../../../../etc/passwd"),
    "run absolute": entry(name="/etc/passwd"),
    "run with NUL": entry(name="data\0.arrow"),
    "partition outside": entry(partition='["../../../../tmp"]'),
    "partition of another shape": entry(partition='[["a"]]'),
    "partition of too many values": entry(partition='["a","b"]'),
    "partition of no value": entry(partition="[]"),
    "partition that is no JSON": entry(partition="__import__('os')"),
    "rows without end": entry(num_rows=2**62),
    "bytes without end": entry(size_bytes=2**62, index_offset=1),
    "tail before the file": entry(index_offset=-1),
    "bucket without end": entry(bucket=2**31 - 1),
    "level below all": entry(level=-5),
    "manifest outside": snapshot(lambda c: c["delta"].update(name="../schema/schema-0.json")),
    "a million manifests": snapshot(lambda c: c.update(base=[c["delta"]] * 10**5)),
    "next sequence without end": snapshot(lambda c: c.update({"next-sequence": 2**63 - 1})),
    "numbers that are none": snapshot(lambda c: c.update(id="1e3")),
    "deep JSON": raw_snapshot(b"[" * 10**6 + b"]" * 10**6),
    "huge number": raw_snapshot(b'{"format": 1, "id": ' + b"9" * 10**6 + b"}"),
    "not a number": raw_snapshot(b'{"format": 1, "id": NaN}'),
    "a key twice": raw_snapshot(b'{"format": 1, "id": 3, "id": 4}'),
    "many columns": many_columns,
    "deep type": deep_type,
    "linked runs": linked("p=a/bucket-*/*"),
    "linked snapshots": linked("snapshot/*.json"),
    "linked manifests": linked("manifest/*"),
    "linked directory": linked("manifest"),
    "unknown option": lambda root: set_option(root, evil="1"),
    "option out of range": lambda root: set_option(root, bucket="10000000000000"),
}


def watch(root: Path) -> None:
    """From now on, an event that no reader needs ends the process."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(FORBIDDEN) or _opens_elsewhere(event, arguments, root):
            print(f"attacked: {event} {arguments!r}"[:500], flush=True)
            os._exit(3)

    sys.addaudithook(hook)


def _opens_elsewhere(event: str, arguments: tuple[Any, ...], root: Path) -> bool:
    """A file outside the table that is opened for writing, or that is none of Python's own."""
    if event == "import":
        return str(arguments[0]).split(".")[0] in {"a", "evil", "this", "antigravity"}
    if event != "open" or not isinstance(arguments[0], str) or not arguments[0].startswith("/"):
        return False
    allowed = (str(root), sys.prefix, sys.base_prefix, "/proc/", "/sys/", "/usr/lib", "/dev/")
    return "passwd" in arguments[0] or (
        bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) and not arguments[0].startswith(allowed)
    )


def read_all(root: Path) -> list[str]:
    """What each reader, and each call that deletes, is told."""

    def get(table: Any) -> Any:
        return table.get({"p": "a", "k": 1})

    def vacuum(table: Any) -> Any:
        return table.remove_orphan_files(10**14, dry_run=False)

    def compact(table: Any) -> Any:
        return table.compact(full=True)

    def verify(table: Any) -> Any:
        return table.verify()

    told = []
    for reader in (scan, get, changes, tagged, kept, expiry, verify, compact, vacuum):
        try:
            with lsmerge.open_table(str(root)) as table:
                reader(table)
            told.append("answered")
        except lsmerge.LsmergeError as error:
            told.append(f"refused: {error}"[:200])
        except Exception as error:  # noqa: BLE001 - to be told, not to be handled
            told.append(f"not ours: {error!r}"[:200])
    return told


# The tables that are no attack but odd: whatever readers answer is right.
HARMLESS = {"nothing", "next sequence without end", "level below all"}


def try_case(case: str) -> Tally:
    """One case in a process of its own."""
    tally = Tally()
    tally.attempt(case, lambda: _check_case(case, tally))
    return tally


def _check_case(case: str, tally: Tally) -> None:
    with scratch() as root:
        command = [sys.executable, "-m", "tests.long.hostile", case, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"ended with {done.returncode}: {done.stdout} {done.stderr}")
    told = json.loads(done.stdout)
    if any(answer.startswith("not ours") for answer in told):
        raise AssertionError(f"{told}")
    refused = sum(answer.startswith("refused") for answer in told)
    tally.notes["readers refused"] += refused
    if not refused and case not in HARMLESS:
        raise AssertionError("nobody noticed")


def main(case: str, directory: str) -> NoReturn:
    root = Path(directory) / "table"
    build(root)
    read_all(root)  # so that whatever is imported on the way is there
    root_of_case = Path(directory) / "hostile"
    build(root_of_case)
    CASES[case](root_of_case)
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + LIMIT_BYTES, mapped + LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    watch(root_of_case)
    print(json.dumps(read_all(root_of_case)))
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
