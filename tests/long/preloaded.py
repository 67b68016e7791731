"""What the server of processes loads, so that none of them need. It starts no threads, and its objects stay."""

import gc

import tests.long.stages  # noqa: F401

gc.collect()
# A collection in a process that was forked does not look at them, so their pages stay shared.
gc.freeze()
