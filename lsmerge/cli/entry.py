"""Where the program starts: it needs nothing, so that it can say what is missing."""

import sys
from importlib import import_module
from typing import NoReturn

NEEDED = ("click", "rich")
USAGE = 2


def run() -> NoReturn:
    """The program itself: what `main` does, then the end of the process."""
    streams = import_module("lsmerge.cli.user_files")
    streams.make_usable()
    streams.leave(main())
    raise AssertionError("the process has ended")


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
