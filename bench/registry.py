"""Which stores are compared, and the environment each one runs in. Standard library only."""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANY = 1_000


@dataclass(frozen=True)
class StoreEntry:
    """One store. `repeat` and `gets` cap the repetitions of a store so slow that a run would
    take hours; the report names every store that is capped.
    """

    name: str
    requirements: tuple[str, ...]
    environment: str = ".venv-bench"
    repeat: int = MANY
    gets: int = MANY

    @property
    def adapter(self) -> str:
        """The module of the adapter; variants of one store (`name-variant`) share it."""
        return f"bench.stores.{self.name.partition('-')[0]}_store"

    @property
    def python(self) -> Path:
        """The interpreter to run under: of the store's environment where that exists."""
        own = ROOT / self.environment / "bin" / "python"
        return own if own.exists() else Path(sys.executable)


# pypaimon asks for an old pyarrow, which the others must not be held to: it lives alone.
STORES = (
    StoreEntry("lsmerge", ("numpy", "-e", ".")),
    StoreEntry("pypaimon", ("pypaimon",), ".venv-bench-pypaimon", repeat=1, gets=5),
    StoreEntry("pypaimon-rust", ("pypaimon", "pypaimon-rust"), ".venv-bench-pypaimon", gets=20),
    StoreEntry("deltalake", ("deltalake", "pyarrow"), gets=20),
    StoreEntry("rocksdict", ("rocksdict", "pyarrow")),
    StoreEntry("lmdb", ("lmdb", "pyarrow")),
    StoreEntry("duckdb", ("duckdb", "pyarrow")),
)


def entry(name: str) -> StoreEntry:
    """The store of that name, or a ValueError that lists them all."""
    for candidate in STORES:
        if candidate.name == name:
            return candidate
    known = ", ".join(candidate.name for candidate in STORES)
    raise ValueError(f"unknown store {name!r}; known: {known}")
