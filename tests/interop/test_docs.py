"""The examples of the pages about other libraries run."""

import re
import subprocess
import sys

from tests.test_docs import FENCE, ROOT

# On a page whose other examples need nothing, those that need a package are marked so.
PACKAGE_FENCE = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(name, fence=FENCE):
    found = "\n".join(fence.findall((ROOT / "docs" / name).read_text()))
    assert found
    return found


def test_page():
    exec(compile(examples("interop.md"), "interop.md", "exec"), {})


def test_opentelemetry():
    """In a process of its own: what prints keeps the standard output that it was imported with."""
    source = examples("observability.md", PACKAGE_FENCE)
    run = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    printed = run.stdout
    assert '"name": "lsmerge.commit"' in printed
    assert '"name": "lsmerge.rows_written"' in printed
