"""Checks the Markdown files: every relative link leads somewhere, every Python example compiles.

Prints one line per fault, as file:line: what is wrong, and exits 1 if there is any. Standard
library only, so that it runs on a fresh checkout.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = ("build", "dist", "site")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*```(\w*)")
HEADING = re.compile(r"^#+\s+(.*)$")


def markdown_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*.md")):
        top = path.relative_to(ROOT).parts[0]
        if not top.startswith(".") and top not in SKIPPED:
            yield path


def faults(path: Path) -> Iterator[str]:
    """What is wrong in one file, each with its line."""
    where = path.relative_to(ROOT)
    for number, target in links(path):
        if not _leads_somewhere(path, target):
            yield f"{where}:{number}: the link {target} leads nowhere"
    for number, source in python_examples(path):
        try:
            ast.parse(textwrap.dedent(source))
        except SyntaxError as error:
            line = number + (error.lineno or 1)
            yield f"{where}:{line}: the example does not compile: {error.msg}"


def links(path: Path) -> Iterator[tuple[int, str]]:
    """Line and target of each relative link outside code."""
    for number, line in _prose(path):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if "://" not in target and not target.startswith("mailto:"):
                yield number, target


def python_examples(path: Path) -> Iterator[tuple[int, str]]:
    """Line of the fence and text of each Python example; consoles and fragments are not Python."""
    for number, language, source in _fences(path):
        if language == "python" and not source.lstrip().startswith(">>>"):
            yield number, source


def _leads_somewhere(path: Path, target: str) -> bool:
    file_part, _, anchor = target.partition("#")
    destination = (path.parent / file_part).resolve() if file_part else path
    if not destination.exists():
        return False
    return not anchor or destination.suffix != ".md" or anchor in _anchors(destination)


def _anchors(path: Path) -> set[str]:
    """Anchors of the headings, as the common hosts make them."""
    matches = (HEADING.match(line) for _, line in _prose(path))
    texts = (match.group(1).lower() for match in matches if match)
    return {re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-") for text in texts}


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def _fences(path: Path) -> Iterator[tuple[int, str, str]]:
    start, language, body = 0, "", list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence and not start:
            start, language, body = number, fence.group(1), []
        elif fence:
            yield start, language, "\n".join(body)
            start = 0
        elif start:
            body.append(line)


def main() -> int:
    found = [fault for path in markdown_files() for fault in faults(path)]
    print("\n".join(found) if found else "documentation: links and examples are sound")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
