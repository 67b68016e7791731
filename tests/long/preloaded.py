"""What the server of tries loads, so that a try need not."""

import pyarrow.acero
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet  # noqa: F401

import tests.long.stages  # noqa: F401
