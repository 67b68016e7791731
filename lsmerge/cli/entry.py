"""Where the program starts: it needs nothing, so that it can say what is missing."""

import sys
from importlib import import_module

NEEDED = ("click", "rich")
USAGE = 2


def main() -> int:
    """Run the command line of this process, or say how to install what it needs."""
    try:
        for name in NEEDED:
            import_module(name)
    except ModuleNotFoundError as error:
        print(
            f"lsmerge: the command line needs {error.name}: pip install 'lsmerge[cli]'",
            file=sys.stderr,
        )
        return USAGE
    code: int = import_module("lsmerge.cli.app").app.main(standalone_mode=False)
    return code
