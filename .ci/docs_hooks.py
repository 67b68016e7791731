"""Pages of the documentation site that are not files in docs/, and the links to them.

README, CHANGELOG, CONTRIBUTING, the examples and the guide to the benchmarks stay where readers of the source look for
them. The site shows them too, so links between them and the pages of docs/ are turned to where each is on the site.
"""

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs"
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "benchmarks.md",
}
DECISIONS, EXAMPLES = "adr", "examples"
# A directory is shown as one page.
_PAGE_OF = {**ELSEWHERE, f"{DOCS}/{DECISIONS}": f"{DECISIONS}/index.md", EXAMPLES: "examples.md"}
_SOURCE_OF = {page: source for source, page in ELSEWHERE.items()}
_CODE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_LINK_TO_SOURCE = re.compile(r"\[([^\]]*)\]\(source:[^)]*\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Take in the pages that live outside docs/, list the decisions, and show the examples."""
    for source, page in ELSEWHERE.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, f"{DECISIONS}/index.md", content=_list_of_decisions()))
    files.append(File.generated(config, "examples.md", content="\n\n".join(_examples())))
    return files


def on_page_markdown(
    markdown: str,
    *,
    page: Page,
    config: MkDocsConfig,  # noqa: ARG001 - mkdocs hands it over by name
    files: Files,  # noqa: ARG001 - mkdocs hands it over by name
) -> str:
    """Turn the links of a page to where their targets are on the site; links to source files become their text."""
    uri = page.file.src_uri
    source = _SOURCE_OF.get(uri, f"{DOCS}/{uri}")
    parts = _CODE.split(markdown)  # prose and code in turn
    parts[::2] = [_turned(prose, source, uri) for prose in parts[::2]]
    return "".join(parts)


def _turned(prose: str, source: str, page: str) -> str:
    links = _LINK.sub(lambda link: _on_site(source, page, link[1]) + (link[2] or ""), prose)
    return _LINK_TO_SOURCE.sub(r"\1", links)


def _list_of_decisions() -> str:
    lines = ["# Decisions", "", "What was decided, why, and what else was considered.", ""]
    for path in sorted((ROOT / DOCS / DECISIONS).glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)


def _examples() -> Iterator[str]:
    yield "# Examples\n\nEach program checks its own result; tests run them, `make demo` runs those of Spark."
    for path in sorted((ROOT / EXAMPLES).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        story = ast.get_docstring(ast.parse(source)) or ""
        program = source.split('"""', 2)[2].strip()
        yield f"## {path.name}\n\n{story}\n\n```python\n{program}\n```"


def _on_site(source: str, page: str, target: str) -> str:
    """A link of `source`, a path in the repository, as one of `page`, a path on the site."""
    if ":" in target:
        return target
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in _PAGE_OF:
        wanted = _PAGE_OF[path]
    elif path.startswith(f"{DOCS}/"):
        wanted = path.removeprefix(f"{DOCS}/")
    else:
        return f"source:{path}"
    return posixpath.relpath(wanted, posixpath.dirname(page) or ".")
