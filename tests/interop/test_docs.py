"""The examples of the page about other libraries run."""

from tests.test_docs import FENCE, ROOT


def test_page():
    page = ROOT / "docs" / "interop.md"
    source = "\n".join(FENCE.findall(page.read_text()))
    exec(compile(source, str(page), "exec"), {})
