"""What the server of processes loads and does, so that none of them need. It leaves no thread; its objects stay."""

import gc

from tests.long.scripts import SCRIPTS, early_folding, register
from tests.long.stages import on_one_thread, scratch


def warm_up() -> None:
    """Do every step once: what Arrow and Python set up at a first call takes longer than the step itself."""
    register()
    with scratch() as root, early_folding(), on_one_thread():
        for step in SCRIPTS["whole-life"]("deduplicate"):
            step.do(str(root / "table"))


warm_up()
gc.collect()
# A collection in a process that was forked does not look at them, so their pages stay shared.
gc.freeze()
