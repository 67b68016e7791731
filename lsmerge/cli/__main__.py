"""`python -m lsmerge.cli` is `lsmerge`."""

import sys

from lsmerge.cli.entry import main

sys.exit(main())
