"""Makes the environments that the stores run in: `python -m bench.peers`.

Each store is installed by its own pip call, so that one which cannot be installed here is skipped
by name and the others are compared all the same. Standard library only: it runs before anything
is installed.
"""

import subprocess
import sys
import venv
from pathlib import Path

from bench.registry import ROOT, STORES, StoreEntry

OURS = "lsmerge"
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")


def install(store: StoreEntry) -> str | None:
    """Installs one store into its environment; the reason if that fails."""
    python = environment(ROOT / store.environment)
    process = subprocess.run(
        [python, *PIP, "install", "--quiet", *store.requirements],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode == 0:
        return None
    return (process.stderr.strip() or "no message").splitlines()[-1]


def environment(directory: Path) -> Path:
    """The interpreter of an environment, which is made if it is not there."""
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        subprocess.run([python, *PIP, "install", "--quiet", "--upgrade", "pip"], check=True)
    return python


def main() -> None:
    for store in STORES:
        print(f"installing {store.name} into {store.environment}", flush=True)
        reason = install(store)
        if reason is None:
            continue
        if store.name == OURS:
            sys.exit(f"{OURS} cannot be installed: {reason}")
        print(f"skipped: {store.name}: {reason}", flush=True)


if __name__ == "__main__":
    main()
