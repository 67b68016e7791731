"""Checks what `make wheel` built: a wheel of every module and of nothing else, and that it works where nothing else is.

    python .ci/check_wheel.py dist build/wheel-trial

Beside the wheel it leaves an inventory: the wheel and all that was installed with it, with versions and hashes, in the
form of CycloneDX. The wheel is installed into a new environment in the second directory and used from an empty one, so
that neither the checkout nor anything that was installed before can help. Standard library only.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("lsmerge", "lsmerge_native", "pyspark_lsmerge")
MOST_BYTES = 10_000_000
TRIAL = """
import importlib.util, pathlib, sys
import lsmerge, pyarrow as pa
assert pathlib.Path(lsmerge.__file__).is_relative_to(sys.prefix), lsmerge.__file__
assert importlib.util.find_spec("Cython") is None
assert importlib.util.find_spec("numpy") is None
options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
schema = pa.schema({"k": pa.string(), "n": pa.int64()})
with lsmerge.create_table("table", schema, "k", options=options) as t:
    t.upsert([{"k": "a", "n": 1}, {"k": "b", "n": 2}])
    t.upsert([{"k": "a", "n": 4}])
    t.compact(full=True)
with lsmerge.open_table("table") as t:
    assert t.scan().to_arrow().to_pylist() == [{"k": "a", "n": 5}, {"k": "b", "n": 2}]
    assert t.get("b") == {"k": "b", "n": 2} and t.verify().ok
"""


def main(dist: Path, trial: Path) -> int:
    (wheel,) = dist.glob("*.whl")
    found = list(faults(wheel))
    print(*found, sep="\n", end="\n" if found else "")
    if not found:
        try_out(wheel, trial)
        write_inventory(trial / "installed.json", wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, complete, and works by itself")
    return 1 if found else 0


def faults(wheel: Path) -> Iterator[str]:
    """What is too large, missing, or should not be there."""
    if wheel.stat().st_size >= MOST_BYTES:
        yield f"{wheel.name} has {wheel.stat().st_size} bytes; {MOST_BYTES} are too many"
    with zipfile.ZipFile(wheel) as archive:
        found = {_plain(name) for name in archive.namelist() if ".dist-info/" not in name}
        for name in archive.namelist():
            if name.endswith(".so") and b".debug_info" in archive.read(name):
                yield f"{wheel.name}: {name} has debugging symbols"
    wanted = set(files_of_packages())
    yield from (f"{wheel.name} lacks {name}" for name in sorted(wanted - found))
    yield from (f"{wheel.name} should not have {name}" for name in sorted(found - wanted))


def files_of_packages() -> Iterator[str]:
    """Every file of the packages but the sources of kernels and what was compiled here; kernels as plain names."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix == ".pyx":
                yield name.removesuffix(".pyx") + ".so"
            elif path.is_file() and path.suffix not in {".pxd", ".h", ".c", ".so", ".pyc"}:
                yield name


def _plain(name: str) -> str:
    """The name of a file of the wheel, without the platform that a kernel was compiled for."""
    path = PurePosixPath(name)
    return f"{path.parent}/{path.name.split('.')[0]}.so" if path.suffix == ".so" else name


def try_out(wheel: Path, trial: Path) -> None:
    """Install into a new environment and use it in an empty directory; `-I` leaves the path alone."""
    venv.create(trial, clear=True, with_pip=True)
    python = str(trial.resolve() / "bin" / "python")
    report = ["--report", str(trial / "installed.json")]
    install = [python, "-m", "pip", "install", "--quiet", *report, str(wheel.resolve())]
    subprocess.run(install, check=True)  # noqa: S603 - what was just built
    with tempfile.TemporaryDirectory(prefix="lsmerge-wheel-") as empty:
        use = [python, "-I", "-W", "error", "-c", TRIAL]
        subprocess.run(use, check=True, cwd=empty)  # noqa: S603 - the same


def write_inventory(installed: Path, wheel: Path) -> None:
    """What pip says that it installed; of the wheel itself, what it is here."""
    components = []
    for item in json.loads(installed.read_text())["install"]:
        found, archive = item["metadata"], item["download_info"].get("archive_info", {})
        own = {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
        hashes = own if found["name"] == "lsmerge" else archive.get("hashes", {})
        components.append(
            {
                "type": "library",
                "name": found["name"],
                "version": found["version"],
                "purl": f"pkg:pypi/{found['name'].lower()}@{found['version']}",
                "hashes": [{"alg": "SHA-256", "content": hashes["sha256"]}],
            }
        )
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    inventory = head | {"components": sorted(components, key=lambda one: one["name"].lower())}
    target = wheel.parent / "inventory.cdx.json"
    target.write_text(json.dumps(inventory, indent=1) + "\n", encoding="utf-8")
    print(f"{target.name}: {len(components)} packages with their hashes")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
