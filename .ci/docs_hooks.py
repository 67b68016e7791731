"""Pages of the documentation site that are not files in docs/, and the links to them.

README, CHANGELOG, CONTRIBUTING and the guide to the benchmarks stay where readers of the source look for them. The
site shows them too, so links between them and the pages of docs/ are turned to where each is on the site.
"""

import posixpath
import re
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
DECISIONS = "adr"
_SOURCE_OF = {page: source for source, page in ELSEWHERE.items()}
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_LINK_TO_SOURCE = re.compile(r"\[([^\]]*)\]\(source:[^)]*\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Take in the pages that live outside docs/, and list the decisions."""
    for source, page in ELSEWHERE.items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, f"{DECISIONS}/index.md", content=_list_of_decisions()))
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
    turned = _LINK.sub(lambda link: _on_site(source, uri, link[1]) + (link[2] or ""), markdown)
    return _LINK_TO_SOURCE.sub(r"\1", turned)


def _list_of_decisions() -> str:
    lines = ["# Decisions", "", "What was decided, why, and what else was considered.", ""]
    for path in sorted((ROOT / DOCS / DECISIONS).glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)


def _on_site(source: str, page: str, target: str) -> str:
    """A link of `source`, a path in the repository, as one of `page`, a path on the site."""
    if ":" in target:
        return target
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in ELSEWHERE:
        wanted = ELSEWHERE[path]
    elif path == f"{DOCS}/{DECISIONS}":
        wanted = f"{DECISIONS}/index.md"
    elif path.startswith(f"{DOCS}/"):
        wanted = path.removeprefix(f"{DOCS}/")
    else:
        return f"source:{path}"
    return posixpath.relpath(wanted, posixpath.dirname(page) or ".")
