"""What `import lsmerge` costs: `python -m bench.import_time`.

Best of several fresh processes, apart from the interpreter's own start, with the share of pyarrow
and whether anything heavy came along. Byte code is cached in a directory of its own, as it would be
for an installed package, whatever the environment says of writing it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from bench.registry import ROOT

HEAVY = ("numpy", "pandas", "pyspark", "polars", "obstore", "pyarrow.compute", "pyarrow.parquet")
PROBE = """
import json, sys, time
started = time.perf_counter()
import {first}
between = time.perf_counter()
import lsmerge
{use}
ended = time.perf_counter()
print(json.dumps([between - started, ended - between, sorted(sys.modules)]))
"""


def probe(first: str, cache: str, use: str = "lsmerge.Table") -> tuple[float, float, list[str]]:
    """Seconds for `first`, seconds for lsmerge after it, and the modules then loaded."""
    process = subprocess.run(
        [sys.executable, "-c", PROBE.format(first=first, use=use)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""},
    )
    before, ours, modules = json.loads(process.stdout)
    return before, ours, modules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as cache:
        imported = [probe("time", cache, use="") for _ in range(repeat)]
        alone = [probe("time", cache) for _ in range(repeat)]
        after_pyarrow = [probe("pyarrow", cache) for _ in range(repeat)]
    print(f"import lsmerge         {min(ours for _, ours, _ in imported) * 1e3:7.1f} ms")
    print(f"and its engine         {min(ours for _, ours, _ in alone) * 1e3:7.1f} ms")
    print(f"  of it pyarrow        {min(first for first, _, _ in after_pyarrow) * 1e3:7.1f} ms")
    print(f"  of it lsmerge        {min(ours for _, ours, _ in after_pyarrow) * 1e3:7.1f} ms")
    print(f"modules loaded         {len(alone[0][2]):7d}")
    print(f"heavy ones among them  {', '.join(m for m in alone[0][2] if m in HEAVY) or 'none'}")


if __name__ == "__main__":
    main()
