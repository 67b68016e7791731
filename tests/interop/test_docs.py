"""The examples of the pages about other libraries run."""

import re

from tests.test_docs import FENCE, ROOT

# On a page whose other examples need nothing, those that need a package are marked so.
PACKAGE_FENCE = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(name, fence=FENCE):
    page = ROOT / "docs" / name
    source = "\n".join(fence.findall(page.read_text()))
    assert source
    exec(compile(source, str(page), "exec"), {})


def test_page():
    run("interop.md")


def test_opentelemetry(capfd):
    run("observability.md", PACKAGE_FENCE)
    printed = capfd.readouterr().out
    assert '"name": "lsmerge.commit"' in printed
    assert '"name": "lsmerge.rows_written"' in printed
